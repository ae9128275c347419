"""Chapter 15: the table of its experiment, once more with other random numbers.

    python experiments/mistakes_matrix.py [--seeds 0 1 2]

Every property is asked of every broken model, as `catalogue.mistake_matrix` does. Seed 0 draws what
the chapter draws; with another one all parameters, sentences, masks and vectors that the properties
draw are others. "patterns" is the number of different rows in the table; "differ" names what some
rows find otherwise than with the first seed; "one batch" is the models that do not memorise one
batch, and "stopped" those of them that stop with an error; "alone" is what only `copied` or `count`
catches; the two covers are all the smallest sets of properties that catch the others, and all.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.mistakes.catalogue import COLUMNS, findings_of, mistake_matrix
from measure.experiments import Run, command_line, grid

APART = 10_000  # between the seeds that the properties use, so that none comes twice
OUTSIDE = ("copied", "count")  # properties that need something to compare with


@contextmanager
def other_numbers(seed: int) -> Iterator[None]:
    """Let every seed that is set, of torch or of a generator, be another one."""
    set_seed = torch.manual_seed

    class Generator(torch.Generator):
        def manual_seed(self, given: int) -> torch.Generator:
            return super().manual_seed(given + APART * seed)

    with (
        mock.patch.object(torch, "manual_seed", lambda given: set_seed(given + APART * seed)),
        mock.patch.object(torch, "Generator", Generator),
    ):
        yield


def run(seed: int) -> dict[str, Any]:
    with other_numbers(seed):
        matrix, right = mistake_matrix(), findings_of(None)
    caught = {
        name: [column for column in COLUMNS if not row[column].held] for name, row in matrix.items()
    }
    stopped = [name for name, row in matrix.items() if row["one batch"].number is None]
    wrong = [name for name, finding in right.items() if not finding.held]
    return {"right": wrong, "caught": caught, "stopped": stopped}


def smallest_cover(caught: dict[str, list[str]], allowed: list[str]) -> list[list[str]]:
    """All sets of properties, as few as will do, that catch whatever one of the allowed catches."""
    left = [found & set(allowed) for found in map(set, caught.values()) if found & set(allowed)]
    sizes = (combinations(allowed, size) for size in range(len(allowed) + 1))
    covers = ([list(s) for s in sets if all(found & set(s) for found in left)] for sets in sizes)
    return next(filter(None, covers))


def record(runs: list[Run]) -> dict[str, Any]:
    first = runs[0]["caught"]
    rows = []
    for one in runs:
        caught = one["caught"]
        groups: dict[tuple[str, ...], list[str]] = {}
        for name, found in caught.items():
            groups.setdefault(tuple(found), []).append(name)
        rows.append(
            {
                "right": one["right"],
                "missed": [name for name, found in caught.items() if not found],
                "patterns": len(groups),
                "shared": [names for names in groups.values() if len(names) > 1],
                "differ": {
                    name: sorted(set(found) ^ set(first[name]))
                    for name, found in caught.items()
                    if found != first[name]
                },
                "one batch": [name for name, found in caught.items() if "one batch" in found],
                "stopped": one["stopped"],
                "alone": [
                    n for n, found in caught.items() if found and not set(found) - {*OUTSIDE}
                ],
                "cover without": smallest_cover(caught, [c for c in COLUMNS if c not in OUTSIDE]),
                "cover": smallest_cover(caught, list(COLUMNS)),
            }
        )
    return {"seeds": [one["seed"] for one in runs], "mistakes": len(first), "by_seed": rows}


def conclude(record: dict[str, Any]) -> None:
    """Assert what chapter 15 concludes, for every seed."""
    for one in record["by_seed"]:
        assert not one["right"], "the right model passes"
        assert not one["missed"], "each mistake is caught"
        assert not one["differ"], "no cell of the table changes"
        assert (record["mistakes"], one["patterns"]) == (27, 22), "22 patterns in 27 rows"
        assert (len(one["one batch"]), len(one["stopped"])) == (3, 2), "one batch catches three"
        for cover, size in (("cover without", 9), ("cover", 5)):
            assert [len(properties) for properties in one[cover]] == [size], "no others do"


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"seed": (0, 1, 2)}, arguments)
    recorded = grid(run, given, record)
    if recorded:
        conclude(dict(recorded))


if __name__ == "__main__":
    main()

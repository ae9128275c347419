"""Byte pairs beside characters in chapter 14's laboratory: a few merges help, many do not.

    python benchmarks/byte_pairs.py [--seeds 0 1 2 ...] [--only MERGES ...]

Each run trains on first names as in language.py, whose record has the same seeds with characters,
and is measured as there: losses are for each character, so they can be compared. Recorded after
each run: how many pieces there are, how long one is on average, and what language.py records. It
writes benchmarks/results/byte_pairs.json; at the end the runs are held against what the chapter
lets a reader find.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from playwright.sync_api import Browser, sync_playwright

from benchmarks import language
from measure.experiments import Run, command_line, grid
from measure.records import read_results
from scripts import chromium
from tests.browser.fixtures import FLAGS

TEXT = "names"
FEW, MANY = 50, 200
SEEDS = range(3)
SHOWN = ("counted", "least", "step", "held", "taught", "beaten", "seconds", "copied", "kept")


def run(merges: int, seed: int, browser: Browser) -> dict[str, Any]:
    """One run, with what is recorded of it."""
    found = language.run(TEXT, language.USUAL, seed, browser, merges=merges)
    return {"kinds": found["sizes"]["kinds"], "long": round(found["sizes"]["long"], 3)} | {
        name: round(value, 4) if isinstance(value := found[name], float) else value
        for name in SHOWN
    }


def of(runs: Sequence[Run], merges: int, name: str) -> list[Any]:
    """A figure of the runs with so many merges."""
    return [one[name] for one in runs if one["merges"] == merges]


def broken(record: Mapping[str, Any]) -> list[str]:
    """What a reader should see, and does not on some seed."""
    problems = []
    runs = record["runs"]
    plain = read_results("language")
    usual = plain["texts"][TEXT][str(language.USUAL)]
    for one in runs:
        place = plain["seeds"].index(one["seed"])
        held, taught = (usual[name][place] for name in ("held", "taught"))
        setting = f"{one['merges']} merges, seed {one['seed']}"
        if one["taught"] >= taught:
            problems.append(f"{setting}: the training loss is not below that of characters")
        if (one["held"] < held) is not (one["merges"] == FEW):
            problems.append(f"{setting}: held-out loss {one['held']}, of characters {held}")
    return problems


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"merges": (FEW, MANY), "seed": SEEDS}, arguments)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.executable(), args=FLAGS)
        name = f"Chromium {browser.version}"
        written = grid(
            partial(run, browser=browser),
            given,
            lambda runs: {"browser": name, "text": TEXT, "dropout": language.USUAL, "runs": runs},
            keeps_runs=True,
        )
        browser.close()
    if problems := broken(written) if written else []:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()

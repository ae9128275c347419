"""The losses of one run or two over their updates, with the best validation marked."""

from collections.abc import Iterator, Sequence
from typing import Any

from widgets import domain
from widgets.base import BookWidget, static_table

POINTS = 300  # of a curve; longer ones are shown by the means of some updates each
ROWS = 20  # of the table that a reader without scripts sees


class RunLosses(BookWidget):
    """Training and validation losses of a run; of two runs also their validation losses together.

    Args: runs, each with its name, its `training` and `validation` losses as pairs of an update and
        a loss, and `best`, the pair that the kept parameters had; shown, 0 for the first run, and
        so on; the last number is all runs together.
    """

    _module = "run_losses"
    runs = domain.Fixed()
    shown = domain.Place()

    def __init__(self, runs: Sequence[dict[str, Any]], **start: int):
        curves = [
            {
                "name": run["name"],
                "training": [[n, domain.quantise(y, 4)] for n, y in thinned(run["training"])],
                "validation": [[n, domain.quantise(y, 4)] for n, y in thinned(run["validation"])],
                "best": [run["best"][0], domain.quantise(run["best"][1], 4)],
            }
            for run in runs
        ]
        super().__init__(runs=curves, **start)

    def limits(self) -> Iterator[tuple[str, int]]:
        yield "shown", len(self.runs) if len(self.runs) > 1 else 0

    def summary(self) -> str:
        return f"RunLosses: {' and '.join(run['name'] for run in self.runs)}"

    def static_html(self) -> str:
        tables = []
        for run in self.runs:
            losses = run["validation"]
            rows = [(f"{n:,}", f"{y:.3f}") for n, y in losses[:: -(-len(losses) // ROWS) or 1]]
            caption = f"{run['name']}: the best after update {run['best'][0]:,}"
            tables.append(static_table(caption, ("update", "validation loss"), rows))
        return "".join(tables)


def thinned(curve: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """At most `POINTS` points: each the last update of some, and the mean of their losses."""
    together = -(-len(curve) // POINTS) or 1
    groups = [curve[at : at + together] for at in range(0, len(curve), together)]
    return [(group[-1][0], sum(loss for _, loss in group) / len(group)) for group in groups]

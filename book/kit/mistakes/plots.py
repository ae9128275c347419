"""The figure of chapter 15: which property catches which mistake."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from kit.shared.axes import COLOURS
from kit.shared.checks import Finding


def plot_findings(
    matrix: Mapping[str, Mapping[str, Finding]], titles: Mapping[str, str] | None = None
) -> Axes:
    """Draw a row for each mistake and a column for each property: filled where it fails.

    A dot marks a model that stops with an error. titles replace the names of the rows.

    Errors: ValueError for no rows, or rows with unequal properties.
    """
    rows = list(matrix.values())
    if not rows or any(list(row) != list(rows[0]) for row in rows):
        raise ValueError("expected rows that all have the same properties, at least one row")
    names, columns = list(matrix), list(rows[0])
    size = (0.28 * len(columns) + 2.6, 0.2 * len(names) + 1.1)
    _, axes = plt.subplots(figsize=size, layout="constrained", facecolor="white")
    fails = [[not finding.held for finding in row.values()] for row in rows]
    axes.imshow(fails, cmap=ListedColormap(["#f2f2f2", COLOURS[0]]), vmin=0, vmax=1, aspect="auto")
    stops = [
        (j, i)
        for i, row in enumerate(rows)
        for j, finding in enumerate(row.values())
        if finding.number is None
    ]
    if stops:
        axes.scatter(*zip(*stops, strict=True), s=12, color="white")
    axes.set_yticks(range(len(names)), [(titles or {}).get(name, name) for name in names])
    axes.set_xticks(range(len(columns)), columns, rotation=90)
    axes.xaxis.tick_top()
    axes.set_xticks([j + 0.5 for j in range(len(columns) - 1)], minor=True)
    axes.set_yticks([i + 0.5 for i in range(len(names) - 1)], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0, labelsize=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes

"""The figure of the chapter: which property catches which mistake."""

from collections.abc import Mapping

import torch
from matplotlib.axes import Axes

from checks.framework import Finding
from drawing.axes import draw_cells, new_panels


def plot_findings(
    matrix: Mapping[str, Mapping[str, Finding]], titles: Mapping[str, str] | None = None
) -> Axes:
    """Draw a row for each mistake and a column for each property: filled where it fails.

    A dot marks a model that stops with an error. titles replace the names of the rows.

    Returns the Axes. Errors: ValueError for no rows, or rows with unequal properties.
    """
    rows = [list(row.values()) for row in matrix.values()]
    names = [(titles or {}).get(name, name) for name in matrix]
    properties = {tuple(row) for row in matrix.values()}
    if len(properties) != 1:
        raise ValueError("expected rows that all have the same properties, at least one row")
    (columns,) = properties
    size = (0.28 * len(columns) + 2.6, 0.2 * len(names) + 1.1)
    (axes,) = new_panels(1, 1, size)
    fails = torch.tensor([[not finding.held for finding in row] for row in rows])
    draw_cells(axes, fails, names, columns, aspect="auto")
    stops = torch.tensor([[finding.number is None for finding in row] for row in rows]).nonzero()
    if len(stops):
        axes.scatter(stops[:, 1], stops[:, 0], s=12, color="white")
    axes.xaxis.tick_top()
    axes.tick_params(which="both", labelsize=8)
    axes.tick_params(axis="x", rotation=90)
    axes.spines[:].set_visible(False)
    return axes

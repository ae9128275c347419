"""Figures about cost: curves on two logarithmic axes, and which inputs reach which outputs.

Each function returns the Axes it drew on.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator
from torch import Tensor

from kit.shared.axes import COLOURS, MARKERS, new_axes

STYLES = ("-", "--", ":", "-.")


def plot_log(
    curves: Mapping[str, tuple[Sequence[float | int], Sequence[float | int]]],
    xlabel: str,
    ylabel: str,
    *,
    level: float | int | None = None,
    axes: Axes | None = None,
) -> Axes:
    """Draw curves on two logarithmic axes, where a power of x is a straight line.

    Args: curves, each its x and its y; level, a height to mark by a line.
    Errors: ValueError for no curve, or numbers that a logarithmic axis cannot show.
    """
    if not curves or not all(v > 0 for x, y in curves.values() for v in (*x, *y)):
        raise ValueError(f"expected curves of numbers above 0, got {dict(curves)}")
    axes = axes or new_axes(6.6, 3.8)
    looks = zip(COLOURS, MARKERS, STYLES * 2, strict=False)
    for (name, (x, y)), (colour, marker, style) in zip(curves.items(), looks, strict=False):
        axes.plot(x, y, color=colour, marker=marker, linestyle=style, markersize=4.5, label=name)
    if level is not None:
        axes.axhline(level, color="#555555", linewidth=1)
    axes.set(xlabel=xlabel, ylabel=ylabel, xscale="log", yscale="log")
    places = sorted({value for x, _ in curves.values() for value in x})
    axes.xaxis.set_major_locator(FixedLocator(places))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes


def plot_reach(
    maps: Mapping[str, Bool[Tensor, "output_time input_time"]], columns: int = 4
) -> Axes:
    """Draw which inputs reach which outputs, one square for each map; rows are outputs.

    Returns the axes of the first map. Errors: ValueError for no map.
    """
    if not maps:
        raise ValueError("expected at least one map to draw, got none")
    rows = -(-len(maps) // columns)
    figure, grid = plt.subplots(
        rows,
        columns,
        figsize=(1.75 * columns, 2.0 * rows),
        layout="constrained",
        facecolor="white",
        squeeze=False,
    )
    for axes in grid.flat[len(maps) :]:
        axes.set_axis_off()
    for (title, reached), axes in zip(maps.items(), grid.flat, strict=False):
        axes.imshow(reached.numpy(), cmap="Blues", vmin=0, vmax=1.3, interpolation="none")
        axes.set_title(title, fontsize=9)
        axes.set(xticks=[], yticks=[])
    figure.supxlabel("input position", fontsize=9)
    figure.supylabel("output position", fontsize=9)
    return grid.flat[0]

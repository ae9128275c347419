"""The figures about attention: curves over a width, attention maps, fits of a curve.

Each function returns the Axes it drew on. Queries are rows and keys are columns in every map.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from kit.shared.axes import COLOURS, MARKERS, new_axes


def plot_curves(
    x: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    *,
    log: str = "",
    axes: Axes | None = None,
) -> Axes:
    """Draw one line for each curve over the same x; `log` names the axes with a log scale.

    Errors: ValueError for a curve that is not as long as x.
    """
    axes = axes or new_axes()
    for (name, y), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False):
        if len(y) != len(x):
            raise ValueError(f"expected {len(x)} points in {name!r}, as in x, got {len(y)}")
        axes.plot(x, y, color=colour, marker=marker, label=name)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if "x" in log:
        axes.set_xscale("log", base=2)
        axes.set_xticks(x, [f"{value:g}" for value in x], minor=False)
        axes.minorticks_off()
    if "y" in log:
        axes.set_yscale("log")
    if len(curves) > 1:
        axes.legend(frameon=False)
    return axes


def plot_fits(
    points: tuple[Sequence[float], Sequence[float]],
    grid: Sequence[float],
    fits: Mapping[str, Sequence[float]],
    truth: Sequence[float] | None = None,
) -> Axes:
    """Draw data as dots and fitted curves side by side, one panel each; the truth is dashed.

    Returns the last Axes. Errors: ValueError for a fit that is not as long as the grid.
    """
    _, panels = plt.subplots(
        1,
        len(fits),
        figsize=(2.6 * len(fits), 2.8),
        sharey=True,
        layout="constrained",
        facecolor="white",
        squeeze=False,
    )
    for axes, (name, fit) in zip(panels[0], fits.items(), strict=True):
        if len(fit) != len(grid):
            raise ValueError(f"expected {len(grid)} points in {name!r}, as in x, got {len(fit)}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.scatter(*points, s=12, color="#777777")
        if truth is not None:
            axes.plot(grid, truth, color="black", linewidth=1, linestyle="--")
        axes.plot(grid, fit, color=COLOURS[1], linewidth=2)
        axes.set(title=name, xlabel="x")
    panels[0][0].set_ylabel("y")
    return axes

"""The figures about attention: curves over a width, fits of a curve."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from kit.shared.axes import COLOURS, draw_curves, new_axes, new_panels


def plot_curves(
    x: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    *,
    log: str = "",
) -> Axes:
    """Draw one line for each curve over the same x; `log` names the axes with a log scale.

    Returns the Axes. Errors: ValueError for a curve that is not as long as x.
    """
    drawn = {name: (x, y) for name, y in curves.items()}
    axes = draw_curves(new_axes(), drawn, xlabel, ylabel, log=log)
    if "x" in log:
        axes.set_xticks(x)
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
    panels = new_panels(len(fits), len(fits), (2.6, 2.8), sharey=True)
    for axes, (name, fit) in zip(panels, fits.items(), strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        axes.scatter(*points, s=12, color="#777777")
        if truth is not None:
            axes.plot(grid, truth, color="black", linewidth=1, linestyle="--")
        curve = {name: (grid, fit)}
        draw_curves(axes, curve, "x", "", markers=False, color=COLOURS[1], linewidth=2)
        axes.set_title(name)
    panels[0].set_ylabel("y")
    return panels[-1]

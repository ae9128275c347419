"""The figures about embeddings and the softmax: curves over a number that the chapter turns."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from drawing.axes import COLOURS, GREY, MARKERS, Numbers, draw_curves, new_axes


def plot_curves(
    x: Numbers,
    curves: Mapping[str, Numbers],
    xlabel: str,
    ylabel: str,
    *,
    level: tuple[str, float] | None = None,
    log: str = "",
    best: bool = False,
) -> Axes:
    """Draw one line for each curve over x; a level with its name is a dashed line across.

    `log` names the axes with a logarithmic scale: "", "x", "y" or "xy". `best` marks the lowest
    point of each curve. Returns the Axes.

    Errors: ValueError for no curves, a curve that is not as long as x, or another word for `log`.
    """
    if log not in ("", "x", "y", "xy"):
        raise ValueError(f"expected log out of '', 'x', 'y', 'xy', got {log!r}")
    dots = len(x) <= 12  # more of them would hide the line
    drawn = {name: (x, y) for name, y in curves.items()}
    axes = draw_curves(new_axes(), drawn, xlabel, ylabel, markers=dots, log=log)
    if best:
        for y, colour, marker in zip(curves.values(), COLOURS, MARKERS, strict=False):
            lowest = list(y).index(min(y))
            axes.plot(x[lowest], y[lowest], color=colour, marker=marker, markersize=9)
    if level:
        axes.axhline(level[1], color=GREY, linestyle="--", linewidth=1, label=level[0])
        axes.legend(frameon=False)
    if "x" in log:
        axes.set_xticks(x if dots else axes.get_xticks())
    if "y" in log:
        axes.yaxis.set_major_formatter("{x:g}")
        axes.autoscale(axis="y")  # around the level too
    return axes

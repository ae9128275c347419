"""The figures about embeddings and the softmax: curves over a number that the chapter turns."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from kit.shared.axes import COLOURS, MARKERS, new_axes


def plot_curves(
    x: Sequence[int | float],
    curves: Mapping[str, Sequence[int | float]],
    xlabel: str,
    ylabel: str,
    *,
    level: tuple[str, float] | None = None,
    log: str = "",
    best: bool = False,
    axes: Axes | None = None,
) -> Axes:
    """Draw one line for each curve over x; a level with its name is a dashed line across.

    `log` names the axes with a logarithmic scale: "", "x", "y" or "xy". `best` marks the lowest
    point of each curve.

    Errors: ValueError for no curves, a curve that is not as long as x, or another word for `log`.
    """
    if not curves or log not in ("", "x", "y", "xy"):
        raise ValueError(f"expected curves and log out of '', x, y, xy, got {len(curves)}, {log!r}")
    axes = axes or new_axes()
    dots = len(x) <= 12  # more of them would hide the line
    for (name, y), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False):
        if len(y) != len(x):
            raise ValueError(f"expected {len(x)} values in {name!r}, got {len(y)}")
        axes.plot(x, y, color=colour, marker=marker if dots else None, label=name)
        if best:
            lowest = min(range(len(x)), key=lambda i, y=y: y[i])
            axes.plot(x[lowest], y[lowest], color=colour, marker=marker, markersize=9)
    if level:
        axes.axhline(level[1], color="#555555", linestyle="--", linewidth=1, label=level[0])
    if "x" in log:
        axes.set_xscale("log", base=2)
        axes.set_xticks(x if dots else axes.get_xticks())
        axes.xaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    if "y" in log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if len(curves) > 1 or level:
        axes.legend(frameon=False)
    return axes

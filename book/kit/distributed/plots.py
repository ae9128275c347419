"""The figures of the chapter."""

from collections.abc import Sequence

from matplotlib.axes import Axes

from kit.shared.axes import COLOURS, new_axes


def plot_curve(
    x: Sequence[int | float], y: Sequence[int | float], xlabel: str, ylabel: str
) -> Axes:
    """Draw y over x as one line with named axes.

    Errors: ValueError for lists of different lengths.
    """
    if len(x) != len(y):
        raise ValueError(f"expected as many y as x, got {len(y)} and {len(x)}; give both")
    axes = new_axes()
    axes.plot(x, y, color=COLOURS[0], marker="o")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return axes

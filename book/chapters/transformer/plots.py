"""The chapter's figure of data: ranges that should overlap."""

from collections.abc import Mapping

from matplotlib.axes import Axes

from drawing.axes import COLOURS, new_axes

SOFT = "#52606e"


def plot_ranges(
    ranges: Mapping[str, tuple[float, float]],
    shared: tuple[float, float],
    marked: Mapping[str, float],
    xlabel: str,
) -> Axes:
    """Draw a range a row; those that overlap `shared`, which is shaded, are filled circles.

    Args: marked, values to mark by a line, by name.
    Errors: ValueError for a range whose end comes before its start.
    """
    axes = new_axes(6.4, 0.9 + 0.3 * len(ranges))
    axes.axvspan(*shared, color=COLOURS[2], alpha=0.35, linewidth=0, zorder=0)
    for row, (name, (low, high)) in enumerate(ranges.items()):
        if high < low:
            raise ValueError(f"expected a start before the end of {name!r}, got {low} and {high}")
        meets = low <= shared[1] and shared[0] <= high
        colour, face = (COLOURS[0], COLOURS[0]) if meets else (COLOURS[1], "white")
        axes.plot([low, high], [row, row], "-o", color=colour, markerfacecolor=face, linewidth=2.5)
    for name, value in marked.items():
        axes.axvline(value, color=SOFT, linestyle="--", linewidth=1)
        axes.annotate(
            name, (value, 1.0), (0, 3), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", color=SOFT, fontsize=9,
        )  # fmt: skip
    axes.set_yticks(range(len(ranges)), list(ranges))
    axes.invert_yaxis()
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(xlabel)
    return axes

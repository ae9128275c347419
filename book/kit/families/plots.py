"""The figure of chapter 14: which share of hidden tokens each family guesses, place by place.

Returns the Axes it drew on.
"""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from kit.shared.axes import COLOURS, MARKERS, new_axes


def plot_gaps(
    shares: Mapping[str, Sequence[float]], ceiling: float, axes: Axes | None = None
) -> Axes:
    """Draw shares from 0 to 1 over the position of the gap, one series for each model.

    Positions count from 1. Args: ceiling, what no model can pass at position 1 that sees the left
    side alone: drawn as a dashed line there. Errors: ValueError for series of unequal lengths.
    """
    if len({len(series) for series in shares.values()}) != 1:
        lengths = [len(series) for series in shares.values()]
        raise ValueError(f"expected series of one length, got {lengths}")
    axes = axes or new_axes()
    for (name, series), colour, marker in zip(shares.items(), COLOURS, MARKERS, strict=False):
        places = range(1, len(series) + 1)
        axes.plot(places, series, ":", color=colour, marker=marker, markersize=8, label=name)
    axes.hlines(ceiling, 0.7, 1.3, color="#555555", linestyle="--", linewidth=1.2)
    axes.annotate(
        "most that the left side allows", (1.3, ceiling), (5, -3), textcoords="offset points",
        color="#555555", fontsize=9,
    )  # fmt: skip
    axes.set_xticks(list(places), [str(place) for place in places])
    axes.set(xlabel="position of the gap", ylabel="guessed", xlim=(0.6, len(places) + 0.4))
    axes.set_ylim(-0.03, 1.03)
    axes.legend(frameon=False, loc="center right")
    return axes

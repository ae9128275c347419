"""The figure of the chapter: which share of hidden tokens each family guesses, place by place."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from kit.shared.axes import GREY, draw_curves, new_axes


def plot_gaps(shares: Mapping[str, Sequence[float]], ceiling: float) -> Axes:
    """Draw shares from 0 to 1 over the position of the gap, one series for each model.

    Positions count from 1. Args: ceiling, what no model can pass at position 1 that sees the left
    side alone: drawn as a dashed line there. Returns the Axes.
    Errors: ValueError for series of unequal lengths.
    """
    lengths = [len(series) for series in shares.values()]
    if len(set(lengths)) != 1:
        raise ValueError(f"expected series of one length, got {lengths}")
    places = range(1, lengths[0] + 1)
    curves = {name: (places, series) for name, series in shares.items()}
    axes, xlabel = new_axes(), "position of the gap"
    draw_curves(axes, curves, xlabel, "guessed", legend="center right", linestyle=":", markersize=8)
    axes.hlines(ceiling, 0.7, 1.3, color=GREY, linestyle="--", linewidth=1.2)
    axes.annotate(
        "most that the left side allows", (1.3, ceiling), (5, -3), textcoords="offset points",
        color=GREY, fontsize=9,
    )  # fmt: skip
    axes.set_xticks(places)
    axes.set(xlim=(0.6, len(places) + 0.4), ylim=(-0.03, 1.03))
    return axes

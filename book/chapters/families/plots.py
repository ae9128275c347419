"""The figures of the chapter: what each family guesses, by position, and what the lens reads."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from drawing.axes import GREY, draw_curves, draw_map, new_axes


def plot_gaps(fractions: Mapping[str, Sequence[float]], ceiling: float) -> Axes:
    """Draw fractions from 0 to 1 over the position of the masked token, one series for each model.

    Positions count from 1. Args: ceiling, what no model can pass at position 1 that sees the left
    side alone: drawn as a dashed line there. Returns the Axes.
    Errors: ValueError for series of unequal lengths.
    """
    lengths = [len(series) for series in fractions.values()]
    if len(set(lengths)) != 1:
        raise ValueError(f"expected series of one length, got {lengths}")
    positions = range(1, lengths[0] + 1)
    curves = {name: (positions, series) for name, series in fractions.items()}
    axes, xlabel = new_axes(), "position of the masked token"
    draw_curves(axes, curves, xlabel, "guessed", legend="center right", linestyle=":", markersize=8)
    axes.hlines(ceiling, 0.7, 1.3, color=GREY, linestyle="--", linewidth=1.2)
    axes.annotate(
        "most that the left side allows", (1.3, ceiling), (5, -3), textcoords="offset points",
        color=GREY, fontsize=9,
    )  # fmt: skip
    axes.set_xticks(positions)
    axes.set(xlim=(0.6, len(positions) + 0.4), ylim=(-0.03, 1.03))
    return axes


def plot_lens(
    probabilities: Float[Tensor, "depth time"], tokens: Sequence[str], depths: Sequence[str]
) -> Axes:
    """Draw the probability of the true next token, by depth (rows) and position (columns).

    Errors: ValueError for labels that are not one for each row and each column.
    """
    axes = new_axes(7.0, 0.9 + 0.42 * len(depths))
    axes.grid(visible=False)
    image = draw_map(axes, probabilities, depths, tokens, aspect="auto")
    axes.set_xlabel("the next token")
    axes.figure.colorbar(image, ax=axes, label="probability")
    return axes

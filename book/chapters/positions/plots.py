"""Figures about positions: a table as a picture, curves over the offset, loss and weights.

Each function returns the Axes it drew on.
"""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from drawing.axes import GREY, draw_curves, draw_map, new_axes


def plot_table(table: Float[Tensor, "time d_model"]) -> Axes:
    """Draw an encoding: positions are rows, entries are columns, blue above 0 and red below."""
    axes = new_axes(6.4, 3.4)
    axes.grid(False)
    top = table.abs().max().item()
    image = draw_map(
        axes, table, cmap="RdBu", vmin=-top, vmax=top, aspect="auto", interpolation="none"
    )
    axes.figure.colorbar(image, ax=axes, label="value")
    axes.set(xlabel="entry", ylabel="position")
    return axes


def plot_by_offset(
    curves: Mapping[str, tuple[Sequence[int], Sequence[float]]], ylabel: str
) -> Axes:
    """Draw curves over the offset from query to key; each is its offsets and its values."""
    xlabel = "offset: key position - query position"
    return draw_curves(
        new_axes(), curves, xlabel, ylabel, markers=False, styles=True, legend="best", linewidth=2
    )


def plot_loss_by_position(
    losses: Mapping[str, Float[Tensor, " time"]], trained: int, window: int = 16
) -> Axes:
    """Draw the loss over the position in the text, each point a mean over `window` positions.

    A line marks the length that was trained. Errors: ValueError for fewer positions than a window.
    """
    curves = {}
    for name, loss in losses.items():
        if len(loss) < window:
            raise ValueError(f"expected at least {window} positions of {name!r}, got {len(loss)}")
        means = loss.unfold(0, window, window).mean(1).tolist()
        curves[name] = ([window * (place + 0.5) for place in range(len(means))], means)
    axes, ylabel = new_axes(6.6, 3.8), "loss per character"
    draw_curves(axes, curves, "position", ylabel, legend="beside", markersize=4)
    axes.axvline(trained, color=GREY, linewidth=1, linestyle="--")
    axes.annotate(
        "trained up to here", (trained, 1), (5, -10), xycoords=("data", "axes fraction"),
        textcoords="offset points", color=GREY, fontsize=9,
    )  # fmt: skip
    return axes


def plot_weights(weights: Float[Tensor, "query key"], trained: int, darkest: float = 0.3) -> Axes:
    """Draw the weights of one head over the positions, with lines where the trained ones end.

    Args: darkest, the weight from which on the colour is the same.
    """
    axes = new_axes(4.6, 3.8)
    axes.grid(False)
    image = draw_map(axes, weights, vmax=darkest)
    axes.figure.colorbar(image, ax=axes, label="weight", extend="max")
    for draw in (axes.axhline, axes.axvline):
        draw(trained - 0.5, color=GREY, linewidth=1, linestyle="--")
    axes.set(xlabel="position of the key", ylabel="position of the query")
    return axes

"""Figures about positions: a table as a picture, curves over the offset, the loss at each position.

Each function returns the Axes it drew on.
"""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from kit.shared.axes import COLOURS, MARKERS, new_axes


def plot_table(table: Float[Tensor, "time d_model"], axes: Axes | None = None) -> Axes:
    """Draw an encoding: positions are rows, entries are columns, blue above 0 and red below."""
    axes = axes or new_axes(6.4, 3.4)
    axes.grid(False)
    top = table.abs().max().item()
    image = axes.imshow(
        table.cpu().numpy(), cmap="RdBu", vmin=-top, vmax=top, aspect="auto", interpolation="none"
    )
    axes.set(xlabel="entry", ylabel="position")
    axes.figure.colorbar(image, ax=axes, label="value")
    return axes


def plot_by_offset(
    curves: Mapping[str, tuple[Sequence[int], Sequence[float]]],
    ylabel: str,
    axes: Axes | None = None,
) -> Axes:
    """Draw curves over the offset from query to key; each is its offsets and its values."""
    axes = axes or new_axes()
    looks = zip(COLOURS, ("-", "--", ":", "-."), strict=False)
    for (name, (offsets, values)), (colour, style) in zip(curves.items(), looks, strict=False):
        axes.plot(offsets, values, color=colour, linestyle=style, linewidth=2, label=name)
    axes.set(xlabel="offset: key position - query position", ylabel=ylabel)
    axes.legend(frameon=False)
    return axes


def plot_loss_by_position(
    losses: Mapping[str, Float[Tensor, " time"]],
    trained: int,
    window: int = 16,
    axes: Axes | None = None,
) -> Axes:
    """Draw the loss over the position in the text, each point a mean over `window` positions.

    A line marks the length that was trained. Errors: ValueError for fewer positions than a window.
    """
    axes = axes or new_axes(6.6, 3.8)
    runs = zip(losses.items(), COLOURS, MARKERS, strict=False)
    for (name, loss), colour, marker in runs:
        if len(loss) < window:
            raise ValueError(f"expected at least {window} positions of {name!r}, got {len(loss)}")
        count = len(loss) // window
        means = loss[: count * window].view(count, window).mean(1).tolist()
        middles = [window * place + window / 2 for place in range(count)]
        axes.plot(middles, means, color=colour, marker=marker, markersize=4, label=name)
    axes.axvline(trained, color="#555555", linewidth=1, linestyle="--")
    axes.annotate(
        "trained up to here",
        (trained, 1),
        xycoords=("data", "axes fraction"),
        xytext=(5, -10),
        textcoords="offset points",
        color="#555555",
        fontsize=9,
    )
    axes.set(xlabel="position", ylabel="loss per character")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes

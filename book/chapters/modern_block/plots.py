"""The figures of the chapter: what each change did to the loss, and what the lens reads."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from drawing.axes import COLOURS, GREY, draw_map, new_axes


def plot_changes(changes: Mapping[str, Sequence[float]]) -> Axes:
    """Draw, for each change, its effect on the loss for every seed as a dot, and their mean.

    Args: changes, the difference in loss for each seed, by the change's name; the first is on top.
    Errors: ValueError for no changes, or one without seeds.
    """
    if not changes or not all(changes.values()):
        raise ValueError(f"expected changes with one difference a seed, got {dict(changes)}")
    axes = new_axes(6.0, 0.6 + 0.36 * len(changes))
    axes.grid(visible=False)
    axes.axvline(0, color=GREY, linewidth=1)
    for row, differences in enumerate(changes.values()):
        mean = sum(differences) / len(differences)
        colour = COLOURS[0] if mean < 0 else COLOURS[1]
        axes.barh(row, mean, height=0.55, color=colour, alpha=0.35)
        axes.plot(differences, [row] * len(differences), "o", color=colour, markersize=5)
    axes.set_yticks(range(len(changes)), list(changes))
    axes.invert_yaxis()
    axes.set_xlabel("change of the held-out loss, in nats")
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
    axes.tick_params(axis="x", labelfontfamily="monospace")
    axes.set_xlabel("the next character")
    axes.figure.colorbar(image, ax=axes, label="probability")
    return axes

"""The figures about self-attention: maps side by side, with their numbers, and runs by seed.

Each function returns the Axes it drew on. Rows are queries (or outputs), columns keys (or inputs).
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from drawing.axes import COLOURS, GREY, MARKERS, draw_map, new_axes, new_panels


def plot_maps(
    maps: Mapping[str, Float[Tensor, "rows columns"]],
    labels: Sequence[str] | Mapping[str, Sequence[str]],
    *,
    rows: str = "query",
    columns: str = "key",
) -> list[Axes]:
    """Draw square maps of one sequence side by side, the number in each field; dark is most.

    A field stays empty where the number rounds to 0.00. `labels` are the tokens of all maps, or for
    each map its own. Colours run from 0 to 1, or to the largest number if it is above 1.

    Errors: ValueError for labels that are not one for each row and column.
    """
    panels = new_panels(len(maps), len(maps), (3.6, 3.6))
    top = max(1.0, *(weights.max().item() for weights in maps.values()))
    for axes, (title, weights) in zip(panels, maps.items(), strict=True):
        tokens = labels[title] if isinstance(labels, Mapping) else labels
        draw_map(axes, weights, tokens, tokens, title=title, vmax=top)
        for i, row in enumerate(weights.tolist()):
            for j, number in enumerate(row):
                if number >= 0.005:
                    ink = "white" if number > 0.6 * top else "black"
                    axes.text(j, i, f"{number:.2f}", ha="center", va="center", color=ink, size=8)
        if max(map(len, tokens)) > 3:
            plt.setp(axes.get_xticklabels(), rotation=45, ha="right", rotation_mode="anchor")
        axes.set_xlabel(columns)
    panels[0].set_ylabel(rows)
    return panels


def plot_seeds(
    runs: Mapping[str, Mapping[str, Sequence[float]]], *, ylabel: str, chance: float
) -> Axes:
    """Draw one dot for each seed, by group and kind; a dashed line is what guessing gives.

    Args: runs, for each group the results of each kind.
    """
    axes = new_axes()
    axes.axhline(chance, color=GREY, linestyle="--", linewidth=1, label="guessing")
    for place, (_, kinds) in enumerate(runs.items()):
        for number, (kind, results) in enumerate(kinds.items()):
            middle = place + 0.8 * (number - (len(kinds) - 1) / 2) / len(kinds)
            spread = [middle + 0.03 * (i - (len(results) - 1) / 2) for i in range(len(results))]
            axes.plot(
                spread,
                list(results),
                linestyle="none",
                marker=MARKERS[number],
                color=COLOURS[number],
                label=kind if place == 0 else None,
            )
    axes.set_xticks(range(len(runs)), list(runs))
    axes.set(ylabel=ylabel, ylim=(0.0, 1.05), xlim=(-0.6, len(runs) - 0.4))
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return axes

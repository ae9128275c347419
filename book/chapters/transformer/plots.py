"""The chapter's figures of data: parts that are used or needed, ranges that should overlap."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes

from drawing.axes import COLOURS, MARKERS, new_panels

SOFT = "#52606e"
PARTS = {  # of the record, in the order of the figure
    "nothing": "nothing",
    "cross_attention": "cross-attention",
    "causal_mask": "causal mask",
    "positions": "positions",
    "residual": "residual path",
    "embedding_scale": "embedding's factor",
    "encoder_self_attention": "encoder's self-attention",
    "feed_forward": "feed-forward networks",
    "decoder_self_attention": "decoder's self-attention",
    "root": r"division by $\sqrt{d_k}$",
    "heads": "all heads but one",
    "norms": "norms",
    "relu": "ReLU",
}


def plot_parts(record: Mapping[str, Any], tasks: Mapping[str, str]) -> list[Axes]:
    """Draw what is right without each part, a panel for each task and a mark for each seed.

    A filled circle is a model that was trained without the part, an empty square the whole model
    with the part switched off after training.

    Args: record, that of `experiments/parts.py`; tasks, the title of each task that is shown.
    """
    panels = new_panels(len(tasks), 1, (5.6, 3.3), (0.0, 0.3))
    for axes, (task, title) in zip(panels, tasks.items(), strict=True):
        for row, part in enumerate(PARTS):
            needed, used = record["needed"][task][part]["exact"], record["used"][task][part]
            for results, number, face, label in (
                (needed, 0, COLOURS[0], "trained without it"),
                (used, 1, "none", "switched off after training"),
            ):
                axes.plot(
                    results,
                    [row - 0.15 + 0.3 * number] * len(results),
                    linestyle="none",
                    marker=MARKERS[number],
                    color=COLOURS[number],
                    markerfacecolor=face,
                    markersize=5,
                    label=label,
                )
        axes.set_yticks(range(len(PARTS)), PARTS.values())
        axes.invert_yaxis()
        axes.grid(axis="y", color="#dddddd", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(xlim=(-0.03, 1.03), title=title)
    panels[-1].set_xlabel("fraction right")
    both = panels[0].get_lines()[:2]
    panels[0].figure.legend(handles=both, frameon=False, loc="outside upper center", ncols=2)
    return panels

"""The figures about masks. Queries are rows and keys are columns in every panel."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from torch import Tensor

from lib.plots import COLOURS

PANELS = 3  # in a row, so that labels stay legible on a phone


def plot_masks(
    masks: Mapping[str, Bool[Tensor, "query key"]],
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    *,
    per_row: int = PANELS,
) -> Axes:
    """Draw masks, or maps of who feels whom, side by side: filled = True, a cross = False.

    Positions are numbered from 0 unless labels are given, which then hold for all panels.

    Returns the last Axes. Errors: ValueError for no masks, or labels that do not fit.
    """
    if not masks:
        raise ValueError("expected at least one mask to draw, got none")
    columns = min(per_row, len(masks))
    rows = -(-len(masks) // columns)
    size = (2.5 * columns + 0.2, 2.75 * rows)
    _, panels = plt.subplots(
        rows, columns, figsize=size, layout="constrained", facecolor="white", squeeze=False
    )
    for panel in panels.flat[len(masks) :]:
        panel.set_axis_off()
    for axes, (name, mask) in zip(panels.flat, masks.items(), strict=False):
        axes.imshow(
            mask.cpu().numpy(), cmap=ListedColormap(["#f2f2f2", COLOURS[0]]), vmin=0, vmax=1
        )
        crosses = (~mask).nonzero().cpu().T.tolist()
        axes.scatter(crosses[1], crosses[0], marker="x", s=14, color="#8a8a8a", linewidths=0.8)
        for axis, labels, count in (
            (axes.yaxis, queries, mask.shape[0]),
            (axes.xaxis, keys, mask.shape[1]),
        ):
            if labels is not None and len(labels) != count:
                raise ValueError(f"expected {count} labels for {name!r}, got {len(labels)}")
            axis.set_ticks(range(count), labels or [str(i) for i in range(count)])
            axis.set_ticks([i + 0.5 for i in range(count - 1)], minor=True)
        if keys is not None:
            axes.tick_params(axis="x", rotation=90)
        axes.grid(which="minor", color="white", linewidth=1.5)
        axes.tick_params(which="both", length=0)
        axes.set(xlabel="key", ylabel="query", title=name)
    return axes

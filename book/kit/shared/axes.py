"""The figures that more than one chapter draws. Each function returns the Axes it drew on.

A chapter shows a figure with `plt.show()` and gives its cell an alt text. Colours are those of
Okabe and Ito, which colour-blind readers can tell apart; lines differ in their marker as well.
Queries are rows and keys are columns in every map."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.ticker import LogLocator, NullFormatter
from torch import Tensor

from lib.metrics import LengthBin

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
PANELS = 3  # in a row, so that labels stay legible on a phone


def new_axes(width: float = 6.0, height: float = 3.2) -> Axes:
    """Return empty axes on a white figure, in the book's style: no frame above and to the right."""
    _, axes = plt.subplots(figsize=(width, height), layout="constrained", facecolor="white")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    return axes


def plot_losses(
    losses: Mapping[str, Sequence[float]], window: int = 25, axes: Axes | None = None
) -> Axes:
    """Draw the training loss of one or more runs, each a mean over `window` steps, on a log scale.

    Errors: ValueError for a run shorter than the window.
    """
    axes = axes or new_axes()
    for (name, run), colour in zip(losses.items(), COLOURS, strict=False):
        if len(run) < window:
            raise ValueError(f"expected at least {window} losses of {name!r}, got {len(run)}")
        ends = range(window, len(run) + 1)
        means = [sum(run[end - window : end]) / window for end in ends]
        axes.plot(list(ends), means, color=colour, label=name)
    axes.set(xlabel="training step", ylabel="loss per token", yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    if len(losses) > 1:
        axes.legend(frameon=False)
    return axes


def plot_by_length(
    curves: Mapping[str, Sequence[LengthBin]],
    ylabel: str = "translated exactly",
    axes: Axes | None = None,
) -> Axes:
    """Draw a share from 0 to 1 against the length of the source, one line for each curve.

    Empty bins are left out. Errors: ValueError for curves whose bins differ.
    """
    axes = axes or new_axes()
    bins = [[(b.shortest, b.longest) for b in curve] for curve in curves.values()]
    if not bins or any(other != bins[0] for other in bins):
        raise ValueError(f"expected curves over the same bins of length, got {bins}")
    for (name, curve), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False):
        drawn = [(place, b.accuracy) for place, b in enumerate(curve) if b.count]
        axes.plot(*zip(*drawn, strict=True), color=colour, marker=marker, label=name)
    labels = [f"{shortest} to {longest}" for shortest, longest in bins[0]]
    axes.set_xticks(range(len(labels)), labels)
    axes.set(xlabel="tokens in the source", ylabel=ylabel, ylim=(-0.03, 1.03))
    if len(curves) > 1:
        axes.legend(frameon=False)
    return axes


def plot_heads(
    maps: Mapping[str, Float[Tensor, "query key"]],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    columns: int = 2,
) -> Axes:
    """Draw one attention map for each head under its title, all on one scale from 0 to 1.

    Errors: ValueError for labels that are not one for each row or column.
    """
    sizes = {tuple(weights.shape) for weights in maps.values()}
    if sizes != {(len(queries), len(keys))}:
        got = f"{len(queries)} and {len(keys)} for maps of {sorted(sizes)}"
        raise ValueError(f"expected a label for each query and each key, got {got}")
    rows = -(-len(maps) // columns)
    size = (1.0 + 3.0 * columns, 0.4 + 2.9 * rows)
    _, grid = plt.subplots(
        rows, columns, figsize=size, layout="constrained", facecolor="white", squeeze=False
    )
    panels = list(grid.flat[: len(maps)])
    for axes in grid.flat[len(maps) :]:
        axes.remove()
    for axes, (title, weights) in zip(panels, maps.items(), strict=True):
        image = axes.imshow(weights.detach().cpu().numpy(), cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(keys)), keys, rotation=0 if max(map(len, keys)) < 3 else 90)
        axes.set_yticks(range(len(queries)), queries)
        axes.tick_params(labelsize=8)
        axes.set(title=title, xlabel="key")
    for axes in panels[::columns]:
        axes.set_ylabel("query")
    panels[-1].figure.colorbar(image, ax=panels, label="weight", shrink=0.6)
    return panels[-1]


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

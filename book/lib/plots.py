"""The figures that more than one chapter draws. Each function returns the Axes it drew on.

A chapter shows a figure with `plt.show()` and gives its cell an alt text. Colours are those of
Okabe and Ito, which colour-blind readers can tell apart; lines differ in their marker as well.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullFormatter

from lib.metrics import LengthBin

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")


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

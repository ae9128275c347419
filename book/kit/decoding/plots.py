"""The figures about decoding: how work grows with length, and distributions before and after."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from kit.shared.axes import COLOURS, MARKERS, new_axes


def plot_growth(
    lengths: Sequence[int],
    curves: Mapping[str, Sequence[float | int]],
    ylabel: str,
    axes: Axes | None = None,
) -> Axes:
    """Draw work or time against the length, both on log scales, one line for each curve.

    On such axes a power of the length is a straight line, and its exponent is the slope.

    Errors: ValueError for a curve with another number of points than there are lengths.
    """
    axes = axes or new_axes()
    for (name, values), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False):
        if len(values) != len(lengths):
            got = f"{len(values)} in {name!r}"
            raise ValueError(f"expected {len(lengths)} values, one for each length, got {got}")
        axes.plot(lengths, values, color=colour, marker=marker, label=name)
    axes.set(xscale="log", yscale="log", xlabel="tokens decoded", ylabel=ylabel)
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.minorticks_off()
    axes.legend(frameon=False)
    return axes


def plot_distributions(
    panels: Mapping[str, Sequence[float | int]], tokens: Sequence[str], n_columns: int = 2
) -> Axes:
    """Draw distributions over the same few tokens, one panel each; what is cut away has no bar.

    Returns the last Axes. Errors: ValueError for no panels, or one of another length.
    """
    if not panels:
        raise ValueError("expected at least one distribution to draw, got none")
    n_rows = -(-len(panels) // n_columns)
    _, grid = plt.subplots(
        n_rows,
        n_columns,
        figsize=(3.1 * n_columns, 1.9 * n_rows),
        layout="constrained",
        facecolor="white",
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, (name, chances) in zip(grid.flat, panels.items(), strict=False):
        if len(chances) != len(tokens):
            got = f"{len(chances)} in {name!r}"
            raise ValueError(f"expected {len(tokens)} numbers, one for each token, got {got}")
        axes.bar(range(len(tokens)), list(chances), color=COLOURS[0])
        for place, chance in enumerate(chances):
            text = f"{chance:.2f}" if chance else "cut"
            axes.annotate(text, (place, chance), ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(len(tokens)), tokens, rotation=0)
        axes.set(title=name, ylim=(0, 1.12))
        axes.spines[["top", "right"]].set_visible(False)
    return axes

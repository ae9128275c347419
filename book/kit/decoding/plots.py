"""The figures about decoding: how work grows with length, and distributions before and after."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from kit.shared.axes import COLOURS, Numbers, draw_curves, new_axes, new_panels


def plot_growth(lengths: Sequence[int], curves: Mapping[str, Numbers], ylabel: str) -> Axes:
    """Draw work or time against the length, both on log scales, one line for each curve.

    On such axes a power of the length is a straight line, and its exponent is the slope.

    Returns the Axes. Errors: ValueError for a curve with another number of points than there are
    lengths.
    """
    drawn = {name: (lengths, values) for name, values in curves.items()}
    axes = draw_curves(new_axes(), drawn, "tokens decoded", ylabel, log="xy", legend="best")
    axes.set_xticks(lengths)
    axes.minorticks_off()
    return axes


def plot_distributions(
    panels: Mapping[str, Numbers], tokens: Sequence[str], n_columns: int = 2
) -> Axes:
    """Draw distributions over the same few tokens, one panel each; what is cut away has no bar.

    Returns the last Axes. Errors: ValueError for no panels, or one of another length.
    """
    grid = new_panels(len(panels), n_columns, (3.1, 1.9), sharex=True, sharey=True)
    for axes, (name, chances) in zip(grid, panels.items(), strict=True):
        if len(chances) != len(tokens):
            got = f"{len(chances)} in {name!r}"
            raise ValueError(f"expected {len(tokens)} numbers, one for each token, got {got}")
        axes.bar(range(len(tokens)), chances, color=COLOURS[0])
        for place, chance in enumerate(chances):
            text = f"{chance:.2f}" if chance else "cut"
            axes.annotate(text, (place, chance), ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(len(tokens)), tokens)
        axes.set(title=name, ylim=(0, 1.12))
        axes.spines[["top", "right"]].set_visible(False)
    return grid[-1]

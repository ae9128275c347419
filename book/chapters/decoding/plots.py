"""The figures about decoding: work against length, BLEU against beams, filtered distributions."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from drawing.axes import COLOURS, Numbers, draw_curves, new_axes, new_panels


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


def plot_by_beam(beams: Sequence[int], curves: Mapping[str, Sequence[Numbers]]) -> Axes:
    """Draw BLEU against the beam on a log scale: for each curve its mean over runs, and the runs.

    Args: curves, by name one list of numbers for each run, such as the seeds.
    Returns the Axes. Errors: ValueError for a curve with another number of points than beams.
    """
    means = {
        name: (beams, [sum(numbers) / len(runs) for numbers in zip(*runs, strict=True)])
        for name, runs in curves.items()
    }
    axes = draw_curves(new_axes(), means, "beam", "BLEU", log="x", legend="best")
    for k, runs in enumerate(curves.values()):
        for run in runs:
            axes.plot(beams, run, ".", color=COLOURS[k], markersize=5, alpha=0.6)
    axes.set_xticks(beams, [str(beam) for beam in beams])
    axes.minorticks_off()
    return axes


def plot_distributions(
    panels: Mapping[str, Numbers], tokens: Sequence[str], n_columns: int = 2
) -> Axes:
    """Draw distributions over the same few tokens, one panel each; what is removed has no bar.

    Returns the last Axes. Errors: ValueError for no panels, or one of another length.
    """
    grid = new_panels(len(panels), n_columns, (3.1, 1.9), sharex=True, sharey=True)
    for axes, (name, chances) in zip(grid, panels.items(), strict=True):
        if len(chances) != len(tokens):
            got = f"{len(chances)} in {name!r}"
            raise ValueError(f"expected {len(tokens)} numbers, one for each token, got {got}")
        axes.bar(range(len(tokens)), chances, color=COLOURS[0])
        for token, chance in enumerate(chances):
            text = f"{chance:.2f}" if chance else "removed"
            axes.annotate(text, (token, chance), ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(len(tokens)), tokens)
        axes.set(title=name, ylim=(0, 1.12))
        axes.spines[["top", "right"]].set_visible(False)
    return grid[-1]

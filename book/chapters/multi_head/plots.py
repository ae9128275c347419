"""The figure about several heads: one dot for each run."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from drawing.axes import COLOURS, new_axes


def plot_runs(runs: Mapping[str, Sequence[float]], ylabel: str) -> Axes:
    """Draw one dot for each run of each group, so that a run that fails is not lost in a mean."""
    axes = new_axes()
    for place, (values, colour) in enumerate(zip(runs.values(), COLOURS, strict=False)):
        gap = 0.24 / max(1, len(values) - 1)
        spread = [place + gap * (i - (len(values) - 1) / 2) for i in range(len(values))]
        axes.scatter(spread, values, s=42, color=colour, zorder=3)
    axes.set_xticks(range(len(runs)), list(runs))
    axes.set(ylabel=ylabel, xlim=(-0.5, len(runs) - 0.5), ylim=(-0.03, 1.05))
    return axes

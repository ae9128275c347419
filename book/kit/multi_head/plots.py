"""Figures about several heads: matrices on one scale, one dot for each run, two numbers a head.

Each function returns the Axes it drew on, the last one of several."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from kit.shared.axes import COLOURS, MARKERS, draw_map, new_axes, new_panels


def plot_matrices(
    matrices: Mapping[str, Float[Tensor, "row column"]], xlabel: str, ylabel: str, label: str
) -> Axes:
    """Draw matrices of one shape above each other, on one scale that starts at 0."""
    panels = new_panels(len(matrices), 1, (6.0, 1.6), (0.0, 0.5), sharex=True)
    top = max(matrix.max().item() for matrix in matrices.values())
    for axes, (title, matrix) in zip(panels, matrices.items(), strict=True):
        image = draw_map(axes, matrix, title=title, vmax=top)
        axes.set_yticks(range(len(matrix)))
        axes.set_ylabel(ylabel)
    axes.set_xlabel(xlabel)
    axes.figure.colorbar(image, ax=panels, label=label)
    return axes


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


def plot_points(
    points: Mapping[str, tuple[Sequence[float], Sequence[float]]], xlabel: str, ylabel: str
) -> Axes:
    """Draw groups of points, each group in its own colour and marker."""
    axes = new_axes()
    for (name, (x, y)), colour, marker in zip(points.items(), COLOURS, MARKERS, strict=False):
        axes.scatter(x, y, s=34, color=colour, marker=marker, label=name, zorder=3)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend(frameon=False)
    return axes

"""Figures about several heads: their maps side by side, one dot for each run, two numbers a head.

Each function returns the Axes it drew on, the last one of several. Queries are rows, keys columns.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from kit.shared.axes import COLOURS, MARKERS, new_axes


def plot_matrices(
    matrices: Mapping[str, Float[Tensor, "row column"]], xlabel: str, ylabel: str, label: str
) -> Axes:
    """Draw matrices of one shape above each other, on one scale that starts at 0."""
    size = (6.0, 0.5 + 1.6 * len(matrices))
    _, panels = plt.subplots(
        len(matrices), 1, figsize=size, sharex=True, layout="constrained", facecolor="white"
    )
    panels = np.atleast_1d(panels)
    top = max(matrix.max().item() for matrix in matrices.values())
    for axes, (title, matrix) in zip(panels, matrices.items(), strict=True):
        image = axes.imshow(matrix.detach().cpu().numpy(), cmap="Blues", vmin=0, vmax=top)
        axes.set_yticks(range(len(matrix)))
        axes.set(title=title, ylabel=ylabel)
    axes.set(xlabel=xlabel)
    axes.figure.colorbar(image, ax=panels, label=label)
    return axes


def plot_runs(runs: Mapping[str, Sequence[float]], ylabel: str, axes: Axes | None = None) -> Axes:
    """Draw one dot for each run of each group, so that a run that fails is not lost in a mean."""
    axes = axes or new_axes()
    for place, (values, colour) in enumerate(zip(runs.values(), COLOURS, strict=False)):
        spread = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else [0.0]
        axes.scatter(place + np.asarray(spread), values, s=42, color=colour, zorder=3)
    axes.set_xticks(range(len(runs)), list(runs))
    axes.set(ylabel=ylabel, xlim=(-0.5, len(runs) - 0.5), ylim=(-0.03, 1.05))
    return axes


def plot_points(
    points: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    xlabel: str,
    ylabel: str,
    axes: Axes | None = None,
) -> Axes:
    """Draw groups of points, each group in its own colour and marker."""
    axes = axes or new_axes()
    for (name, (x, y)), colour, marker in zip(points.items(), COLOURS, MARKERS, strict=False):
        axes.scatter(x, y, s=34, color=colour, marker=marker, label=name, zorder=3)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend(frameon=False)
    return axes

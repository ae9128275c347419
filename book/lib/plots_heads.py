"""Figures about several heads: their maps side by side, one dot for each run, two numbers a head.

Each function returns the Axes it drew on, the last one of several. Queries are rows, keys columns.
"""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from lib.plots import COLOURS, MARKERS, new_axes


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

"""The figures about layers: activations, what happens over the depth, runs of several seeds."""

from collections.abc import Callable, Mapping, Sequence

import torch
from matplotlib.axes import Axes
from torch import Tensor

from kit.shared.axes import COLOURS, MARKERS, new_axes

STYLES = ("-", "--", ":", "-.")


def plot_activations(
    functions: Mapping[str, Callable[[Tensor], Tensor]], reach: float = 4.0
) -> Axes:
    """Draw functions of one number, from -reach to reach.

    Errors: ValueError for no function.
    """
    if not functions:
        raise ValueError("expected at least one function to draw, got none")
    axes = new_axes(5.0, 2.8)
    x = torch.linspace(-reach, reach, 201)
    for (name, function), colour, style in zip(
        functions.items(), COLOURS, STYLES * 2, strict=False
    ):
        axes.plot(x.tolist(), function(x).tolist(), color=colour, linestyle=style, label=name)
    axes.set(xlabel="x", ylabel="activation(x)")
    axes.legend(frameon=False)
    return axes


def plot_depth(
    curves: Mapping[str, Sequence[float]],
    ylabel: str,
    xlabel: str = "layer",
    *,
    first: int = 1,
    axes: Axes | None = None,
) -> Axes:
    """Draw a size for each layer, on a log scale; `first` is the number of the first layer.

    Errors: ValueError for no curve, or sizes that a log scale cannot show.
    """
    if not curves or any(not value > 0 for values in curves.values() for value in values):
        raise ValueError(f"expected curves of numbers above 0, got {dict(curves)}")
    axes = axes or new_axes()
    for (name, values), colour, marker, style in zip(
        curves.items(), COLOURS, MARKERS, STYLES * 2, strict=False
    ):
        layers = range(first, first + len(values))
        axes.plot(
            layers, values, color=colour, marker=marker, linestyle=style, label=name, markersize=4.5
        )
    axes.set(xlabel=xlabel, ylabel=ylabel, yscale="log")
    axes.legend(frameon=False)
    return axes


def plot_seeds(runs: Mapping[str, Sequence[Sequence[float]]], window: int = 20) -> Axes:
    """Draw the loss of runs that differ in the seed: a line for their mean, a band for all.

    Each value is a mean over `window` steps. Errors: ValueError for a run shorter than the window.
    """
    axes = new_axes()
    for (name, seeds), colour, style in zip(runs.items(), COLOURS, STYLES * 2, strict=False):
        shortest = min(map(len, seeds))
        if shortest < window:
            raise ValueError(f"expected at least {window} losses of {name!r}, got {shortest}")
        losses = torch.tensor([run[:shortest] for run in seeds]).unfold(1, window, 1).mean(-1)
        steps = range(window, shortest + 1)
        axes.plot(steps, losses.mean(0).tolist(), color=colour, linestyle=style, label=name)
        low, high = losses.min(0).values.tolist(), losses.max(0).values.tolist()
        axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set(xlabel="training step", ylabel="loss per token", ylim=(0, None))
    axes.legend(frameon=False)
    return axes

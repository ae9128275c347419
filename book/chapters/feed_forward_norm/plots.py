"""The figures about layers: activations, what happens over the depth, runs of several seeds.

Each function returns the Axes it drew on."""

from collections.abc import Callable, Mapping, Sequence

import torch
from matplotlib.axes import Axes
from torch import Tensor

from drawing.axes import COLOURS, GREY, draw_curves, new_axes


def plot_activations(
    functions: Mapping[str, Callable[[Tensor], Tensor]], reach: float = 4.0
) -> Axes:
    """Draw functions of one number, from -reach to reach.

    Errors: ValueError for no function.
    """
    x = torch.linspace(-reach, reach, 201)
    curves = {name: (x.tolist(), function(x).tolist()) for name, function in functions.items()}
    axes, ylabel = new_axes(5.0, 2.8), "activation(x)"
    return draw_curves(axes, curves, "x", ylabel, markers=False, styles=True, legend="best")


def plot_depth(
    curves: Mapping[str, Sequence[float]], ylabel: str, xlabel: str = "layer", *, first: int = 1
) -> Axes:
    """Draw a size for each layer, on a log scale; `first` is the number of the first layer.

    Errors: ValueError for no curve, or sizes that a log scale cannot show.
    """
    drawn = {name: (range(first, first + len(y)), y) for name, y in curves.items()}
    return draw_curves(
        new_axes(), drawn, xlabel, ylabel, styles=True, log="y", legend="beside", markersize=4.5
    )


def plot_seeds(
    runs: Mapping[str, Sequence[Sequence[float]]], every: int, baseline: tuple[str, float]
) -> Axes:
    """Draw the loss of runs that differ in the seed: a line for their mean, a band for all.

    Each value is a mean over `every` steps. A baseline, with its name, is a dashed line across.
    Errors: ValueError for seeds with different numbers of values.
    """
    axes, curves = new_axes(), {}
    for (name, seeds), colour in zip(runs.items(), COLOURS, strict=False):
        together = list(zip(*seeds, strict=True))  # the seeds of one step
        steps = range(every, every * len(together) + 1, every)
        curves[name] = (steps, [sum(step) / len(seeds) for step in together])
        low, high = list(map(min, together)), list(map(max, together))
        axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
    xlabel, ylabel = "training step", "loss per token"
    draw_curves(axes, curves, xlabel, ylabel, markers=False, styles=True, legend="beside")
    name, level = baseline
    axes.axhline(level, color=GREY, linestyle="--", linewidth=1)
    axes.annotate(
        name, (1, level), (-2, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", color=GREY, fontsize=9,
    )  # fmt: skip
    axes.set_ylim(0, None)
    return axes

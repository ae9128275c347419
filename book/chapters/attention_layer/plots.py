"""The figures about attention: updates by dimension, errors by rate, fits of a curve."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from chapters.attention_layer.rotated_lookup import (
    DIMENSIONS,
    EQUAL_WEIGHTS,
    VARIANTS,
    best_rate,
    by_rate,
)
from drawing.axes import COLOURS, GREY, draw_curves, new_axes, new_panels

SOME = DIMENSIONS[::2]  # of the figure that has a panel for each


def plot_updates(record: dict[str, Any]) -> Axes:
    """Draw after how many updates the task is solved, by dimension: medians, with bars from the
    lowest to the highest seed, of each variant at the rate at which it ends best.

    Args: record, what `experiments/attention_scale.py` has written. Returns the Axes.
    """
    axes = new_axes()
    curves: dict[str, tuple[Sequence[float], Sequence[float]]] = {}
    for variant, colour in zip(VARIANTS, COLOURS, strict=False):
        found = [
            by_rate(record, d_k, variant, "solved")[best_rate(record, d_k, variant)]
            for d_k in DIMENSIONS
        ]
        axes.vlines(DIMENSIONS, [f[0] for f in found], [f[-1] for f in found], color=colour)
        curves[variant] = DIMENSIONS, [median(f) for f in found]
    draw_curves(axes, curves, "dimension $d_k$", "updates", log="x")
    axes.set_xticks(DIMENSIONS)
    axes.set_ylim(bottom=0)
    return axes


def plot_fits(
    points: tuple[Sequence[float], Sequence[float]],
    grid: Sequence[float],
    fits: Mapping[str, Sequence[float]],
    truth: Sequence[float] | None = None,
) -> Axes:
    """Draw data as dots and fitted curves side by side, one panel each; the truth is dashed.

    Returns the last Axes. Errors: ValueError for a fit that is not as long as the grid.
    """
    panels = new_panels(len(fits), len(fits), (2.6, 2.8), sharey=True)
    for axes, (name, fit) in zip(panels, fits.items(), strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        axes.scatter(*points, s=12, color="#777777")
        if truth is not None:
            axes.plot(grid, truth, color="black", linewidth=1, linestyle="--")
        curve = {name: (grid, fit)}
        draw_curves(axes, curve, "x", "", markers=False, color=COLOURS[1], linewidth=2)
        axes.set_title(name)
    panels[0].set_ylabel("y")
    return panels[-1]


def plot_rates(record: dict[str, Any]) -> Axes:
    """Draw error against learning rate, a panel for each of three dimensions: medians, with bars
    from the lowest to the highest seed; dotted the error of equal weights.

    Args: record, what `experiments/attention_scale.py` has written. Returns the last Axes.
    """
    panels = new_panels(len(SOME), len(SOME), (2.6, 3.0), sharey=True)
    for axes, d_k in zip(panels, SOME, strict=True):
        medians: dict[str, tuple[list[float], list[float]]] = {}
        for variant, colour in zip(VARIANTS, COLOURS, strict=False):
            found = by_rate(record, d_k, variant)
            rates, errors = list(found), list(found.values())
            axes.vlines(rates, [e[0] for e in errors], [e[-1] for e in errors], color=colour)
            medians[variant] = rates, [median(e) for e in errors]
        draw_curves(axes, medians, "learning rate", "", log="y")
        axes.axhline(EQUAL_WEIGHTS, color=GREY, linestyle=":")
        axes.set_xscale("log")
        axes.set_xticks(rates[::3], [f"{rate:g}" for rate in rates[::3]], rotation=60)
        axes.tick_params(axis="x", labelsize="small")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(f"$d_k$ = {d_k}")
        if legend := axes.get_legend():  # one for all panels
            legend.remove()
    panels[0].set_ylabel("squared error")
    panels[0].legend(frameon=False, fontsize="small", loc="lower left")
    return panels[-1]

"""The figures about attention: curves over a dimension, errors by rate, fits of a curve."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from chapters.attention_layer.rotated_lookup import DIMENSIONS, EQUAL_WEIGHTS, VARIANTS, ends
from drawing.axes import COLOURS, GREY, draw_curves, new_axes, new_panels


def plot_curves(
    x: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    xlabel: str,
    ylabel: str,
    *,
    log: str = "",
) -> Axes:
    """Draw one line for each curve over the same x; `log` names the axes with a log scale.

    Returns the Axes. Errors: ValueError for a curve that is not as long as x.
    """
    drawn = {name: (x, y) for name, y in curves.items()}
    axes = draw_curves(new_axes(), drawn, xlabel, ylabel, log=log)
    if "x" in log:
        axes.set_xticks(x)
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
    """Draw error against learning rate, a panel for each dimension: medians, with bars from the
    lowest to the highest seed; dotted the error of equal weights.

    Args: record, what `experiments/attention_scale.py` has written. Returns the last Axes.
    """
    panels = new_panels(len(DIMENSIONS), len(DIMENSIONS), (2.6, 3.0), sharey=True)
    for axes, d_k in zip(panels, DIMENSIONS, strict=True):
        medians: dict[str, tuple[list[float], list[float]]] = {}
        for variant, colour in zip(VARIANTS, COLOURS, strict=False):
            by_rate = ends(record, d_k, variant)
            rates, errors = list(by_rate), list(by_rate.values())
            axes.vlines(rates, [e[0] for e in errors], [e[-1] for e in errors], color=colour)
            medians[variant] = rates, [e[len(e) // 2] for e in errors]
        draw_curves(axes, medians, "learning rate", "", log="y")
        axes.axhline(EQUAL_WEIGHTS, color=GREY, linestyle=":")
        axes.set_xscale("log")
        axes.set_xticks(rates, [f"{rate:g}" for rate in rates], rotation=60, fontsize="small")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(f"$d_k$ = {d_k}")
        if legend := axes.get_legend():  # one for all panels, below
            legend.remove()
    panels[0].set_ylabel("squared error")
    panels[0].legend(frameon=False, fontsize="small", loc="lower left")
    return panels[-1]

"""Figures about cost: curves on two logarithmic axes, and which inputs reach which outputs."""

from collections.abc import Mapping

from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter
from torch import Tensor

from drawing.axes import GREY, Numbers, draw_curves, draw_map, new_axes, new_panels


def plot_log(
    curves: Mapping[str, tuple[Numbers, Numbers]],
    xlabel: str,
    ylabel: str,
    *,
    level: float | int | None = None,
) -> Axes:
    """Draw curves on two logarithmic axes, where a power of x is a straight line.

    Args: curves, each its x and its y; level, a height to mark by a line. Returns the Axes.
    Errors: ValueError for no curve, or numbers that a logarithmic axis cannot show.
    """
    axes = new_axes(6.6, 3.8)
    draw_curves(
        axes, curves, xlabel, ylabel, styles=True, log="xy", legend="beside", markersize=4.5
    )
    if level is not None:
        axes.axhline(level, color=GREY, linewidth=1)
        axes.autoscale(axis="y")
    axes.set_xticks(sorted({value for x, _ in curves.values() for value in x}))
    axes.yaxis.set_minor_formatter(NullFormatter())
    return axes


def plot_reach(
    maps: Mapping[str, Bool[Tensor, "output_time input_time"]], columns: int = 4
) -> Axes:
    """Draw which inputs reach which outputs, one square for each map; rows are outputs.

    Returns the axes of the first map. Errors: ValueError for no map.
    """
    panels = new_panels(len(maps), columns, (1.75, 2.0))
    for axes, (title, reached) in zip(panels, maps.items(), strict=True):
        draw_map(axes, reached, vmax=1.3, interpolation="none")
        axes.set_title(title, fontsize=9)
        axes.set(xticks=[], yticks=[])
    figure = panels[0].figure
    figure.supxlabel("input position", fontsize=9)
    figure.supylabel("output position", fontsize=9)
    return panels[0]

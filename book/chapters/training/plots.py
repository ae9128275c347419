"""The figures about training: learning-rate schedules, and what each change of a run did."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from drawing.axes import COLOURS, GREY, draw_curves, new_axes
from lib.training import Schedule

POINTS = 400


def plot_schedules(schedules: Mapping[str, Schedule], steps: int) -> Axes:
    """Draw the rate of some schedules over `steps` steps, which are counted from 0.

    Returns the Axes. Errors: ValueError for no steps.
    """
    if steps < 2:
        raise ValueError(f"expected at least 2 steps to draw, got {steps}")
    places = sorted({round(i * (steps - 1) / POINTS) for i in range(POINTS + 1)})
    curves = {name: (places, [rate(step) for step in places]) for name, rate in schedules.items()}
    axes, ylabel = new_axes(), "learning rate"
    draw_curves(axes, curves, "step", ylabel, markers=False, styles=True, legend="best")
    axes.set_ylim(0, None)
    return axes


def plot_ablations(
    fractions: Mapping[str, float], spread: Mapping[str, Sequence[float]] | None = None
) -> Axes:
    """Draw one bar a run, from top to bottom: the fraction that is right, from 0 to 1.

    A dashed line continues the first bar, to compare the others with. `spread` holds other
    measurements of the same runs, drawn as points on the bars.

    Returns the Axes. Errors: ValueError for no runs, or a spread of other runs.
    """
    if not fractions:
        raise ValueError("expected at least one run to draw, got none")
    spread = spread or {}
    if not spread.keys() <= fractions.keys():
        extra = sorted(spread.keys() - fractions.keys())
        raise ValueError(f"expected points of the runs that are drawn, got {extra}")
    axes = new_axes(6.4, 0.8 + 0.28 * len(fractions))
    names = list(fractions)
    axes.barh(names, list(fractions.values()), color=COLOURS[5], height=0.7)
    axes.axvline(fractions[names[0]], color=GREY, linestyle="--", linewidth=0.9)
    for name, points in spread.items():
        axes.plot(points, [name] * len(points), "o", color="black", markersize=3.5)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set(xlabel="translated exactly", xlim=(0, 1))
    return axes

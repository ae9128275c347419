"""The figures about training: learning-rate schedules, and what each change of a run did."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from kit.shared.axes import COLOURS, new_axes
from lib.training import Schedule

STYLES = ("-", "--", ":", "-.")
POINTS = 400


def plot_schedules(schedules: Mapping[str, Schedule], steps: int, axes: Axes | None = None) -> Axes:
    """Draw the rate of some schedules over `steps` steps, which are counted from 0.

    Returns the Axes. Errors: ValueError for no steps.
    """
    if steps < 2:
        raise ValueError(f"expected at least 2 steps to draw, got {steps}")
    axes = axes or new_axes()
    places = sorted({round(i * (steps - 1) / POINTS) for i in range(POINTS + 1)})
    drawn = zip(schedules.items(), COLOURS, STYLES, strict=False)
    for (name, rate), colour, style in drawn:
        rates = [rate(step) for step in places]
        axes.plot(places, rates, color=colour, linestyle=style, label=name)
    axes.set(xlabel="step", ylabel="learning rate", ylim=(0, None))
    axes.legend(frameon=False)
    return axes


def plot_ablations(
    shares: Mapping[str, float], spread: Mapping[str, Sequence[float]] | None = None
) -> Axes:
    """Draw one bar a run, from top to bottom: the share that is right, from 0 to 1.

    A dashed line continues the first bar, to compare the others with. `spread` holds other
    measurements of the same runs, drawn as points on the bars.

    Returns the Axes. Errors: ValueError for no runs, or a spread of other runs.
    """
    if not shares:
        raise ValueError("expected at least one run to draw, got none")
    spread = spread or {}
    if not spread.keys() <= shares.keys():
        extra = sorted(spread.keys() - shares.keys())
        raise ValueError(f"expected points of the runs that are drawn, got {extra}")
    axes = new_axes(6.4, 0.8 + 0.28 * len(shares))
    names = list(shares)
    axes.barh(names, shares.values(), color=COLOURS[5], height=0.7)
    axes.axvline(shares[names[0]], color="#555555", linestyle="--", linewidth=0.9)
    for name, points in spread.items():
        axes.plot(points, [name] * len(points), "o", color="black", markersize=3.5)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.set(xlabel="translated exactly", xlim=(0, 1))
    return axes

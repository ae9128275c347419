"""The figure of the chapter: what each change did to the loss, after trainings of two lengths."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from drawing.axes import COLOURS, GREY, MARKERS, new_axes


def plot_changes(changes: Mapping[str, Mapping[str, Sequence[float]]]) -> Axes:
    """Draw what each change does to the loss: a bar for each training, and a mark for each seed.

    Args: changes, the difference in loss for each seed, by the change's name and then by the name
        of the training; the first change is on top, and of each the first training.
    Errors: ValueError for no changes, one without seeds, or changes of different trainings.
    """
    trainings = list(next(iter(changes.values()), ()))
    if not trainings or any(
        list(one) != trainings or not all(one.values()) for one in changes.values()
    ):
        raise ValueError(
            f"expected changes of the same trainings with a difference a seed, got {dict(changes)}"
        )
    axes = new_axes(6.0, 0.9 + 0.27 * len(trainings) * len(changes))
    axes.grid(visible=False)
    axes.axvline(0, color=GREY, linewidth=1)
    high = 0.8 / len(trainings)
    for number, training in enumerate(trainings):
        colour = COLOURS[number]
        for row, change in enumerate(changes.values()):
            at, differences = row - 0.4 + high * (number + 0.5), change[training]
            mean = sum(differences) / len(differences)
            axes.barh(at, mean, height=0.85 * high, alpha=0.35, color=colour)
            label = training if row == 0 else None
            axes.plot(
                differences, [at] * len(differences), MARKERS[number], label=label, color=colour
            )
    axes.set_yticks(range(len(changes)), list(changes))
    axes.invert_yaxis()
    axes.set_xlabel("change of the held-out loss, in nats (left is better)")
    axes.legend(frameon=False)
    return axes

"""The figures of data: what is drawn is what was given."""

import matplotlib.pyplot as plt
import pytest

from chapters.transformer.plots import PARTS, plot_parts


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_each_seed_of_each_part_is_drawn_where_it_belongs():
    needed = {part: {"exact": [0.1 + 0.05 * i, 0.9]} for i, part in enumerate(PARTS)}
    used = {part: [0.05 * i] for i, part in enumerate(PARTS)}
    record = {"needed": {"a": needed}, "used": {"a": used}}
    (axes,) = plot_parts(record, {"a": "the task"})
    assert axes.get_title() == "the task"
    assert [label.get_text() for label in axes.get_yticklabels()] == [*PARTS.values()]
    parts = [*PARTS]
    filled, empty = axes.lines[::2], axes.lines[1::2]
    for i, (trained, off) in enumerate(zip(filled, empty, strict=True)):
        assert list(trained.get_xdata()) == needed[parts[i]]["exact"]
        assert list(off.get_xdata()) == used[parts[i]]
        assert {round(y) for y in (*trained.get_ydata(), *off.get_ydata())} == {i}
    assert {line.get_markerfacecolor() for line in empty} == {"none"}
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first one on top

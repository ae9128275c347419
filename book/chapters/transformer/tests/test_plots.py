"""The figures of data: what is drawn is what was given."""

import matplotlib.pyplot as plt
import pytest

from chapters.transformer.plots import PARTS, plot_parts, plot_ranges
from drawing.axes import COLOURS
from tests.helpers import unchecked


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_ranges_that_miss_the_shared_one_look_different():
    ranges = {"a": (2.0, 5.0), "b": (4.0, 9.0), "far": (11.0, 13.0)}
    axes = plot_ranges(ranges, (4.0, 5.0), {"said": 7.0}, "thing")
    lines = [line for line in axes.lines if line.get_marker() == "o"]
    assert [tuple(line.get_xdata()) for line in lines] == list(ranges.values())
    assert [line.get_color() for line in lines] == [COLOURS[0], COLOURS[0], COLOURS[1]]
    assert [line.get_markerfacecolor() == "white" for line in lines] == [False, False, True]
    assert [label.get_text() for label in axes.get_yticklabels()] == list(ranges)
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first one on top
    assert [text.get_text() for text in axes.texts] == ["said"]
    assert axes.get_xlabel() == "thing"


def test_a_range_runs_upwards():
    with unchecked(), pytest.raises(ValueError, match=r"start before the end of 'a', got 3"):
        plot_ranges({"a": (3.0, 2.0)}, (1.0, 2.0), {}, "x")


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

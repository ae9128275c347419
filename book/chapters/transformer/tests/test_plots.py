"""The figure of ranges: they are drawn as they are."""

import matplotlib.pyplot as plt
import pytest

from chapters.transformer.plots import plot_ranges
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

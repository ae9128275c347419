"""The figures of the assembled model: every part stands there, and ranges are drawn as they are."""

import matplotlib.pyplot as plt
import pytest

from chapters.transformer.plots import plot_architecture, plot_ranges
from drawing.axes import COLOURS
from tests.helpers import unchecked


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_every_part_stands_in_the_picture():
    axes = plot_architecture()
    words = [text.get_text().replace("\n", " ") for text in axes.texts]
    assert words.count("+") == 2 + 2 + 3  # positions on both sides, and each sub-layer
    assert words.count("feed-forward") == 2
    assert words.count("LN") == 2 + 3  # post-norm: a norm after each sum with a sub-layer
    assert words.count("embedding") == 2
    for part in ("self-attention (causal mask)", "cross-attention (padding mask)", "memory"):
        assert words.count(part) == 1
    for shape in ("(batch, source_time, d_model)", "(batch, target_ time, vocab)"):
        assert shape in words


def test_texts_lie_within_the_picture():
    axes = plot_architecture()
    axes.figure.canvas.draw()
    frame = axes.get_window_extent()
    for text in axes.texts:
        box = text.get_window_extent()
        assert frame.x0 - 1 <= box.x0, text.get_text()
        assert box.x1 <= frame.x1 + 1, text.get_text()
        assert frame.y0 <= box.y0, text.get_text()
        assert box.y1 <= frame.y1, text.get_text()


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

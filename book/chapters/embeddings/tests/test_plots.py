"""The curves: every line where its numbers are, and what cannot be drawn is named."""

import matplotlib.pyplot as plt
import pytest

from chapters.embeddings.plots import plot_curves


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_lines_marks_and_level():
    axes = plot_curves(
        [1, 2, 4], {"a": [3, 1, 2], "b": [5, 6, 4]}, "x", "y", level=("floor", 0.5), best=True
    )
    lines = [line.get_xydata().tolist() for line in axes.lines]
    assert lines[:4] == [
        [[1, 3], [2, 1], [4, 2]],
        [[1, 5], [2, 6], [4, 4]],
        [[2, 1]],
        [[4, 4]],
    ]
    for line, mark in ((0, 2), (1, 3)):
        assert axes.lines[mark].get_color() == axes.lines[line].get_color()
        assert axes.lines[mark].get_marker() == axes.lines[line].get_marker()
    assert axes.lines[4].get_ydata()[0] == 0.5
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b", "floor"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x", "y")


def test_logarithmic_axes_keep_their_numbers():
    axes = plot_curves([64, 128, 256], {"a": [1, 10, 100]}, "x", "y", log="xy")
    axes.figure.canvas.draw()
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["64", "128", "256"]
    assert axes.get_legend() is None


def test_many_points_have_no_dots():
    x = [0.1 * i for i in range(1, 31)]
    axes = plot_curves(x, {"a": x}, "x", "y", log="x")
    assert axes.lines[0].get_marker() == "None"


def test_what_cannot_be_drawn_is_named():
    with pytest.raises(ValueError, match="expected 2 values in 'a', one for each x, got 3"):
        plot_curves([1, 2], {"a": [1, 2, 3]}, "x", "y")
    with pytest.raises(ValueError, match="expected one to 6 curves"):
        plot_curves([1, 2], {}, "x", "y")
    with pytest.raises(ValueError, match=r"log out of .* got 'z'"):
        plot_curves([1, 2], {"a": [1, 2]}, "x", "y", log="z")

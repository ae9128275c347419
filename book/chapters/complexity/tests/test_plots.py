"""The figures of chapter 13 hold the numbers they are given."""

import matplotlib.pyplot as plt
import pytest
import torch

from chapters.complexity.plots import plot_log, plot_reach


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_curves_stand_on_two_logarithmic_axes():
    axes = plot_log({"a": ([2, 8], [3.0, 5.0]), "b": ([4, 8], [7.0, 11.0])}, "n", "s", level=4)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    first, second, level = axes.get_lines()
    assert first.get_xydata().tolist() == [[2, 3], [8, 5]]
    assert second.get_xydata().tolist() == [[4, 7], [8, 11]]
    assert set(level.get_ydata()) == {4}
    assert first.get_marker() != second.get_marker()
    assert list(axes.get_xticks()) == [2, 4, 8]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ({}, "one to 6 curves, .* got 0"),
        ({"a": ([1, 2], [0.0, 1.0])}, "numbers above 0 .* got 'a'"),
        ({"a": ([0, 2], [1.0, 1.0])}, "numbers above 0 .* got 'a'"),
    ],
)
def test_what_has_no_logarithm_is_refused(curves, message):
    with pytest.raises(ValueError, match=message):
        plot_log(curves, "n", "s")


def test_each_map_has_its_square():
    same = torch.eye(3).bool()
    maps = {
        "one": same,
        "two": torch.ones(3, 3).bool(),
        "three": torch.eye(2).bool(),
    }
    axes = plot_reach(maps, columns=2)
    squares = axes.figure.axes
    assert [a.get_title() for a in squares] == ["one", "two", "three"]
    assert squares[0].get_images()[0].get_array().tolist() == same.tolist()
    with pytest.raises(ValueError, match="at least one panel"):
        plot_reach({})

"""The figures about attention: the right numbers are drawn, and what does not fit is named."""

import matplotlib.pyplot as plt
import pytest

from chapters.attention_layer.plots import plot_curves, plot_fits


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_curves_share_their_x():
    axes = plot_curves([2.0, 8.0], {"a": [1.0, 3.0], "b": [2.0, 4.0]}, "width", "weight", log="xy")
    first, second = axes.get_lines()
    assert first.get_xydata().tolist() == [[2, 1], [8, 3]]
    assert second.get_ydata().tolist() == [2, 4]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    axes.figure.canvas.draw()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "8"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    with pytest.raises(ValueError, match="expected 2 values in 'a', one for each x, got 1"):
        plot_curves([2.0, 8.0], {"a": [1.0]}, "width", "weight")


def test_a_single_linear_curve():
    axes = plot_curves([1.0, 2.0], {"a": [1.0, 3.0]}, "x", "y")
    assert axes.get_legend() is None
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "linear")


def test_fits_stand_side_by_side():
    points, grid = ([0.0, 1.0], [2.0, 3.0]), [0.0, 0.5, 1.0]
    axes = plot_fits(points, grid, {"a": [1.0] * 3, "b": [2.0, 3.0, 4.0]}, truth=[0.0] * 3)
    first, second = axes.figure.axes
    assert (first.get_title(), second.get_title()) == ("a", "b")
    truth, fit = second.get_lines()
    assert list(truth.get_ydata()) == [0, 0, 0]
    assert list(fit.get_ydata()) == [2, 3, 4]
    assert second.collections[0].get_offsets().tolist() == [[0, 2], [1, 3]]
    assert len(plot_fits(points, grid, {"a": [1.0] * 3}).get_lines()) == 1
    with pytest.raises(ValueError, match="expected 3 values in 'a', one for each x, got 1"):
        plot_fits(points, grid, {"a": [1.0]})

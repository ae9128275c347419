"""The figures about decoding: the right numbers are drawn, and what does not fit is named."""

import matplotlib.pyplot as plt
import pytest

from chapters.decoding.plots import plot_by_beam, plot_distributions, plot_growth


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_growth_is_drawn_on_log_scales():
    axes = plot_growth([2, 4, 8], {"a": [1, 2, 4], "b": [1, 4, 16]}, "work")
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylabel()) == ("log", "log", "work")
    assert [line.get_ydata().tolist() for line in axes.get_lines()] == [[1, 2, 4], [1, 4, 16]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    axes.figure.canvas.draw()
    assert [text.get_text() for text in axes.get_xticklabels()] == ["2", "4", "8"]


def test_growth_needs_a_value_for_each_length():
    with pytest.raises(ValueError, match="expected 3 values in 'b', one for each x, got 2"):
        plot_growth([2, 4, 8], {"b": [1, 4]}, "work")


def test_beams_are_drawn_with_their_mean_and_every_run():
    axes = plot_by_beam([1, 2, 4], {"a": [[1, 2, 3], [3, 4, 5]], "b": [[0, 0, 6]]})
    drawn = [list(line.get_ydata()) for line in axes.get_lines()]
    assert drawn == [[2, 3, 4], [0, 0, 6], [1, 2, 3], [3, 4, 5], [0, 0, 6]]
    axes.figure.canvas.draw()
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "4"]
    with pytest.raises(ValueError, match="expected 3 values in 'a', one for each x, got 2"):
        plot_by_beam([1, 2, 4], {"a": [[1, 2]]})


def test_distributions_share_their_tokens():
    axes = plot_distributions({"p": [0.5, 0.5, 0], "q": [1, 0, 0], "r": [0, 1, 0]}, list("xyz"))
    panels = axes.figure.axes
    assert [panel.get_title() for panel in panels] == ["p", "q", "r"]
    assert [bar.get_height() for bar in panels[0].patches] == [0.5, 0.5, 0]
    assert [text.get_text() for text in panels[1].texts] == ["1.00", "removed", "removed"]
    with pytest.raises(ValueError, match="expected at least one"):
        plot_distributions({}, [])
    with pytest.raises(ValueError, match="expected 3 numbers, one for each token, got 2 in 'p'"):
        plot_distributions({"p": [0.5, 0.5]}, list("xyz"))

"""The figure: the line is where its numbers are, and what cannot be drawn is named."""

import matplotlib.pyplot as plt
import pytest

from kit.modern_block.plots import plot_curve


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_line_and_names_of_the_axes():
    axes = plot_curve([1, 2], [3, 4], "step", "loss")
    assert axes.lines[0].get_xydata().tolist() == [[1, 3], [2, 4]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "loss")


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="got 1 and 2"):
        plot_curve([1, 2], [3], "step", "loss")

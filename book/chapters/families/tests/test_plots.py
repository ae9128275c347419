"""The figure of the gaps: a series for each model, the ceiling at the first place."""

import matplotlib.pyplot as plt
import pytest

from chapters.families.plots import plot_gaps


def test_series_and_ceiling():
    axes = plot_gaps({"one": [0.5, 0.25, 1.0], "two": [0.0, 0.1, 0.2]}, 0.08)
    assert [line.get_ydata().tolist() for line in axes.lines] == [[0.5, 0.25, 1.0], [0.0, 0.1, 0.2]]
    assert [line.get_xdata().tolist() for line in axes.lines] == [[1, 2, 3]] * 2
    assert {line.get_marker() for line in axes.lines} == {"o", "s"}
    assert axes.collections[0].get_segments()[0][:, 1].tolist() == [0.08, 0.08]
    plt.close("all")


def test_unequal_series_are_refused():
    with pytest.raises(ValueError, match=r"series of one length, got \[1, 2\]"):
        plot_gaps({"one": [0.5], "two": [0.0, 0.1]}, 0.08)

"""The figures: a series for each model and its ceiling; a row of the lens for each depth."""

import matplotlib.pyplot as plt
import pytest
import torch

from chapters.families.plots import plot_gaps, plot_lens


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


def test_lens_has_depths_as_rows():
    numbers = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    axes = plot_lens(numbers, list("abc"), ["embedding", "layer 1"])
    assert axes.images[0].get_array().tolist() == numbers.tolist()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="expected 2 labels, one for each row, got 1"):
        plot_lens(numbers, list("abc"), ["embedding"])
    plt.close("all")

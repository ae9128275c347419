"""The figures: bars and dots are where their numbers are, and what cannot be drawn is named."""

import matplotlib.pyplot as plt
import pytest
import torch

from chapters.modern_block.plots import plot_changes, plot_lens


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_a_bar_is_the_mean_and_each_seed_a_dot():
    axes = plot_changes({"rotary": [-0.5, -0.3], "untied": [0.1, 0.3]})
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([-0.4, 0.2])
    _, first, second = axes.get_lines()
    assert first.get_xydata().tolist() == [[-0.5, 0], [-0.3, 0]]
    assert second.get_xydata().tolist() == [[0.1, 1], [0.3, 1]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rotary", "untied"]
    assert axes.yaxis_inverted()


@pytest.mark.parametrize("changes", [{}, {"rotary": []}])
def test_changes_need_differences(changes):
    with pytest.raises(ValueError, match="one difference a seed, got"):
        plot_changes(changes)


def test_lens_has_depths_as_rows():
    numbers = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    axes = plot_lens(numbers, list("abc"), ["embedding", "block 1"])
    assert axes.images[0].get_array().tolist() == numbers.tolist()
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="expected 2 labels, one for each row, got 1"):
        plot_lens(numbers, list("abc"), ["embedding"])

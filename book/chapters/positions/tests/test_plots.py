"""The figures about positions: the right numbers are drawn, and what is trained is marked."""

import matplotlib.pyplot as plt
import pytest
import torch

from chapters.positions.plots import (
    plot_by_offset,
    plot_loss_by_position,
    plot_table,
    plot_weights,
)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_table_is_drawn_on_a_scale_with_zero_in_the_middle():
    table = torch.tensor([[0.5, -2.0, 1.0], [0.0, 1.0, 0.25]])
    axes = plot_table(table)
    (image,) = axes.get_images()
    assert image.get_array().tolist() == table.tolist()
    assert image.get_clim() == (-2, 2)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("entry", "position")


def test_curves_over_the_offset_differ_in_style():
    axes = plot_by_offset({"a": ([-1, 0], [3.0, 4.0]), "b": ([0, 1], [5.0, 6.0])}, "score")
    first, second = axes.get_lines()
    assert first.get_xydata().tolist() == [[-1, 3], [0, 4]]
    assert second.get_xydata().tolist() == [[0, 5], [1, 6]]
    assert first.get_linestyle() != second.get_linestyle()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert axes.get_ylabel() == "score"


def test_loss_is_a_mean_over_windows_and_the_trained_length_is_marked():
    losses = torch.arange(11.0)
    axes = plot_loss_by_position({"a": losses}, trained=5, window=4)
    curve, mark = axes.get_lines()
    assert curve.get_xydata().tolist() == [[2, 1.5], [6, 5.5]]
    assert set(mark.get_xdata()) == {5}
    assert axes.texts[0].get_text() == "trained up to here"


def test_loss_must_fill_a_window():
    with pytest.raises(ValueError, match="at least 16 positions of 'a', got 11"):
        plot_loss_by_position({"a": torch.zeros(11)}, trained=5)


def test_weights_are_drawn_with_lines_after_the_trained_positions():
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.5, 0.25]]) / 4
    axes = plot_weights(weights, trained=2, darkest=0.125)
    (image,) = axes.get_images()
    assert image.get_array().tolist() == weights.tolist()
    assert image.get_clim() == (0, 0.125)
    across, down = axes.get_lines()
    assert set(across.get_ydata()) == set(down.get_xdata()) == {1.5}
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "position of the key",
        "position of the query",
    )

"""The figures about self-attention: numbers in their fields, rows as queries, bounds where due."""

import matplotlib.pyplot as plt
import pytest
import torch

from chapters.self_attention.plots import plot_maps, plot_seeds
from tests.helpers import unchecked


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_maps_stand_side_by_side_with_their_numbers():
    first = torch.tensor([[0.0, 1.0], [0.25, 0.75]])
    left, right = plot_maps({"a": first, "b": first.T}, ["p", "q"])
    assert (left.get_title(), right.get_title()) == ("a", "b")
    assert (left.get_ylabel(), left.get_xlabel()) == ("query", "key")
    assert left.get_images()[0].get_array().tolist() == first.tolist()
    assert left.get_images()[0].get_clim() == (0.0, 1.0)
    # The field of a 0 is empty; text stands at (column, row).
    texts = {text.get_position(): text.get_text() for text in left.texts}
    assert texts == {(1, 0): "1.00", (0, 1): "0.25", (1, 1): "0.75"}
    assert [label.get_text() for label in left.get_yticklabels()] == ["p", "q"]


def test_maps_may_have_labels_of_their_own_and_a_larger_range():
    square = torch.tensor([[4.0]])
    axes, _ = plot_maps(
        {"a": square, "b": square / 2},
        {"a": ["first"], "b": ["x"]},
        rows="output at",
        columns="input at",
    )
    assert axes.get_images()[0].get_clim() == (0.0, 4.0)
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("output at", "input at")
    assert axes.get_xticklabels()[0].get_rotation() == 45


def test_maps_refuse_labels_that_do_not_fit():
    with unchecked(), pytest.raises(ValueError, match=r"expected 2 labels of 'a', .*row, got 3"):
        plot_maps({"a": torch.zeros(2, 2)}, ["p", "q", "r"])


def test_seeds_are_dots_beside_what_guessing_gives():
    runs = {"one": {"x": [0.2, 0.4], "y": [0.9]}, "two": {"x": [0.5], "y": [0.6]}}
    axes = plot_seeds(runs, ylabel="right", chance=0.25)
    heights = [list(line.get_ydata()) for line in axes.get_lines()]
    assert heights == [[0.25, 0.25], [0.2, 0.4], [0.9], [0.5], [0.6]]
    assert axes.get_ylabel() == "right"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["one", "two"]
    assert {t.get_text() for t in axes.get_legend().get_texts()} == {"x", "y", "guessing"}

"""The figures about masks: the right cells are filled, and labels that do not fit are named."""

import matplotlib.pyplot as plt
import pytest
import torch

from kit.shared.axes import plot_masks
from lib.masks import causal_mask


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_rows_are_queries_and_crosses_are_masked():
    mask = torch.tensor([[True, False, True], [False, True, True]])
    axes = plot_masks({"a": mask})
    (image,) = axes.get_images()
    assert image.get_array().tolist() == mask.tolist()
    assert axes.collections[0].get_offsets().tolist() == [[1, 0], [0, 1]]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("key", "query", "a")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "1", "2"]


def test_panels_wrap_and_share_labels():
    axes = plot_masks({str(n): causal_mask(2) for n in range(4)}, ["p", "q"], ["a", "b"])
    panels = axes.figure.axes
    assert [panel.get_title() for panel in panels] == ["0", "1", "2", "3", "", ""]
    assert [panel.axison for panel in panels] == [True] * 4 + [False] * 2
    for panel in panels[:4]:
        assert [label.get_text() for label in panel.get_yticklabels()] == ["p", "q"]
        assert [label.get_text() for label in panel.get_xticklabels()] == ["a", "b"]
    axes = plot_masks({str(n): causal_mask(2) for n in range(4)}, per_row=2)
    assert len(axes.figure.axes) == 4


def test_a_mask_that_allows_all_has_no_cross():
    axes = plot_masks({"all": torch.ones(2, 3, dtype=torch.bool)})
    assert len(axes.collections[0].get_offsets()) == 0


def test_what_cannot_be_drawn_is_named():
    with pytest.raises(ValueError, match="at least one mask"):
        plot_masks({})
    with pytest.raises(ValueError, match="expected 2 labels for 'a', got 1"):
        plot_masks({"a": causal_mask(2)}, ["p"])

"""Maps of heads and masks: the right cells are drawn, queries as rows, and bad labels named."""

import matplotlib.pyplot as plt
import pytest
import torch

from drawing.axes import plot_heads, plot_masks
from lib.masks import causal_mask
from tests.helpers import unchecked


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_one_map_for_each_head_on_one_scale():
    maps = {name: torch.rand(2, 3) for name in "abc"}
    last = plot_heads(maps, ["p", "q"], ["x", "long", "z"])
    panels = [axes for axes in last.figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == ["a", "b", "c"]
    for axes, weights in zip(panels, maps.values(), strict=True):
        (image,) = axes.get_images()
        assert image.get_array().tolist() == weights.tolist()
        assert image.get_clim() == (0, 1)
        assert [label.get_text() for label in axes.get_yticklabels()] == ["p", "q"]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["x", "long", "z"]
        assert axes.get_xticklabels()[0].get_rotation() == 90
    assert [axes.get_ylabel() for axes in panels] == ["query", "", "query"]


def test_labels_must_fit_the_maps():
    with unchecked(), pytest.raises(ValueError, match=r"expected 2 labels of 'a', .*row, got 3"):
        plot_heads({"a": torch.rand(2, 3)}, ["p", "q", "r"], ["x", "y"])
    with unchecked(), pytest.raises(ValueError, match=r"expected 3 labels of 'a', .*column, got 2"):
        plot_heads({"a": torch.rand(2, 3)}, ["p", "q"], ["x", "y"])


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
    assert [panel.get_title() for panel in panels] == ["0", "1", "2", "3"]
    for panel in panels:
        assert [label.get_text() for label in panel.get_yticklabels()] == ["p", "q"]
        assert [label.get_text() for label in panel.get_xticklabels()] == ["a", "b"]
    axes = plot_masks({str(n): causal_mask(2) for n in range(4)}, per_row=2)
    assert len(axes.figure.axes) == 4


def test_a_mask_that_allows_all_has_no_cross():
    axes = plot_masks({"all": torch.ones(2, 3, dtype=torch.bool)})
    assert len(axes.collections[0].get_offsets()) == 0


def test_what_cannot_be_drawn_is_named():
    with pytest.raises(ValueError, match="at least one panel"):
        plot_masks({})
    with pytest.raises(ValueError, match=r"expected 2 labels of 'a', one for each row, got 1"):
        plot_masks({"a": causal_mask(2)}, ["p"])

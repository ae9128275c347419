"""The figures about heads: the right numbers are drawn, queries as rows, and bad labels named."""

import matplotlib.pyplot as plt
import pytest
import torch

from kit.multi_head.plots import plot_matrices, plot_points, plot_runs
from kit.shared.axes import plot_heads
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
    with unchecked(), pytest.raises(ValueError, match=r"3 and 2 for maps of \[\(2, 3\)\]"):
        plot_heads({"a": torch.rand(2, 3)}, ["p", "q", "r"], ["x", "y"])


def test_matrices_share_their_scale():
    matrices = {"a": torch.full((2, 5), 3.0), "b": torch.full((2, 5), 7.0)}
    axes = plot_matrices(matrices, "column", "row", "size")
    assert axes.get_xlabel() == "column"
    panels = [panel for panel in axes.figure.axes if panel.get_title()]
    assert [panel.get_images()[0].get_clim() for panel in panels] == [(0, 7), (0, 7)]
    assert panels[0].get_images()[0].get_array().tolist() == matrices["a"].tolist()


def test_each_run_is_a_dot():
    axes = plot_runs({"one": [0.1, 0.2, 0.3], "two": [0.7]}, "share")
    first, second = axes.collections
    assert first.get_offsets()[:, 1].tolist() == [0.1, 0.2, 0.3]
    assert len(set(first.get_offsets()[:, 0])) == 3
    assert second.get_offsets().tolist() == [[1.0, 0.7]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["one", "two"]


def test_groups_of_points():
    axes = plot_points({"a": ([1.0, 2.0], [3.0, 4.0]), "b": ([5.0], [6.0])}, "x", "y")
    assert [c.get_offsets().tolist() for c in axes.collections] == [[[1, 3], [2, 4]], [[5, 6]]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]

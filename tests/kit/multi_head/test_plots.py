"""The figures about heads: the right numbers are drawn, each group in its place."""

import matplotlib.pyplot as plt
import pytest
import torch

from kit.multi_head.plots import plot_matrices, plot_points, plot_runs


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


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

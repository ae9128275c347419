"""The figure about heads: the right numbers are drawn, each group in its place."""

import matplotlib.pyplot as plt
import pytest

from chapters.multi_head.plots import plot_runs


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_each_run_is_a_dot():
    axes = plot_runs({"one": [0.1, 0.2, 0.3], "two": [0.7]}, "share")
    first, second = axes.collections
    assert first.get_offsets()[:, 1].tolist() == [0.1, 0.2, 0.3]
    assert len(set(first.get_offsets()[:, 0])) == 3
    assert second.get_offsets().tolist() == [[1.0, 0.7]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["one", "two"]

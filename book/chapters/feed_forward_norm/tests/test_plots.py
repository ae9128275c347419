"""The figures of chapter 7 hold the numbers they are given."""

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

from chapters.feed_forward_norm.plots import plot_activations, plot_depth, plot_seeds

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_activations():
    axes = plot_activations({"ReLU": torch.relu, "double": lambda x: 2 * x}, reach=3.0)
    relu, double = axes.lines
    assert (relu.get_ydata()[0], relu.get_ydata()[-1]) == (0.0, 3.0)
    assert double.get_ydata()[0] == -6.0
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ReLU", "double"]
    with pytest.raises(ValueError, match=r"expected one to 6 curves, .* got 0"):
        plot_activations({})


def test_depth():
    axes = plot_depth({"pre": [1.0, 2.0], "post": [0.1, 5.0, 7.0]}, "size", first=0)
    assert axes.get_yscale() == "log"
    assert list(axes.lines[1].get_xdata()) == [0, 1, 2]
    assert list(axes.lines[1].get_ydata()) == [0.1, 5.0, 7.0]
    assert axes.lines[0].get_marker() != axes.lines[1].get_marker()
    with pytest.raises(ValueError, match="above 0"):
        plot_depth({"pre": [1.0, 0.0]}, "size")


def test_seeds_are_a_mean_and_a_band():
    runs = {"pre": [[3.0, 1.0, 2.0], [5.0, 3.0, 0.0]]}
    axes = plot_seeds(runs, every=50, baseline=("blind", 1.7))
    assert list(axes.lines[0].get_xdata()) == [50, 100, 150]
    assert list(axes.lines[0].get_ydata()) == [4.0, 2.0, 1.0]
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (0.0, 5.0)
    assert set(axes.lines[1].get_ydata()) == {1.7}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["pre"]
    assert [text.get_text() for text in axes.texts] == ["blind"]
    with pytest.raises(ValueError, match="shorter"):
        plot_seeds({"pre": [[3.0, 1.0], [2.0]]}, every=50, baseline=("blind", 1.7))

"""The figures about attention: the right numbers are drawn, and what does not fit is named."""

import matplotlib.pyplot as plt
import pytest
import torch

from chapters.attention_layer.plots import plot_fits, plot_rates, plot_updates
from chapters.attention_layer.rotated_lookup import DIMENSIONS, EQUAL_WEIGHTS, VARIANTS


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def runs(solved):
    """A record of two seeds in which `solved` says how many updates a run took."""
    return {
        "runs": [
            {"d_k": d_k, "variant": variant, "rate": rate, "seed": seed, "end": end + seed / 100}
            | {"solved": solved(d_k, variant) + 10 * seed if rate == 0.01 else 0}
            for d_k in DIMENSIONS
            for variant in VARIANTS
            for rate, end in ((0.001, 0.5), (0.01, 0.1), (0.1, 0.9))
            for seed in range(3)
        ]
    }


def test_updates_are_those_at_the_rate_that_ends_best():
    record = runs(lambda d_k, variant: d_k + VARIANTS.index(variant))
    axes = plot_updates(record)
    for i, line in enumerate(axes.get_lines()):
        assert line.get_label() == VARIANTS[i]
        assert line.get_xydata().tolist() == [[d_k, d_k + i + 10] for d_k in DIMENSIONS]
    bars = axes.collections[0].get_segments()
    assert [bar.tolist() for bar in bars] == [[[d, d], [d, d + 20]] for d in DIMENSIONS]
    axes.figure.canvas.draw()
    assert [int(label.get_text()) for label in axes.get_xticklabels()] == list(DIMENSIONS)


def test_each_panel_has_all_the_rates():
    panels = plot_rates(runs(lambda d_k, variant: 1)).figure.axes
    assert [panel.get_title() for panel in panels] == ["$d_k$ = 16", "$d_k$ = 64", "$d_k$ = 256"]
    for panel in panels:
        *curves, dotted = panel.get_lines()
        assert dotted.get_ydata()[0] == EQUAL_WEIGHTS
        for curve in curves:
            assert curve.get_xydata() == pytest.approx(
                torch.tensor([[0.001, 0.51], [0.01, 0.11], [0.1, 0.91]]).numpy()
            )
    assert [text.get_text() for text in panels[0].get_legend().get_texts()] == list(VARIANTS)


def test_fits_stand_side_by_side():
    points, grid = ([0.0, 1.0], [2.0, 3.0]), [0.0, 0.5, 1.0]
    axes = plot_fits(points, grid, {"a": [1.0] * 3, "b": [2.0, 3.0, 4.0]}, truth=[0.0] * 3)
    first, second = axes.figure.axes
    assert (first.get_title(), second.get_title()) == ("a", "b")
    truth, fit = second.get_lines()
    assert list(truth.get_ydata()) == [0, 0, 0]
    assert list(fit.get_ydata()) == [2, 3, 4]
    assert second.collections[0].get_offsets().tolist() == [[0, 2], [1, 3]]
    assert len(plot_fits(points, grid, {"a": [1.0] * 3}).get_lines()) == 1
    with pytest.raises(ValueError, match="expected 3 values in 'a', one for each x, got 1"):
        plot_fits(points, grid, {"a": [1.0]})

"""The figures: the right points are drawn, labelled, and bad input is named."""

import math
from contextlib import nullcontext
from itertools import pairwise

import matplotlib.pyplot as plt
import pytest

from drawing.axes import COLOURS, draw_curves, new_axes, plot_by_length, plot_losses
from lib.metrics import LengthBin


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_losses_are_means_over_the_window():
    axes = plot_losses({"one": [4.0, 2.0, 1.0], "other": [1.0, 1.0, 1.0, 3.0]}, window=2)
    first, second = axes.get_lines()
    assert first.get_xydata().tolist() == [[2, 3], [3, 1.5]]
    assert second.get_ydata().tolist() == [1, 1, 2]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "other"]
    assert axes.get_ylabel() == "loss per token"
    assert axes.get_yscale() == "log"


def test_a_single_run_needs_no_legend():
    assert plot_losses({"one": [1.0, 2.0]}, window=1).get_legend() is None


def test_losses_shorter_than_the_window():
    with pytest.raises(ValueError, match="at least 3 losses of 'one', got 2"):
        plot_losses({"one": [1.0, 2.0]}, window=3)


def test_by_length_leaves_out_empty_bins():
    bins = [LengthBin(1, 5, 7, 0.5), LengthBin(6, 10, 0, math.nan), LengthBin(11, 13, 2, 0.25)]
    axes = plot_by_length({"model": bins})
    (line,) = axes.get_lines()
    assert line.get_xydata().tolist() == [[0, 0.5], [2, 0.25]]
    assert [t.get_text() for t in axes.get_xticklabels()] == ["1 to 5", "6 to 10", "11 to 13"]
    low, high = axes.get_ylim()
    assert low < 0 < 1 < high


def test_curves_over_different_bins_cannot_share_axes():
    one, other = [LengthBin(1, 5, 7, 0.5)], [LengthBin(1, 6, 7, 0.5)]
    with pytest.raises(ValueError, match="the same bins"):
        plot_by_length({"one": one, "other": other})


def test_given_axes_are_drawn_on():
    _, (left, right) = plt.subplots(ncols=2)
    assert plot_losses({"one": [1.0]}, window=1, axes=left) is left
    assert plot_by_length({"model": [LengthBin(1, 5, 7, 0.5)]}, axes=right) is right


def test_every_curve_is_drawn_with_a_look_of_its_own():
    curves = {name: ([1, 2], [3, number]) for number, name in enumerate("abcdef")}
    axes = draw_curves(new_axes(), curves, "x", "y", styles=True)
    looks = {(line.get_color(), line.get_marker()) for line in axes.lines}
    assert len(looks) == len(curves) == len(COLOURS)
    neighbours = [line.get_linestyle() for line in axes.lines]
    assert all(one != other for one, other in pairwise(neighbours))


def test_curves_that_cannot_be_told_apart_are_not_left_out_silently():
    runs = {str(number): [1.0, 2.0] for number in range(7)}
    with pytest.raises(ValueError, match=r"expected one to 6 curves, .* got 7"):
        plot_losses(runs, window=1)


@pytest.mark.parametrize(("log", "refused"), [("", False), ("x", False), ("y", True), ("xy", True)])
def test_only_a_logarithmic_axis_refuses_a_zero(log, refused):
    expected = pytest.raises(ValueError, match="numbers above 0") if refused else nullcontext()
    with expected:
        draw_curves(new_axes(), {"a": ([1, 2], [0.0, 3.0])}, "x", "y", log=log)


def test_a_legend_may_stand_beside_the_axes():
    axes = draw_curves(new_axes(), {"a": ([1, 2], [0, 3])}, "x", "y", legend="beside")
    axes.figure.canvas.draw()
    assert axes.get_legend().get_window_extent().x0 >= axes.get_window_extent().x1

"""The figures about training draw what they are given."""

import matplotlib.pyplot as plt
import pytest

from chapters.training.plots import plot_ablations, plot_schedules
from lib.training import cosine, paper_schedule


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_schedules_are_drawn_from_the_first_step_to_the_last():
    given = {"paper": paper_schedule(64, 30), "cosine": cosine(101, 7)}
    axes = plot_schedules(given, 101)
    for line, (name, rate) in zip(axes.lines, given.items(), strict=True):
        assert line.get_label() == name
        assert line.get_xdata().tolist() == list(range(101))
        assert line.get_ydata().tolist() == [rate(step) for step in range(101)]
    assert axes.get_ylim()[0] == 0
    styles = [line.get_linestyle() for line in axes.lines]
    assert len(set(styles)) == 2, "told apart without colour"


def test_a_long_schedule_is_thinned_out():
    axes = plot_schedules({"paper": paper_schedule(512)}, 100_000)
    places = axes.lines[0].get_xdata()
    assert (places[0], places[-1]) == (0, 99_999)
    assert len(places) < 500


def test_a_schedule_needs_steps():
    with pytest.raises(ValueError, match="expected at least 2 steps to draw, got 1"):
        plot_schedules({"paper": paper_schedule(512)}, 1)


def test_ablations_are_bars_from_top_to_bottom_with_points():
    axes = plot_ablations({"base": 0.5, "dropout": 0.25, "heads": 0.75}, {"heads": [0.7, 0.8]})
    assert [bar.get_width() for bar in axes.patches] == [0.5, 0.25, 0.75]
    assert axes.yaxis_inverted()
    base, points = axes.lines
    assert list(base.get_xdata()) == [0.5, 0.5]
    assert list(points.get_xdata()) == [0.7, 0.8]
    assert axes.get_xlim() == (0, 1)


def test_ablations_need_runs_and_their_own_points():
    with pytest.raises(ValueError, match="expected at least one run"):
        plot_ablations({})
    with pytest.raises(ValueError, match=r"points of the runs that are drawn, got \['b'\]"):
        plot_ablations({"a": 0.5}, {"b": [0.1]})

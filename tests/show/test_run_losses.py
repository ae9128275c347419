"""The losses as a widget holds them: few points, and the best one as it was."""

import pytest

from show.run_losses import POINTS, ROWS, RunLosses, thinned
from tests.widget_samples import CURVES


def test_short_curves_stay_as_they_are():
    curve = [(n, 1 / n) for n in range(1, POINTS + 1)]
    assert thinned(curve) == curve


@pytest.mark.parametrize("length", [POINTS + 1, 2 * POINTS, 100_003])
def test_long_curves_are_means(length):
    curve = [(n, float(n)) for n in range(1, length + 1)]
    points = thinned(curve)
    assert POINTS / 2 <= len(points) <= POINTS
    assert points[-1][0] == length
    first = points[0][0]
    assert points[0] == (first, (first + 1) / 2)


def test_no_losses_are_no_points():
    assert thinned([]) == []


def test_the_best_is_not_thinned():
    widget = RunLosses([CURVES[0] | {"best": (37, 1.23456)}])
    assert widget.runs[0]["best"] == [37, 1.2346]


def test_both_runs_can_be_shown_together_and_one_alone_cannot():
    assert RunLosses(CURVES, shown=2).shown == 2
    with pytest.raises(ValueError, match="shown"):
        RunLosses(CURVES, shown=3)
    with pytest.raises(ValueError, match="shown"):
        RunLosses(CURVES[:1], shown=1)


def test_without_scripts_there_is_a_table_of_validation():
    many = CURVES[0] | {"validation": [(n, 2.0) for n in range(1, 200)]}
    html = RunLosses([many]).static_html()
    assert html.count("<tr>") <= ROWS + 1
    assert "the best after update 60" in html
    assert "<b>" not in RunLosses(CURVES).static_html()

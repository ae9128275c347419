"""The figure of findings: cells are filled where a property fails, and dotted where it stops."""

import matplotlib.pyplot as plt
import pytest

from chapters.mistakes.plots import plot_findings
from checks.framework import Finding


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def row(*numbers):
    """Findings named a, b, ...: 0 holds, None stops, anything else fails."""
    return {name: Finding(name, n == 0, n, "") for name, n in zip("abc", numbers, strict=False)}


def test_filled_where_it_fails_and_dotted_where_it_stops():
    axes = plot_findings({"X": row(0.0, 2.0, 0.0), "Y": row(None, 0.0, 0.5)}, {"X": "first"})
    (image,) = axes.get_images()
    assert image.get_array().tolist() == [[False, True, False], [True, False, True]]
    assert axes.collections[0].get_offsets().tolist() == [[0, 1]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["first", "Y"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "c"]


def test_without_a_stop_there_is_no_dot():
    assert not plot_findings({"X": row(0.0, 1.0)}).collections


def test_rows_that_do_not_fit_are_refused():
    for matrix in ({}, {"X": row(0.0), "Y": row(0.0, 1.0)}):
        with pytest.raises(ValueError, match="the same properties"):
            plot_findings(matrix)

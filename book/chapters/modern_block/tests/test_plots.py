"""The figure: bars and marks are where their numbers are, and what cannot be drawn is named."""

import matplotlib.pyplot as plt
import pytest

from chapters.modern_block.plots import plot_changes


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def test_a_bar_is_the_mean_and_each_seed_a_mark():
    changes = {
        "rotary": {"short": [-0.5, -0.3], "long": [-0.1]},
        "untied": {"short": [0.1, 0.3], "long": [0.0, 0.2]},
    }
    axes = plot_changes(changes)
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([-0.4, 0.2, -0.1, 0.1])
    _, *lines = axes.get_lines()
    found = [[x for x, _ in line.get_xydata()] for line in lines]
    assert found == [[-0.5, -0.3], [0.1, 0.3], [-0.1], [0.0, 0.2]]
    heights = [line.get_xydata()[0][1] for line in lines]
    assert heights == pytest.approx([-0.2, 0.8, 0.2, 1.2])  # the short training is above
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rotary", "untied"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["short", "long"]
    assert axes.yaxis_inverted()


@pytest.mark.parametrize(
    "changes",
    [{}, {"rotary": {}}, {"rotary": {"short": []}}, {"a": {"short": [1.0]}, "b": {"long": [1.0]}}],
)
def test_changes_need_differences_of_the_same_trainings(changes):
    with pytest.raises(ValueError, match="of the same trainings with a difference a seed, got"):
        plot_changes(changes)

"""The learning-rate explorer's start, and what it leaves for readers without scripts."""

import re

import pytest

from chapters.training.learning_rate import D_MODELS, PEAKS, SCHEDULES, LearningRateExplorer
from lib.training import cosine, paper_schedule, warm_up


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"schedule": "linear"}, "schedule: expected one of paper, cosine, constant, got 'linear'"),
        ({"d_model": 500}, "d_model: expected one of 32, 64, .*, 2048, got 500"),
        ({"d_model": True}, "d_model: expected one of 32, .*, got True"),
        ({"warmup": 0}, "warmup: expected one of 1, 10, .*, 16000, got 0"),
        ({"total": 1234}, "total: expected one of 300, .*, 300000, got 1234"),
        ({"peak": 0.0}, "peak: expected one of 0.0001, .*, 0.03, got 0.0"),
        ({"step": -1}, "step: expected a whole number from 0 to 99999, got -1"),
        ({"total": 500, "step": 500}, "step: expected a whole number from 0 to 499, got 500"),
        ({"step": True}, "step: expected a whole number from 0 to 99999, got True"),
    ],
)
def test_start_is_one_that_the_controls_can_reach(start, message):
    with pytest.raises(ValueError, match=message):
        LearningRateExplorer(**start)


def test_every_choice_will_do():
    for d_model in D_MODELS:
        assert LearningRateExplorer(d_model=d_model).data()["d_model"] == d_model
    assert [LearningRateExplorer(peak=peak).peak for peak in PEAKS] == list(PEAKS)
    assert [LearningRateExplorer(name).schedule for name in SCHEDULES] == list(SCHEDULES)


def test_it_starts_at_the_peak():
    assert LearningRateExplorer().step == 3999
    assert LearningRateExplorer(total=1000).step == 999, "a warm-up longer than the run"
    widget = LearningRateExplorer("constant", warmup=30, total=500, peak=2e-3)
    assert [widget.rate("constant", s) for s in (0, 29, 499)] == pytest.approx(
        [2e-3 / 30, 2e-3, 2e-3]
    )


def test_static_table_is_that_of_the_schedules():
    widget = LearningRateExplorer(d_model=64, warmup=150, total=1500, peak=4e-3, step=700)
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th>(.*?)</tr>", widget.static_html())
    assert [int(step.replace(",", "")) for step, _ in rows] == [0, 149, 700, 749, 1499]
    for step, cells in rows:
        place = int(step.replace(",", ""))
        wanted = (
            paper_schedule(64, 150)(place),
            4e-3 * cosine(1500, 150)(place),
            4e-3 * warm_up(150)(place),
        )
        assert re.findall("<td>(.*?)</td>", cells) == [f"{rate:.2e}" for rate in wanted]


def test_no_cosine_where_the_warm_up_fills_the_run():
    text = LearningRateExplorer(warmup=4000, total=1000).static_html()
    assert text.count("<td>none</td>") == text.count('<th scope="row">')


def test_summary_says_the_start():
    assert repr(LearningRateExplorer("cosine", warmup=150, total=1500, peak=4e-3)) == (
        "LearningRateExplorer: cosine, d_model 512, warm-up 150, 1500 steps, peak 0.004"
    )

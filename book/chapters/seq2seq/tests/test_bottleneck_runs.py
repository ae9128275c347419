"""The recorded runs of a translator: what the widget makes of them, and what it refuses."""

import re

import pytest

from chapters.seq2seq.bottleneck_runs import BottleneckRuns
from chapters.seq2seq.recorded_runs import recorded
from chapters.seq2seq.tests.samples import recorded_runs


def test_seeds_of_a_run_stand_side_by_side():
    widget = BottleneckRuns(recorded_runs())
    assert [(r["d_hidden"], r["steps"]) for r in widget.runs] == [
        (32, 300),
        (128, 300),
        (128, 1250),
    ]
    assert widget.shares(128, 300, 2e-3) == [[0.5, 0.25], [1.0, 0.0]]
    assert widget.shares(64, 300, 2e-3) is None


def test_items_of_each_seed_are_those_wholly_right_standing_first():
    widget = BottleneckRuns(recorded_runs())
    assert widget.items == {"count": 5, "trained": 2}
    [run] = [r for r in widget.runs if (r["d_hidden"], r["steps"]) == (128, 300)]
    assert run["items"] == [[5, 2, 1], [5, 4, 1]]


def test_lengths_say_how_many_sentences_and_whether_training_had_them():
    assert BottleneckRuns(recorded_runs()).lengths == [
        {"label": "1 to 3", "count": 4, "trained": True},
        {"label": "4 to 6", "count": 8, "trained": False},
    ]


def test_translations_are_stored_with_their_errors_marked():
    widget = BottleneckRuns(recorded_runs())
    written = [run["written"] for run in widget.runs if run["d_hidden"] == 128]
    assert written[0] == [["~dix euros", ""], ["^il ^y ^a deux jours"]]
    assert written[1] == [["", ""], ["il ~a a deux jours"]]


def test_a_run_without_recorded_translations_has_none():
    [small] = [run for run in BottleneckRuns(recorded_runs()).runs if run["d_hidden"] == 32]
    assert small["written"] == []


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"d_hidden": 100}, "d_hidden: expected one of 32, 128, got 100"),
        ({"steps": 1}, "steps: expected one of 300, 1250, got 1"),
        ({"lr": 0.5}, "lr: expected one of 0.002, got 0.5"),
        ({"along": "seed"}, "along: expected one of d_hidden, steps, lr, got 'seed'"),
        ({"length": 2}, "length: expected a whole number from 0 to 1, got 2"),
        ({"example": 2}, "example: expected a whole number from 0 to 1, got 2"),
    ],
)
def test_start_is_one_that_the_controls_can_reach(start, message):
    with pytest.raises(ValueError, match=message):
        BottleneckRuns(recorded_runs(), **start)


@pytest.mark.parametrize("missing", ["sets", "runs"])
def test_a_record_of_another_form_is_refused(missing):
    record = recorded_runs()
    del record[missing]
    with pytest.raises(
        ValueError,
        match=f"record: expected what experiments/bottleneck.py.*{missing}",
    ):
        BottleneckRuns(record)


def test_static_table_gives_the_last_step_of_each_run():
    text = BottleneckRuns(recorded_runs()).static_html()
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', text)
    assert [(name, re.findall("<td>(.*?)</td>", cells)) for name, cells in rows] == [
        ("dimension 32, 300 steps at 0.002", ["0 %", "0 %"]),
        ("dimension 128, 1,250 steps at 0.002", ["100 %", "50 %"]),
    ]


def test_recorded_runs_of_the_book_fit_a_page():
    widget = BottleneckRuns.recorded()
    assert len(widget.data_json().encode()) < 120_000
    assert sum(len(run["right"]) for run in widget.runs) == sum(
        len(run["checkpoints"]) for run in recorded()["runs"]
    )
    start = widget.shares(128, 1250, 2e-3)
    assert start, "the run of the chapter"
    assert [one["trained"] for one in widget.lengths] == [True] * 6 + [False] * 2

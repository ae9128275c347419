"""What was recorded of the words of two meanings, and what chapters 4, 6 and 8 say of it."""

import pytest

from benchmarks.laboratory_settings import title_of
from benchmarks.playground import BY_TASK, NAMED, SETTINGS
from engine.laboratory import TASKS
from measure.records import read_results

RECORD = read_results("playground")
ROWS = RECORD["settings"]
SIZES = ("", ", n_heads 1", ", n_heads 4", ", d_model 16", ", d_model 64")


def reached(title: str) -> list[float]:
    return [run["accuracy"] for run in ROWS[title]["runs"]]


def test_the_record_has_every_setting_and_seed():
    assert list(ROWS) == list(SETTINGS)
    assert RECORD["seeds"] == list(range(10))
    assert {len(row["runs"]) for row in ROWS.values()} == {10}
    for row in ROWS.values():
        assert all(set(run["answers"]) == set(NAMED) for run in row["runs"])


@pytest.mark.parametrize("task", BY_TASK)
def test_each_offered_size_was_measured(task):
    """Every number of heads and every d_model beside the start."""
    for name in ("n_heads", "d_model"):
        for value in TASKS[task].settings[name].options:
            assert title_of(task, {name: value}) in ROWS


def test_no_order_changes_an_answer_where_nothing_knows_the_order():
    found = [
        run["play"]["the same in another order"]
        for row in ROWS.values()
        for run in row["runs"]
        if row["changes"].get("positions", "none") == "none"
        if run["play"] and not row["changes"].get("causal")
    ]
    assert len(found) >= 140
    assert set(found) == {1}

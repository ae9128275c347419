"""What was recorded of the first page's trainer: that it gets there, and what the panel says."""

import pytest

from benchmarks import train_now
from measure.records import read_results

RECORD = read_results("train_now")


@pytest.mark.parametrize("run", RECORD["runs"], ids=lambda run: f"seed {run['seed']}")
def test_every_run_keeps_the_bars(run):
    assert train_now.broken(run) == []


def test_the_seeds_are_those_that_a_reader_meets_first():
    assert [run["seed"] for run in RECORD["runs"]] == list(range(10))
    assert {run["parameters"] for run in RECORD["runs"]} == {23936}


def test_a_run_that_does_not_get_there_is_named():
    run = RECORD["runs"][3] | {"accuracy": 0.4, "enough_step": None}
    assert train_now.broken(run) == [
        "seed 3: accuracy is 0.4, not from 0.95 to 1.0",
        "seed 3: enough_step is None, not from 1 to 400",
    ]


def test_words_that_name_a_digit_are_counted():
    words = [*train_now.NAMED[train_now.NUMBER], "and"]
    weights = [[float(i == j) for j in range(6)] for i in range(5)] + [[0.0] * 5 + [1.0]]
    frames = [{"words": words, "weights": weights}, *[{"words": [], "weights": [[1.0]]}] * 2]
    assert train_now.read_most(frames) == 5
    frames[0]["weights"] = weights[::-1]
    assert train_now.read_most(frames) == 0  # of a diagonal upside down


def test_the_first_report_is_of_random_numbers_and_the_last_is_right():
    first, *_, last = RECORD["history"]
    assert (first["step"], last["step"]) == (0, 600)
    assert first["writes"] == RECORD["first"]["writes"] != last["writes"]
    assert first["accuracy"] == 0
    assert last["writes"] == "seventy three thousand six hundred and ninety one"

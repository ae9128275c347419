"""What was recorded of chapter 14's language model: it beats counting, or it overfits."""

import copy

import pytest

from benchmarks import language
from engine.language import DROPOUTS
from measure.records import read_results

RECORD = read_results("language")


def test_every_setting_keeps_the_bars():
    assert language.broken(RECORD) == []


def test_the_seeds_are_those_that_a_reader_meets_first():
    assert RECORD["seeds"] == list(range(10))
    assert list(RECORD["texts"]) == list(language.TEXTS)
    for by_dropout in RECORD["texts"].values():
        assert list(by_dropout) == list(map(str, DROPOUTS))
        for row in by_dropout.values():
            assert {len(row[name]) for name in language.EACH} == {10}
            assert all(a <= b for a, b in zip(row["least"], row["held"], strict=True))


def test_first_names_are_beaten_in_time_on_three_seeds():
    usual = RECORD["texts"]["names"][str(language.USUAL)]
    assert all(seconds <= language.SECONDS for seconds in usual["beaten"][:3])


@pytest.mark.parametrize(
    ("text", "name", "value", "message"),
    [
        ("names", "beaten", 46.0, "names: not below the best count, or late"),
        ("names", "held", 9.0, "names: not below the best count, or late"),
        ("places", "least", 9.0, "places, dropout 0.1: it does not overfit on each seed"),
        ("places", "held", 0.1, "places, dropout 0.1: it does not overfit on each seed"),
    ],
)
def test_a_run_that_breaks_a_bar_is_named(text, name, value, message):
    spoilt = copy.deepcopy(RECORD)
    spoilt["texts"][text]["0.1"][name][3] = value
    assert any(problem.startswith(message) for problem in language.broken(spoilt))

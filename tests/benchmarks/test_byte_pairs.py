"""What was recorded of byte pairs in chapter 14's laboratory: a few merges help, many do not."""

import copy

import pytest

from benchmarks import byte_pairs
from benchmarks.byte_pairs import FEW, MANY, of
from engine.language import MERGES
from measure.records import read_results

RECORD = read_results("byte_pairs")


def test_every_run_shows_what_the_chapter_lets_a_reader_find():
    assert byte_pairs.broken(RECORD) == []
    assert {FEW, MANY} <= set(MERGES), "as the panel offers them"


def test_the_seeds_are_those_that_a_reader_meets_first():
    for merges in (FEW, MANY):
        assert of(RECORD["runs"], merges, "seed") == list(byte_pairs.SEEDS)


def test_the_rival_is_that_of_characters():
    counted = read_results("language")["texts"]["names"]["0.1"]["counted"]
    assert {one["counted"] for one in RECORD["runs"]} == {counted}
    assert max(of(RECORD["runs"], FEW, "long")) < min(of(RECORD["runs"], MANY, "long"))


@pytest.mark.parametrize(("name", "message"), [("held", "held-out loss"), ("taught", "training")])
def test_a_run_that_shows_something_else_is_named(name, message):
    spoilt = copy.deepcopy(RECORD)
    spoilt["runs"][0][name] = 9.0
    (problem,) = byte_pairs.broken(spoilt)
    assert problem.startswith("50 merges, seed 0")
    assert message in problem

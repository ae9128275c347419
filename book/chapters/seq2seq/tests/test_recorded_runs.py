"""The recorded runs are found by their settings, one measurement for each seed."""

import pytest

from chapters.seq2seq.recorded_runs import measured
from measure.records import read_results

CHAPTER = ("last state only", 128, 1250, 2e-3)


def test_there_is_one_measurement_for_each_seed():
    seeds = set()
    for run in read_results("bottleneck")["runs"]:
        if (run["model"], run["d_hidden"], run["lr"]) == ("last state only", 128, 2e-3):
            seeds.add(run["seed"])
    points = measured(*CHAPTER)
    assert len(points) == len(seeds)
    assert {point["step"] for point in points} == {1250}


def test_settings_that_are_not_recorded_are_refused():
    with pytest.raises(ValueError, match=r"expected recorded settings .*128, 1250.* got .*-1"):
        measured("last state only", 128, -1, 2e-3)

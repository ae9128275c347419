"""The recorded runs are found by their settings, one measurement for each seed."""

import pytest

from chapters.seq2seq.recorded_runs import measured, recorded
from measure.records import read_results

CHAPTER = (128, 1250, 2e-3)


def test_only_runs_of_this_chapter_are_read():
    names = {run["model"] for run in recorded()["runs"]}
    assert names == {"last state only"}
    assert names < {run["model"] for run in read_results("bottleneck")["runs"]}


def test_there_is_one_measurement_for_each_seed():
    seeds = {
        run["seed"] for run in recorded()["runs"] if (run["d_hidden"], run["lr"]) == (128, 2e-3)
    }
    points = measured(*CHAPTER)
    assert len(points) == len(seeds) == 3
    assert {point["step"] for point in points} == {1250}


def test_settings_that_are_not_recorded_are_refused():
    with pytest.raises(ValueError, match=r"expected recorded settings .*128, 1250.* got .*-1"):
        measured(128, -1, 2e-3)

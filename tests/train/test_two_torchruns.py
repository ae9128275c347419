"""Two torchruns train one model, and ranks of both are killed: the same bits, or a line."""

import sys

import pytest

from benchmarks import kills
from measure.records import read_results

RUNS = read_results("kills")["runs"]


@pytest.mark.slow
@pytest.mark.timeout(3 * kills.LIMIT)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")
@pytest.mark.parametrize(("restarts", "ended"), [(2, "same bits"), (0, "one line")])
def test_kills_under_two_torchruns(restarts, ended, tmp_path):
    found = kills.measure(2, restarts, seed=11, folder=tmp_path)
    assert found["ended"] == ended
    assert 1 <= found["kills"] <= max(restarts, 1)  # a fast run ends before a later one


def test_the_kills_are_at_both_ranks_and_at_all_times():
    made = [one for run in RUNS for one in run["killed"]]
    for torchruns in (1, 2):
        runs = [run for run in RUNS if run["torchruns"] == torchruns]
        assert sum(run["kills"] for run in runs) >= 20
        assert {run["restarts"] for run in runs} == set(kills.RESTARTS)
    assert {one["rank"] for one in made} == {0, 1}
    assert {0, kills.UPDATES} < {one["updates"] for one in made}


def test_every_recorded_run_has_ended_as_it_should():
    for run in RUNS:
        assert run["ended"] == ("same bits" if run["restarts"] else "one line")
        assert run["kills"] == len(run["killed"]) == max(run["restarts"], 1)

"""What was recorded of the two senses on ten seeds: bars that hold, and the runs known before."""

import pytest

from benchmarks import laboratories, senses_seeds
from measure.records import read_results

RECORD = read_results("senses_seeds")
BY_NAME = {row["name"]: row for row in RECORD["settings"]}


def test_the_record_has_every_setting():
    assert list(BY_NAME) == [setting.name for setting in senses_seeds.SETTINGS]
    assert sorted(BY_NAME) == sorted(senses_seeds.NAMES)
    assert RECORD["seeds"] == list(range(10))


@pytest.mark.parametrize("setting", senses_seeds.SETTINGS, ids=lambda s: s.name)
def test_every_seed_has_a_run_and_the_first_are_those_of_the_page(setting):
    row = BY_NAME[setting.name]
    assert row["settings"] == laboratories.started(setting)
    assert len(row["runs"]) == 10
    pages = read_results("laboratories")
    [page] = [
        one for one in pages["settings"] if (one["task"], one["name"]) == ("senses", setting.name)
    ]
    for seed, known in zip(pages["seeds"], page["runs"], strict=True):
        assert row["runs"][seed]["accuracy"] == pytest.approx(known["accuracy"], abs=0.005)

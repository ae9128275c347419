"""What was recorded of one laboratory on 44 seeds: its settings, and the runs known before."""

import pytest

from benchmarks import laboratories, laboratory_seeds
from measure.records import read_results

RECORD = read_results("laboratory_seeds")
BY_NAME = {row["name"]: row for row in RECORD["settings"]}


@pytest.mark.parametrize("title", laboratory_seeds.SETTINGS)
def test_every_setting_has_a_run_for_each_seed_and_the_first_are_those_of_the_page(title):
    setting = laboratories.BY_TITLE[title]
    row = BY_NAME[setting.name]
    assert row["settings"] == laboratories.started(setting)
    assert RECORD["seeds"] == list(range(44))
    assert len(row["accuracy"]) == 44
    pages = read_results("laboratories")
    [page] = [one for one in pages["settings"] if one["name"] == setting.name]
    known = dict(zip(pages["seeds"], (run["accuracy"] for run in page["runs"]), strict=True))
    for seed, accuracy in known.items():
        assert row["accuracy"][seed] == pytest.approx(accuracy, abs=0.005)

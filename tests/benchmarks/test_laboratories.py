"""What was recorded of the laboratories: every bar holds, for the settings that the pages offer."""

import pytest

from benchmarks import laboratories
from engine.laboratory import TASKS
from measure.records import read_results

RECORD = read_results("laboratories")
BY_NAME = {(row["task"], row["name"]): row for row in RECORD["settings"]}


@pytest.mark.parametrize("setting", laboratories.SETTINGS, ids=lambda s: f"{s.task}, {s.name}")
def test_every_run_keeps_the_bars_of_its_setting(setting):
    row = BY_NAME[setting.task, setting.name]
    assert row["settings"] == laboratories.START[setting.task] | dict(setting.changes)
    assert len(row["runs"]) == len(set(RECORD["seeds"])) >= 5
    for run in row["runs"]:
        assert run["path"] == "wasm"
        assert laboratories.broken(setting, run) == []


def test_a_run_that_breaks_a_bar_is_named():
    setting = laboratories.BY_TITLE["order, without positions"]
    run = dict(BY_NAME[setting.task, setting.name]["runs"][0])
    assert laboratories.broken(setting, run | {"accuracy": 0.9}) == [
        "order, without positions: accuracy is 0.9, not from 0.6 to 0.68"
    ]
    [slow] = laboratories.broken(setting, run | {"seconds": 31})
    assert slow.endswith("seconds is 31, not from 0 to 30")


@pytest.mark.parametrize("task", TASKS)
def test_what_a_page_offers_to_compare_was_measured(task):
    offered = TASKS[task]
    measured = [row["settings"] for row in RECORD["settings"] if row["task"] == task]
    for label, changes in (("start", {}), *offered.presets):
        assert {**offered.start, **changes} in measured, label

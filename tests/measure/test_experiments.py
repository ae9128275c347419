"""Experiments: the grid is run once, survives a stop, and its record is whole."""

import argparse
import ast
import json
import math

import pytest

from measure.experiments import Experiment, by_setting, command_line, grid
from measure.records import BOOK
from tests.paths import ROOT

OVER = {"rate": (0.5, 0.25), "seed": (0, 1)}
SCRIPT = "/house/chapters/room/experiments/rates.py"


def given(folder, *arguments: str, **options) -> Experiment:
    return command_line(SCRIPT, "Rates.", OVER, ["--into", str(folder), *arguments], **options)


def by_rate(runs):
    rates = {str(rate): [] for rate in OVER["rate"]}
    for one in runs:
        rates[str(one["rate"])].append(one["loss"])
    return {"by_rate": rates}


class Work:
    """A run that counts its calls, and breaks off at one of them."""

    def __init__(self, stop_at: int | None = None):
        self.calls, self.stop_at = [], stop_at

    def __call__(self, rate, seed):
        self.calls.append((rate, seed))
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        return {"loss": rate + seed}


def test_each_setting_is_run_once_in_the_order_of_the_grid(tmp_path):
    work = Work()
    grid(work, given(tmp_path), by_rate)
    assert work.calls == [(0.5, 0), (0.5, 1), (0.25, 0), (0.25, 1)]
    record = json.loads((tmp_path / "rates.json").read_text())
    assert record["by_rate"] == {"0.5": [0.5, 1.5], "0.25": [0.25, 1.25]}
    assert "date" in record["measured"]
    assert [path.name for path in tmp_path.iterdir()] == ["rates.json"]


def test_a_run_that_was_stopped_goes_on_and_the_old_record_stays_until_it_is_whole(tmp_path):
    old = tmp_path / "rates.json"
    old.write_text('{"old": true}')
    with pytest.raises(KeyboardInterrupt):
        grid(Work(stop_at=3), given(tmp_path), by_rate)
    assert json.loads(old.read_text()) == {"old": True}
    again = Work()
    record = grid(again, given(tmp_path), by_rate)
    assert again.calls == [(0.25, 0), (0.25, 1)]
    assert record == {"by_rate": {"0.5": [0.5, 1.5], "0.25": [0.25, 1.25]}}


def test_a_part_of_the_grid_waits_for_the_rest(tmp_path, capsys):
    assert grid(Work(), given(tmp_path, "--only", "0.25"), by_rate) is None
    assert "2 of 4 runs are still to be made" in capsys.readouterr().out
    assert not (tmp_path / "rates.json").exists()
    work = Work()
    assert grid(work, given(tmp_path), by_rate)
    assert work.calls == [(0.5, 0), (0.5, 1)]


def test_runs_that_the_record_keeps_are_added_to(tmp_path):
    kept = {"record": lambda runs: {"runs": runs}, "keeps_runs": True}
    grid(Work(), given(tmp_path, "--seeds", "1", "2"), **kept)
    work = Work()
    grid(work, given(tmp_path, "--only", "0.5", "--seeds", "0", "1"), **kept)
    assert work.calls == [(0.5, 0)]
    runs = json.loads((tmp_path / "rates.json").read_text())["runs"]
    assert [(one["rate"], one["seed"]) for one in runs] == [
        (0.5, 0), (0.5, 1), (0.5, 2), (0.25, 1), (0.25, 2),
    ]  # fmt: skip


def test_a_run_that_is_not_enough_is_made_again(tmp_path):
    kept = {"record": lambda runs: {"runs": runs}, "keeps_runs": True}
    grid(Work(), given(tmp_path), **kept)
    work = Work()
    grid(work, given(tmp_path), **kept, enough=lambda run: run["loss"] > 0.3)
    assert work.calls == [(0.25, 0)]


def test_fresh_forgets_earlier_runs(tmp_path):
    grid(Work(), given(tmp_path, "--only", "0.5"), by_rate)
    work = Work()
    grid(work, given(tmp_path, "--fresh"), by_rate)
    assert len(work.calls) == 4


def test_runs_of_other_options_are_not_mixed(tmp_path):
    grid(Work(), given(tmp_path, "--only", "0.5", steps=3), by_rate)
    with pytest.raises(ValueError, match=r"with the options .*7.*, got .*3.*--fresh"):
        grid(Work(), given(tmp_path, "--steps", "7", steps=3), by_rate)


def test_a_run_that_is_no_json_is_refused_at_once_and_the_others_are_kept(tmp_path):
    def run(rate, seed):
        return {"loss": math.nan if seed else rate}

    with pytest.raises(ValueError, match="plain JSON"):
        grid(run, given(tmp_path), by_rate)
    kept = json.loads((tmp_path / "rates.runs").read_text())["runs"]
    assert kept == [{"rate": 0.5, "seed": 0, "loss": 0.5}]


def in_another_process(rate, seed):
    return {"loss": rate + seed}


def test_several_runs_at_a_time_give_the_same_record(tmp_path):
    record = grid(in_another_process, given(tmp_path, "--jobs", "2"), by_rate)
    assert record == {"by_rate": {"0.5": [0.5, 1.5], "0.25": [0.25, 1.25]}}


def test_what_the_chapters_read_is_measured_with_the_defaults():
    def place(*arguments):
        return command_line(SCRIPT, "", OVER, arguments, steps=3, plain=False).path.as_posix()

    assert place() == place("--seeds", "5", "--only", "0.5") == place("--steps", "3")
    assert place().endswith("/chapters/room/results/rates.json")
    assert place("--steps", "4") == place("--plain") == "runs/rates.json"
    assert place("--steps", "4", "--into", "here") == "here/rates.json"


def test_figures_stand_by_setting_and_seed():
    runs = [{"setting": "a", "seed": s, "loss": s / 2} for s in (0, 1)]
    runs.append({"setting": "b", "seed": 0, "loss": 3.0, "exact": 1.0})
    assert by_setting(runs) == {
        "a": {"loss": [0.0, 0.5]},
        "b": {"loss": [3.0], "exact": [1.0]},
    }


def test_options_have_the_types_of_their_defaults():
    options = {"steps": 3, "lr": 0.5, "ranks": [2, 3], "plain": False, "norm": "pre"}
    arguments = ["--lr", "1", "--ranks", "4", "--plain", "--norm", "post"]
    found = command_line(SCRIPT, "", None, arguments, **options).options
    assert found == argparse.Namespace(steps=3, lr=1.0, ranks=[4], plain=True, norm="post")


def test_an_unknown_name_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        given(tmp_path, "--only", "0.7")
    assert "invalid choice: '0.7' (choose from" in capsys.readouterr().err


EXPERIMENTS = [*BOOK.glob("chapters/*/experiments/*.py"), *(ROOT / "benchmarks").glob("*.py")]


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_no_experiment_reads_its_command_line_or_writes_its_record_by_itself(path):
    text = path.read_text(encoding="utf-8")
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert "argparse" not in imported
    assert "| --- |" not in text or path.stem == "report", "tables are written by report.py"

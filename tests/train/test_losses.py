"""The log of a run: what is written, what is dropped, and what somebody else has done to it."""

import csv
import json
import math
import sys

import pytest
import torch

from tests.helpers import full_disk
from train.losses import LossLog, open_board

HEAD = [{"step": 0, "run": "abc"}]


def entries(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_log_writes_when_asked(tmp_path):
    log = LossLog(tmp_path / "log", "abc")
    log.add(1, loss=torch.tensor(0.5), lr=0.1)
    log.add(1, validation_loss=2.0)
    assert entries(tmp_path / "log") == HEAD
    log.flush()
    log.add(2, loss=torch.tensor(0.25), lr=0.1)
    log.flush()
    log.flush()
    assert entries(tmp_path / "log") == [
        *HEAD,
        {"step": 1, "loss": 0.5, "lr": 0.1},
        {"step": 1, "validation_loss": 2.0},
        {"step": 2, "loss": 0.25, "lr": 0.1},
    ]


def test_a_resumed_run_drops_what_it_will_do_again(tmp_path):
    path = tmp_path / "log"
    path.write_text('{"step": 1, "loss": 3.0}\n{"step": 2, "loss": 2.0}\n{"step": 3, "lo')
    LossLog(path, keep=2)
    assert [entry["step"] for entry in entries(path)] == [1, 2]
    LossLog(path, keep=1)
    assert [entry["step"] for entry in entries(path)] == [1]
    LossLog(path, "abc")
    assert entries(path) == HEAD


def test_the_losses_of_another_run_are_refused_and_stay(tmp_path):
    path = tmp_path / "log"
    theirs = LossLog(path, "theirs")
    theirs.add(1, loss=3.0, lr=0.1)
    theirs.flush()
    before = path.read_bytes()
    for told in (None, {"lines": 9, "sha256": ""}, theirs.told()):
        with pytest.raises(ValueError, match=r"whose state is beside them, mine, got .* theirs;"):
            LossLog(path, "mine", keep=1, told=told)
        assert path.read_bytes() == before
    LossLog(path, "theirs", keep=1, told=theirs.told())


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_breaks_is_not_kept(tmp_path, loss):
    log = LossLog(tmp_path / "log")
    log.add(7, loss=torch.tensor(loss))
    with pytest.raises(FloatingPointError, match=rf"got {loss} in update 7: lower --lr"):
        log.flush()


def test_a_process_that_is_not_the_first_writes_no_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = LossLog(None, keep=3)
    log.add(1, loss=torch.tensor(0.5))
    log.flush()
    assert list(tmp_path.iterdir()) == []
    log.add(2, loss=torch.tensor(math.nan))
    with pytest.raises(FloatingPointError, match="in update 2"):  # but it stops with the others
        log.flush()


@pytest.fixture
def log(tmp_path):
    """The log of a run after update 7, with its path."""
    path = tmp_path / "log"
    log = LossLog(path, "abc")
    for step in range(1, 8):
        log.add(step, loss=1 / step, lr=0.1)
    log.flush()
    return log, path


def test_a_run_goes_on_with_its_own_log(log):
    log, path = log
    before, told = path.read_bytes(), log.told()
    assert told["lines"] == 8
    with path.open("ab") as stream:  # what was written after the checkpoint
        stream.write(b'{"step": 8, "loss": 0.1}\n\0\0\0\0\n{"step": 9, "lo')
    again = LossLog(path, "abc", keep=7, told=told)
    assert path.read_bytes() == before
    assert (again.notice, again.told()) == ("", told)
    again.add(8, loss=0.5)
    again.flush()
    assert again.told()["lines"] == 9
    again.check()


@pytest.mark.parametrize("told", [True, False])
def test_a_damaged_line_is_named(log, told):
    log, path = log
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"{", b"[")
    path.write_bytes(b"".join(lines))
    message = (
        r"log, line 5: expected a JSON object with the step, got .* or delete it: the run goes"
    )
    with pytest.raises(ValueError, match=message):
        LossLog(path, "abc", keep=7, told=log.told() if told else None)
    assert path.read_bytes() == b"".join(lines)


@pytest.mark.parametrize("line", [b"null\n", b"[]\n", b'{"step": []}\n', b"{}\n", b"\xff\n"])
def test_a_line_of_another_kind_is_named(log, line):
    log, path = log
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], line, *lines[4:]]))
    with pytest.raises(ValueError, match=r"log, line 4: expected a JSON object"):
        LossLog(path, "abc", keep=7, told=log.told())


def test_losses_of_another_run_are_refused(log):
    log, path = log
    text = path.read_text().replace("0.5", "0.6")
    path.write_text(text)
    with pytest.raises(ValueError, match="expected the losses that this run wrote, got others"):
        LossLog(path, "abc", keep=7, told=log.told())
    with pytest.raises(ValueError, match="delete the file, then score with --resume"):
        log.check()
    assert path.read_text() == text


def test_a_log_that_is_gone_or_cut_is_said(log):
    log, path = log
    told, lines = log.told(), path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:3])
    notice = LossLog(path, "abc", keep=7, told=told).notice
    assert notice == f"{path} was truncated: of the 8 lines that the run had written, 4 are there."
    assert path.read_bytes() == b"".join(lines[:4])
    path.unlink()
    again = LossLog(path, "abc", keep=7, told=told)
    assert again.notice == f"{path} is gone, and with it the losses of updates 1 to 7."
    assert entries(path) == HEAD
    again.check()
    path.unlink()
    with pytest.raises(ValueError, match="got others"):
        again.check()


def test_a_full_disk_is_told_in_one_line(log):
    log, path = log
    for step in range(8, 99):
        log.add(step, loss=0.1)
    full = pytest.raises(OSError, match=r"expected to write .*log, got: File too large; make room")
    with full, full_disk(1000):
        log.flush()
    assert (
        LossLog(path, "abc", keep=7, told={"lines": 8, "sha256": log.told()["sha256"]}).notice == ""
    )


# The table


def table(path):
    with (path.parent / "losses.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_the_table_has_a_row_for_each_update(tmp_path):
    log = LossLog(tmp_path / "log", "abc")
    assert (tmp_path / "losses.csv").read_bytes() == b"step,loss,lr,validation_loss\n"
    log.add(1, loss=torch.tensor(0.5), lr=0.1)
    log.add(2, loss=torch.tensor(1 / 3), lr=1e-05)
    log.add(2, validation_loss=2.0)
    log.flush()
    log.flush()
    assert (tmp_path / "losses.csv").read_text(encoding="utf-8").splitlines()[1:] == [
        "1,0.5,0.1,",
        f"2,{float(torch.tensor(1 / 3))},1e-05,2.0",
    ]


def test_the_table_follows_the_log_of_a_run_that_goes_on(log):
    log, path = log
    log.add(8, loss=0.5, lr=0.1)
    log.add(8, validation_loss=0.25)
    log.flush()
    whole, told = (path.parent / "losses.csv").read_bytes(), log.told()
    for damage in (b"", whole[:-3], whole + b"9,0.1,0.1,\n10,0.", b"step;loss\n", None):
        if damage is None:
            (path.parent / "losses.csv").unlink()
        else:
            (path.parent / "losses.csv").write_bytes(damage)
        again = LossLog(path, "abc", keep=8, told=told)
        assert (path.parent / "losses.csv").read_bytes() == whole
    again.add(9, loss=0.125, lr=0.1)
    again.flush()
    rows = table(path)
    assert [int(row["step"]) for row in rows] == list(range(1, 10))
    logged = [entry for entry in entries(path) if "loss" in entry]
    assert [float(row["loss"]) for row in rows] == [entry["loss"] for entry in logged]
    assert [row["validation_loss"] for row in rows] == ["", "", "", "", "", "", "", "0.25", ""]
    path.unlink()
    LossLog(path, "abc", keep=9, told=again.told())
    assert table(path) == []


def test_pandas_reads_the_table(log):
    pandas = pytest.importorskip("pandas")
    _, path = log
    frame = pandas.read_csv(path.parent / "losses.csv", index_col="step")
    assert frame.loss.tolist() == [1 / step for step in range(1, 8)]
    assert frame.validation_loss.isna().all()


# TensorBoard


def test_the_board_gets_the_same_numbers_as_the_log(tmp_path):
    class Board:
        def __init__(self):
            self.told, self.flushed = [], 0

        def add_scalar(self, *what):
            self.told.append(what)

        def flush(self):
            self.flushed += 1

    board = Board()
    log = LossLog(tmp_path / "log", "abc", board=board)
    log.add(1, loss=torch.tensor(0.5), lr=0.1)
    log.add(1, validation_loss=2.0)
    assert board.told == []
    log.flush()
    assert board.told == [("loss", 0.5, 1), ("lr", 0.1, 1), ("validation_loss", 2.0, 1)]
    assert board.flushed == 1


def test_without_tensorboard_the_help_is_a_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match=r"run `pip install tensorboard`, or leave the"):
        open_board(tmp_path / "board", 3)
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_reads_what_its_writer_wrote(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for done, steps in ((0, range(1, 8)), (4, range(5, 7))):  # a run that was stopped after 7
        board = open_board(tmp_path, done)
        for step in steps:
            board.add_scalar("loss", step / 8 + done, step)
        board.close()
    events = EventAccumulator(str(tmp_path)).Reload().Scalars("loss")
    assert [(one.step, one.value) for one in events] == [
        *((step, step / 8) for step in range(1, 5)),
        *((step, step / 8 + 4) for step in range(5, 7)),
    ]

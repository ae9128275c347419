"""The log goes on where a run goes on, and numbers read well."""

import json
import math

import pytest
import torch

from train.report import LossLog, duration, number, perplexity, table


def entries(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_log_writes_when_asked(tmp_path):
    log = LossLog(tmp_path / "log")
    log.add(1, loss=torch.tensor(0.5), lr=0.1)
    log.add(1, validation_loss=2.0)
    assert entries(tmp_path / "log") == []
    log.flush()
    log.add(2, loss=torch.tensor(0.25), lr=0.1)
    log.flush()
    log.flush()
    assert entries(tmp_path / "log") == [
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
    LossLog(path)
    assert entries(path) == []


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_breaks_is_not_kept(tmp_path, loss):
    log = LossLog(tmp_path / "log")
    log.add(7, loss=torch.tensor(loss))
    with pytest.raises(FloatingPointError, match=rf"got {loss} in update 7: lower --lr"):
        log.flush()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.6, "1 min 0 s"),
        (61, "1 min 1 s"),
        (3723, "1 h 2 min"),
        (90_000, "25 h 0 min"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_numbers():
    assert number(12345.6) == "12,346"
    assert perplexity(math.log(5)) == "perplexity 5.00"
    assert perplexity(1e9).startswith("perplexity")


def test_table():
    assert (
        table([("a", "one"), ("", "two"), ("long", "three")]) == "a     one\n      two\nlong  three"
    )

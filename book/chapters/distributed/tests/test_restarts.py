"""The command line in processes of its own: what a run gives back, and what a killed one does."""

import json
import os
import subprocess
import sys

import pytest

from chapters.distributed.experiments.two_processes import same_bits
from chapters.distributed.restarts import BOOK, losses, train_command


@pytest.fixture
def options(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"a{i % 5} b{i % 3}\tc{i % 3} d{i % 5}\n" for i in range(60)))
    sizes = "--layers 1 --d-model 8 --heads 2 --d-ff 8 --dropout 0.1 --batch-size 11 --steps 7"
    return f"--train {file} {sizes} --device cpu --save-every 0 --beam 1".split()


@pytest.mark.slow
def test_a_killed_run_ends_as_one_that_was_not(options, tmp_path):
    whole = train_command(options, tmp_path / "whole", n=2)
    killed = train_command(options, tmp_path / "killed", n=2, kill_at=3)
    assert "Going on after update" in killed.said
    assert "Going on after update" not in whole.said
    assert killed.losses == whole.losses
    assert len(whole.losses) == 7
    assert same_bits(whole.out, killed.out)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_torchruns_end_as_one_whichever_rank_is_killed(options, tmp_path):
    whole = train_command(options, tmp_path / "whole", n=2)
    for rank in (0, 1):
        out = tmp_path / f"killed {rank}"
        killed = train_command(options, out, machines=2, kill_at=3, kill_rank=rank)
        assert killed.said.count("Going on after update") == 1
        assert killed.losses == whole.losses
        assert same_bits(whole.out, out)


@pytest.mark.slow
def test_a_run_that_fails_says_why(options, tmp_path):
    with pytest.raises(RuntimeError, match=r"expected a run that ends with 0(.|\n)*no-such-option"):
        train_command([*options, "--no-such-option"], tmp_path / "out")


def test_losses_of_a_log_that_is_being_written(tmp_path):
    assert losses(tmp_path) == []
    lines = [{"step": 1, "loss": 3.5, "lr": 0.1}, {"step": 1, "validation_loss": 2.0}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "losses.jsonl").write_text(text + '{"step": 2, "loss": 1.5, "lr"')
    assert losses(tmp_path) == [3.5]


def test_only_the_chosen_rank_is_killed_and_only_in_the_first_start(tmp_path):
    """Another rank, and a process that torchrun has started again, run to their end."""
    (tmp_path / "losses.jsonl").write_text('{"step": 1, "loss": 3.5, "lr": 0.1}\n' * 5)
    for rank, count in (("0", "0"), ("1", "1")):
        told = {"RANK": rank, "WORLD_SIZE": "1", "TORCHELASTIC_RESTART_COUNT": count}
        command = [
            sys.executable,
            "-m",
            "chapters.distributed.restarts",
            "3",
            "1",
            str(tmp_path),
            "--help",
        ]
        environment = os.environ | told | {"PYTHONPATH": str(BOOK)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert "usage: python -m train" in done.stdout

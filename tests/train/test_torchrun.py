"""`torchrun -m train` from outside: one log, kills, Ctrl-C, errors of one rank, no process left."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chapters.distributed.experiments.two_processes import (
    BOOK,
    kill_at,
    logged,
    same_bits,
    start,
    stop,
    workers,
)
from train.__main__ import main

UPDATES = 40
PATIENCE = 240.0  # seconds that a run may take; an idle machine needs ten
OPTIONS = [
    *("--layers", "1", "--d-model", "16", "--heads", "2", "--d-ff", "16", "--max-tokens", "60"),
    *("--accumulate", "2", "--threads", "1", "--beam", "1", "--save-every", "0", "--device", "cpu"),
]
# Run the script, but let rank 1 make a mistake in the third update.
FAILS = """
import sys
from train.run import Run
true = Run.after_update
def fails(self, step, loss):
    if (self.ranks.rank, step) == (1, 3):
        raise ValueError("expected nothing in particular")
    true(self, step, loss)
Run.after_update = fails
from train.__main__ import main
sys.exit(main())
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3 * PATIENCE),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A task to learn: sentences of three to six letters, and the same backwards."""
    rng, path = random.Random(0), tmp_path_factory.mktemp("data") / "train"
    sources = [rng.choices("abcdefghijk", k=rng.randint(3, 6)) for _ in range(170)]
    lines = [" ".join(s) + "\t" + " ".join(reversed(s)) + "\n" for s in sources]
    path.write_text("".join(lines), encoding="utf-8")
    return ["--train", str(path)]


@pytest.fixture
def launched():
    """Start the script in two processes; whatever comes, none of them outlives the test."""
    running = []

    def launch(*arguments, restarts=0):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        running.append(start(2, list(map(str, arguments)), restarts, **streams))
        return running[-1]

    yield launch
    for launcher in running:
        stop(launcher)


def alive(process):
    """Whether it runs; one that has ended and that nobody has asked for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def entries(out):
    return [json.loads(line) for line in (out / "losses.jsonl").read_text().splitlines()]


def test_a_kill_leaves_no_trace_and_there_is_one_of_everything(data, tmp_path, launched):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    given = [*OPTIONS, *data, "--steps", UPDATES, "--dropout", 0.3]
    undisturbed = launched(*given, "--out", whole)
    killed = launched(*given, "--out", broken, restarts=1)
    rng = random.Random(11)
    moment = rng.randrange(5, UPDATES - 10)
    (kill,) = kill_at(killed, broken, [moment], rng, PATIENCE)
    said, faults = killed.communicate(timeout=PATIENCE)
    assert killed.returncode == 0, faults
    assert f"local_rank: {kill['rank']}" in faults
    assert "Going on after update " in said
    said, faults = undisturbed.communicate(timeout=PATIENCE)
    assert undisturbed.returncode == 0, faults
    assert same_bits(whole, broken)
    assert said.count("2 processes, cpu, float32") == 2  # at the beginning, and in the summary
    assert said.count(f"update {UPDATES} of {UPDATES}: validation loss") == 1
    assert (whole / "summary.txt").read_text(encoding="utf-8") in said
    assert [e["step"] for e in entries(whole) if "lr" in e] == list(range(1, UPDATES + 1))
    names = {"best.safetensors", "last.pt", "losses.csv", "losses.jsonl", "summary.txt"}
    assert {path.name for path in whole.iterdir()} == names

    # The folder holds a run now: another start refuses it, also after a restart.
    refused = launched(*given, "--out", whole, restarts=1)
    kept = (whole / "last.pt").read_bytes()
    said, faults = refused.communicate(timeout=PATIENCE)
    assert refused.returncode == 1
    assert faults.count("error: expected a new folder for a new run") == 2
    assert "Going on" not in said
    assert (whole / "last.pt").read_bytes() == kept


def test_two_processes_learn_what_one_learns_and_one_goes_on_for_two(data, tmp_path, launched):
    """Ctrl-C in the middle; then one process takes the run up. Without dropout, all by rounding."""
    one, two = tmp_path / "one", tmp_path / "two"
    given = [*OPTIONS, *data, "--steps", 100, "--dropout", 0]
    assert main([*map(str, given), "--out", str(one)]) == 0
    launcher = launched(*given, "--out", two)
    wait_until(lambda: logged(two) > 4 or launcher.poll() is not None)
    ranks = workers(launcher)
    launcher.send_signal(signal.SIGINT)
    _, faults = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode != 0
    assert not any(map(alive, ranks))
    assert faults.count("all is kept in") == 1, faults
    assert "torch.distributed.run --standalone --nproc-per-node=2 -m train --resume" in faults
    done = logged(two)
    assert f"Stopped after {done} of 100 updates" in faults
    assert 4 < done < 100
    assert main(["--resume", "--out", str(two)]) == 0
    pairs = list(zip(entries(one), entries(two), strict=True))
    for mine, theirs in pairs:
        assert mine.keys() == theirs.keys()
        assert (mine["step"], mine.get("lr")) == (theirs["step"], theirs.get("lr"))
    assert pairs[0][0] == pairs[0][1]  # the fingerprint of the run
    for mine, theirs in pairs[1:30]:  # later the rounding grows
        assert mine == pytest.approx(theirs, rel=1e-3)
    assert pairs[-1][0] == pytest.approx(pairs[-1][1], rel=0.3)
    assert not same_bits(one, two)


def test_an_error_of_one_rank_ends_all(data, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FAILS, encoding="utf-8")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    given = [*OPTIONS, *data, "--steps", "99999", "--out", str(tmp_path / "out")]
    launcher = subprocess.Popen(
        [sys.executable, *launch, str(script), *given],
        env=os.environ | {"PYTHONPATH": str(BOOK), "GLOO_SOCKET_IFNAME": "lo"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        wait_until(lambda: workers(launcher) or launcher.poll() is not None)
        ranks = workers(launcher)
        _, faults = launcher.communicate(timeout=PATIENCE)
    finally:
        stop(launcher)
    assert launcher.returncode == 1
    assert "error: process 1: expected nothing in particular\n" in faults
    assert faults.count("error: ") == 1, faults
    assert not any(map(alive, ranks))
    assert logged(tmp_path / "out") == 2


def test_without_torchrun_its_processes_stop_and_keep_all(data, tmp_path, launched):
    out = tmp_path / "out"
    launcher = launched(*OPTIONS, *data, "--steps", 99999, "--save-every", 1000, "--out", out)
    wait_until((out / "last.pt").exists)
    ranks = workers(launcher)
    launcher.kill()
    try:
        wait_until(lambda: not any(map(alive, ranks)))
    finally:
        for process in filter(alive, ranks):
            os.kill(process, signal.SIGKILL)
    _, faults = launcher.communicate(timeout=PATIENCE)
    assert f"Stopped after {logged(out):,} of 99,999 updates" in faults


@pytest.mark.parametrize("option", ["--heads=3", "--no-such-option"])
def test_a_mistake_in_the_command_is_told_once(data, tmp_path, launched, option):
    launcher = launched(*OPTIONS, *data, option, "--out", tmp_path / "out")
    said, faults = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 1
    assert said == ""
    assert faults.count("error: ") == 1, faults

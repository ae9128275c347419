"""Kill a training run at ten random moments and three times inside a write, go on each time.

The weights at the end are those of a run that nobody disturbed, bit for bit.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.paths import BOOK

UPDATES = 120
PATIENCE = 90  # seconds that one process may take; loops below end by it
OPTIONS = (
    "--layers 1 --d-model 16 --heads 2 --d-ff 16 --dropout 0.3 --norm pre --max-tokens 60 "
    f"--accumulate 2 --steps {UPDATES} --threads 1 --beam 1 --save-every 0 --device cpu"
).split()

# Run the script, but die inside the n-th write of a checkpoint. os.fsync stands between the
# writing of the new file and its renaming, os.replace is the renaming.
DIE_IN_A_WRITE = """
import os, signal, sys
place, left = sys.argv[1], [int(sys.argv[2])]
fsync, replace = os.fsync, os.replace

def now():
    left[0] -= 1
    return left[0] == 0

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def dying_fsync(number):
    if place == "half written" and now():
        os.ftruncate(number, os.fstat(number).st_size // 2)
        die()
    fsync(number)

def dying_replace(source, target):
    last = str(target).endswith("last.pt")
    if place == "before the new name" and last and now():
        die()
    replace(source, target)
    if place == "after the new name" and last and now():
        die()

os.fsync, os.replace = dying_fsync, dying_replace
from train.__main__ import main
sys.exit(main(sys.argv[3:]))
"""
PLACES = ("half written", "before the new name", "after the new name")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system knows no SIGKILL"),
]


def files(folder: Path) -> list[str]:
    """A task to learn: sentences of three to six letters, and the same backwards."""
    rng = random.Random(0)
    sides: list[list[str]] = [[], []]
    for _ in range(170):
        words = rng.choices("abcdefghijk", k=rng.randint(3, 6))
        sides[0].append(" ".join(words))
        sides[1].append(" ".join(reversed(words)))
    paths = [folder / "train.x", folder / "train.y"]
    for path, lines in zip(paths, sides, strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return ["--train", *map(str, paths)]


def start(code: list[str], *arguments: str) -> subprocess.Popen:
    environment = os.environ | {"PYTHONPATH": str(BOOK), "TQDM_DISABLE": "1"}
    return subprocess.Popen(
        [sys.executable, *code, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen) -> str:
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    return output


def updates_logged(out: Path) -> int:
    log = out / "losses.jsonl"
    return log.read_text(encoding="utf-8").count('"lr"') if log.exists() else 0


def kill_after(process: subprocess.Popen, out: Path, updates: int, delay: float) -> None:
    """Wait until so many updates are in the log, then a moment longer, then kill."""
    deadline = time.monotonic() + PATIENCE
    while updates_logged(out) < updates:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"only {updates_logged(out)} updates in {PATIENCE} s"
        time.sleep(0.001)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)


def state(out: Path) -> dict:
    return torch.load(out / "last.pt", weights_only=True)


def assert_same_state(one: dict, other: dict) -> None:
    for part in ("model", "optimizer", "position", "generators", "step"):
        assert_equal(one[part], other[part], part)


def assert_equal(one: object, other: object, name: str) -> None:
    """Equal in every tensor and every number, to the last bit."""
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other), name
    elif isinstance(one, dict):
        assert one.keys() == other.keys(), name
        for key in one:
            assert_equal(one[key], other[key], f"{name}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), name
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_equal(a, b, f"{name}[{i}]")
    else:
        assert one == other, name


def test_ten_kills_leave_no_trace(tmp_path):
    data = files(tmp_path)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    script = ["-m", "train.__main__"]
    reference = start(script, *OPTIONS, *data, "--out", str(whole))

    seed = random.SystemRandom().randrange(10**6)
    rng = random.Random(seed)
    moments = sorted(rng.sample(range(1, UPDATES - 30), 10))
    kills: list[tuple[str, int]] = [("any time", moment) for moment in moments]
    for place in PLACES:
        kills.insert(rng.randrange(1, len(kills) + 1), (place, rng.randint(2, 5)))
    print(f"seed {seed}: {kills}")

    for number, (place, when) in enumerate(kills):
        begin = ["--resume"] if number else [*OPTIONS, *data]
        arguments = [*begin, "--out", str(broken)]
        if place == "any time":
            process = start(script, *arguments)
            kill_after(process, broken, when, rng.uniform(0, 0.02))
        else:
            process = start(["-c", DIE_IN_A_WRITE, place, str(when)], *arguments)
            process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL
        print(f"kill {number + 1}, {place}: {state(broken)['step']} updates are kept")
    assert 0 < state(broken)["step"] < UPDATES

    finish(start(script, "--resume", "--out", str(broken)))
    finish(reference)
    assert_same_state(state(whole), state(broken))
    one, other = (load_file(out / "best.safetensors") for out in (whole, broken))
    assert_equal(one, other, "best")
    logs = [(out / "losses.jsonl").read_text(encoding="utf-8") for out in (whole, broken)]
    assert logs[0] == logs[1]
    assert sum("lr" in json.loads(line) for line in logs[0].splitlines()) == UPDATES


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    data, out = files(tmp_path), tmp_path / "out"
    longer = ["--save-every", "1000", "--steps", "9999"]  # only the wish to stop makes it save
    process = start(["-m", "train.__main__"], *OPTIONS, *longer, *data, "--out", str(out))
    line = ""
    while not line.startswith("training"):  # said shortly before the first update
        line = process.stdout.readline()
        assert line, "the run ended before it began"
    deadline = time.monotonic() + PATIENCE
    while not (out / "last.pt").exists():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, output
    kept = state(out)["step"]
    assert f"Stopped after {kept:,} of 9,999 updates" in output
    assert f"python -m train --resume --out {out}" in output
    assert 0 < updates_logged(out) == kept < 9999

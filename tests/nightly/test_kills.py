"""Kill training runs, take away their disk, change their files, and go on.

What is left is held against a run that nobody disturbed: equal to the last bit, or refused in one
line; never a mixture. `--hypothesis-seed` chooses the moments and the bits.
"""

import contextlib
import io
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import train.run
from tests.helpers import unchecked
from tests.nightly.judging import digest
from tests.paths import BOOK
from train.__main__ import main
from train.checkpoints import load_model, peek
from train.corpus import read_corpus

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill so"),
    pytest.mark.timeout(1800),
]
STATE, BEST, LOSSES = "last.pt", "best.safetensors", "losses.jsonl"
DATA = ("train", "valid", "test")
UPDATES = 60
PATIENCE = 300  # seconds for one process
OPTIONS = (
    "--layers 1 --d-model 16 --heads 2 --d-ff 16 --dropout 0.3 --norm pre --max-tokens 60 "
    f"--accumulate 2 --steps {UPDATES} --threads 1 --beam 1 --save-every 0 --device cpu"
).split()


@pytest.fixture(scope="module")
def rng(request) -> random.Random:
    seed = request.config.getoption("--hypothesis-seed") or secrets.randbelow(2**32)
    print(f"--hypothesis-seed={seed}")
    return random.Random(f"{seed}")


class Place:
    """A folder with sentences to say backwards, and what undisturbed runs on them give, by seed."""

    def __init__(self, root: Path):
        self.root, letters = root, random.Random(0)
        for name, number in zip(DATA, (170, 20, 10), strict=True):
            rows = [letters.choices("abcdefghijk", k=letters.randint(3, 6)) for _ in range(number)]
            lines = [f"{' '.join(row)}\t{' '.join(row[::-1])}\n" for row in rows]
            (root / name).write_text("".join(lines), encoding="utf-8")
        self.right = {}
        for seed in (0, 1):
            status, output = end(start(self.begin(root / f"whole{seed}", seed)))
            assert status == 0, output
            self.right[seed] = made_by(root / f"whole{seed}")

    def begin(self, out: Path, seed: int = 0) -> list[str]:
        data = [word for name in DATA for word in (f"--{name}", str(self.root / name))]
        return [*OPTIONS, *data, "--seed", str(seed), "--out", str(out)]

    def stopped(self, out: Path, at: int = 30) -> Path:
        """A run that was killed after this update; made once, then copied."""
        kept = self.root / f"stopped{at}"
        if not kept.exists():
            kill_after(start(self.begin(kept)), kept, at, 0.0)
        shutil.copytree(kept, out)
        return out

    def differs(self, out: Path, seed: int = 0) -> list[str]:
        """The files that are others than those of the undisturbed run."""
        found = made_by(out)
        return [name for name, one in self.right[seed].items() if found[name] != one]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


def start(
    arguments: Sequence[str], before: Sequence[str] = (), **settings: Any
) -> subprocess.Popen:
    """The command line, in a process of its own."""
    environment = {"PYTHONPATH": str(BOOK), "TQDM_DISABLE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*before, sys.executable, "-m", "train", *arguments], env=os.environ | environment,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **settings,
    )  # fmt: skip


def end(process: subprocess.Popen) -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, output


def kill_after(process: subprocess.Popen, out: Path, updates: int, delay: float) -> None:
    """Kill it when so many updates are in its log, and a moment later."""
    log, deadline = out / LOSSES, time.monotonic() + PATIENCE
    while not log.exists() or log.read_bytes().count(b'"lr"') < updates:
        if process.poll() is not None or time.monotonic() > deadline:
            break
        time.sleep(0.002)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)


def made_by(out: Path) -> dict[str, str]:
    """A digest of each thing that a finished run has made: bit for bit."""
    state = torch.load(out / STATE, weights_only=True)
    kept = {name: state[name] for name in ("model", "optimizer", "position", "generators", "step")}
    return {
        STATE: digest(kept),
        BEST: digest(load_file(out / BEST)),
        LOSSES: (out / LOSSES).read_text(encoding="utf-8"),
    }


def require_whole(out: Path) -> None:
    """No file that a killed process has left is half written.

    The last line of the log may be half a line: whoever goes on drops it.
    """
    if (out / STATE).exists():
        peek(out / STATE)
    if (out / BEST).exists():
        load_model(out / BEST)
    if (out / LOSSES).exists():
        for line in (out / LOSSES).read_text(encoding="utf-8").split("\n")[:-1]:
            json.loads(line)


def require_as_undisturbed(place: Place, out: Path) -> None:
    """Resume to the end, and compare."""
    status, output = end(start(["--resume", "--out", str(out)]))
    assert status == 0, output
    assert place.differs(out) == []


def require_one_line(status: int, output: str) -> None:
    """A refusal in one line."""
    assert "Traceback" not in output
    assert status == 1, output
    assert "error: " in output


def test_kills_at_any_moment_leave_no_trace(place, rng, tmp_path):
    """Fifty kills, five of each run; each time all files are whole, and the run goes on."""
    plans = [
        [(at, rng.uniform(0, 0.05)) for at in sorted(rng.sample(range(UPDATES - 10), 5))]
        for _ in range(10)
    ]

    def chain(number: int) -> None:
        out = tmp_path / f"killed{number}"
        for at, delay in plans[number]:
            again = ["--resume", "--out", str(out)] if (out / STATE).exists() else place.begin(out)
            kill_after(start(again), out, at, delay)
            require_whole(out)
        require_as_undisturbed(place, out)
        assert list(out.glob("*.part")) == []

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(chain, range(len(plans))))


@pytest.mark.parametrize("number", range(6))
def test_of_two_on_one_folder_one_runs_and_the_other_is_refused(number, place, rng, tmp_path):
    out = tmp_path / "both"
    if resumed := number % 2:
        place.stopped(out)
        told = [["--resume", "--out", str(out)]] * 2
    else:
        told = [place.begin(out, which) for which in (0, 1)]
    first = start(told[0])
    time.sleep(rng.choice((0.0, rng.uniform(0, 3))))
    second = start(told[1])
    found = [end(first), end(second)]
    winners = [which for which, (status, _) in enumerate(found) if status == 0]
    for which, (status, output) in enumerate(found):
        if which not in winners:
            require_one_line(status, output)
    # Of two that resume the second may come when the first has ended.
    assert len(winners) == 1 or (resumed and winners)
    assert place.differs(out, 0 if resumed else winners[0]) == []


@pytest.mark.parametrize("number", range(9))
def test_a_full_disk_is_told_in_one_line_and_then_the_run_goes_on(number, place, rng, tmp_path):
    """A file may not become larger than some bytes: a write fails in its middle, as on a disk."""
    resource = pytest.importorskip("resource")
    size = (place.root / "whole0" / STATE).stat().st_size
    room = rng.choice((rng.randint(1, 4096), rng.randint(1, size - 1)))
    out = tmp_path / "full"
    begin = place.begin(out)
    if number % 3:
        place.stopped(out)
        begin = ["--resume", "--out", str(out)]

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    require_one_line(*end(start(begin, preexec_fn=little_room)))
    require_whole(out)
    if (out / STATE).exists():
        require_as_undisturbed(place, out)
    else:
        status, output = end(start(begin))
        assert status == 0, output
        assert place.differs(out) == []


def as_read_only(out: Path) -> list[str]:
    """What stands before a command that may not write there, though it be root's."""
    if os.geteuid():
        out.chmod(0o555)
        return []
    mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    try:
        subprocess.run(["unshare", "-rm", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this system does not let us mount for one process alone")
    return ["unshare", "-rm", "sh", "-c", mount, str(out)]


def test_a_folder_that_must_not_be_written(place, tmp_path):
    out = place.stopped(tmp_path / "only")
    before = as_read_only(out)
    try:
        require_one_line(*end(start(place.begin(out / "new"), before)))
        require_one_line(*end(start(["--resume", "--out", str(out)], before)))
    finally:
        out.chmod(0o755)
    require_as_undisturbed(place, out)


# --- changed files --------------------------------------------------------------------------------


def flipped(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def shuffled(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(rng.sample(lines, len(lines)))


CHANGES = {
    "deleted": lambda content, rng: None,
    "emptied": lambda content, rng: b"",
    "cut in half": lambda content, rng: content[: len(content) // 2],
    "cut by a byte": lambda content, rng: content[:-1],
    "longer": lambda content, rng: content + rng.randbytes(20),
    "another file": lambda content, rng: rng.randbytes(200),
    "its lines in another order": shuffled,
    "a line less": lambda content, rng: b"".join(content.splitlines(keepends=True)[:-1]),
    "a byte changed": flipped,
}


def resume(place: Place, out: Path, file: str, data: Path, monkeypatch) -> None:
    """Go on in this process with the data of a folder: as undisturbed, or refused in one line.

    Of a file that was lost, and is named in the first lines, a new one may be made.
    """

    def elsewhere(options: Any) -> Any:
        for name in DATA:
            setattr(options, name, [str(data / name)])
        return read_corpus(options)

    monkeypatch.setattr(train.run, "read_corpus", elsewhere)  # the checkpoint names the old places
    said = io.StringIO()
    # The tests' type checker looks at random items of a list, which moves Python's generator on.
    with unchecked(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            status: Any = main(["--resume", "--out", str(out)])
        except SystemExit as error:
            status = error.code
    text = said.getvalue()
    if status:
        require_one_line(status, text)
    else:
        assert set(place.differs(out)) <= ({file} if file in text else set()), text


@pytest.mark.parametrize("how", [*CHANGES, "of another run"])
@pytest.mark.parametrize("file", [STATE, BEST, LOSSES, *DATA])
def test_a_file_that_changed_is_refused_or_named(file, how, place, rng, tmp_path, monkeypatch):
    out = place.stopped(tmp_path / "out")
    for name in DATA:
        shutil.copy(place.root / name, tmp_path)
    path = (tmp_path if file in DATA else out) / file
    if how == "of another run":
        if file in DATA:
            pytest.skip("sentences belong to no run")
        content = (place.root / "whole1" / file).read_bytes()
    else:
        content = CHANGES[how](path.read_bytes(), rng)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    resume(place, out, file, tmp_path, monkeypatch)


def test_any_flipped_bit_of_the_losses_is_noticed_or_without_effect(
    place, rng, tmp_path, monkeypatch
):
    for number in range(300):
        out = place.stopped(tmp_path / f"out{number}", UPDATES - 4)
        path = out / LOSSES
        path.write_bytes(flipped(path.read_bytes(), rng))
        resume(place, out, LOSSES, place.root, monkeypatch)
        shutil.rmtree(out)

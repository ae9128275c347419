"""Kill training runs, take away their disk, change their files, and hold what is left against a
run that nobody disturbed: equal to the last bit, or refused in one line; never a mixture.
"""

import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from scripts.trust import watched
from scripts.trust.loaders import LOADERS, ChangedByARefusal, _digest, make_files
from train.__main__ import main as train_main
from train.checkpoints import load_model, peek

BOOK = Path(__file__).resolve().parents[2] / "book"
STATE, BEST, LOSSES, SUMMARY = "last.pt", "best.safetensors", "losses.jsonl", "summary.txt"
UPDATES = 60
KILLS = 5  # of one run
PATIENCE = 300  # seconds for one process
OPTIONS = (
    "--layers 1 --d-model 16 --heads 2 --d-ff 16 --dropout 0.3 --norm pre --max-tokens 60 "
    f"--accumulate 2 --steps {UPDATES} --threads 1 --beam 1 --save-every 0 --device cpu"
).split()


@dataclass
class Tried:
    """How often something was tried, what came of it, and what should not have."""

    name: str
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: str, case: str = "", text: str = "") -> None:
        self.counts[kind] += 1
        if kind not in FINE:
            self.findings.append({"kind": kind, "what": self.name, "case": case, "text": text})

    @property
    def total(self) -> int:
        return sum(self.counts.values())


FINE = ("as undisturbed", "ended before the kill", "refused", "said so", "no effect", "left out")


def make_data(folder: Path) -> list[str]:
    """Sentences of three to six letters, and the same backwards: for training, validation, test."""
    rng = random.Random(0)
    told = []
    for name, number in (("train", 170), ("valid", 20), ("test", 10)):
        rows = [rng.choices("abcdefghijk", k=rng.randint(3, 6)) for _ in range(number)]
        lines = [f"{' '.join(row)}\t{' '.join(row[::-1])}\n" for row in rows]
        (folder / name).write_text("".join(lines), encoding="utf-8")
        told += [f"--{name}", str(folder / name)]
    return told


def start(arguments: Sequence[str], **settings: Any) -> subprocess.Popen:
    """The command line, in a process of its own."""
    return start_command([sys.executable, "-m", "train", *arguments], **settings)


def start_command(command: Sequence[str], **settings: Any) -> subprocess.Popen:
    environment = os.environ | {
        "PYTHONPATH": str(BOOK),
        "TQDM_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        **settings,
    )  # fmt: skip


def end(process: subprocess.Popen) -> tuple[int, str]:
    output, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, output


def kill_after(process: subprocess.Popen, out: Path, updates: int, delay: float) -> bool:
    """Kill it when so many updates are in its log, and a moment later; False if it ended first."""
    log, deadline = out / LOSSES, time.monotonic() + PATIENCE
    while not log.exists() or log.read_bytes().count(b'"lr"') < updates:
        if process.poll() is not None or time.monotonic() > deadline:
            break
        time.sleep(0.002)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)
    return process.returncode == -signal.SIGKILL


def state_of(out: Path) -> dict[str, str]:
    """A digest of each thing that a finished run has made: bit for bit."""
    state = torch.load(out / STATE, weights_only=True)
    kept = {name: state[name] for name in ("model", "optimizer", "position", "generators", "step")}
    return {
        STATE: _digest(kept),
        BEST: _digest(load_file(out / BEST)),
        LOSSES: (out / LOSSES).read_text(encoding="utf-8"),
    }


def half_written(out: Path) -> str:
    """What is wrong with the files that a killed process has left; nothing, if they are whole.

    The last line of the log may be half a line: whoever goes on drops it.
    """
    try:
        if (out / STATE).exists():
            peek(out / STATE)
        if (out / BEST).exists():
            load_model(out / BEST)
        if (out / LOSSES).exists():
            lines = (out / LOSSES).read_text(encoding="utf-8").split("\n")
            for line in lines[:-1]:
                json.loads(line)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@dataclass
class Place:
    """A folder with data, and what an undisturbed run of them gives, by seed."""

    root: Path
    data: list[str]
    right: dict[int, dict[str, str]] = field(default_factory=dict)

    def begin(self, out: Path, seed: int = 0) -> list[str]:
        return [*OPTIONS, *self.data, "--seed", str(seed), "--out", str(out)]

    def judge(self, out: Path, seed: int = 0, *, leave: str = "") -> str:
        """What differs from the undisturbed run; nothing, if all is equal."""
        found = state_of(out)
        differs = [name for name, one in self.right[seed].items() if found[name] != one]
        return ", ".join(name for name in differs if name != leave)


def prepare(root: Path, seeds: Iterable[int] = (0, 1)) -> Place:
    """Make the data and the undisturbed runs."""
    place = Place(root, make_data(root))
    for seed in seeds:
        out = root / f"whole{seed}"
        status, output = end(start(place.begin(out, seed)))
        if status:
            raise ValueError(f"expected a run without a fault to end with 0, got {output}")
        place.right[seed] = state_of(out)
    return place


def went_on(place: Place, out: Path, tried: Tried, case: str) -> None:
    """Resume to the end and compare."""
    status, output = end(start(["--resume", "--out", str(out)]))
    if status:
        tried.add("unclear" if "Traceback" in output else "lost", case, output[-300:])
    elif differs := place.judge(out):
        tried.add("mixed", case, differs)
    else:
        tried.add("as undisturbed")


def kills(place: Place, number: int, seed: int) -> Tried:
    """Kill at random moments, KILLS times each run; each time look at the files and go on."""
    tried = Tried("kills")

    def chain(which: int) -> list[tuple[str, str, str]]:
        rng = random.Random(f"{seed} {which}")
        out, told = place.root / f"killed{which}", []
        wanted = min(KILLS, number - which * KILLS)
        moments = sorted(rng.sample(range(UPDATES - 10), wanted))
        begin = place.begin(out)
        for at in moments:
            case = f"run {which}, after update {at}"
            process = start(["--resume", "--out", str(out)] if (out / STATE).exists() else begin)
            killed = kill_after(process, out, at, rng.uniform(0, 0.05))
            if wrong := half_written(out):
                told.append(("half-written", case, wrong))
            else:
                told.append(("killed" if killed else "ended before the kill", case, ""))
        one = Tried("")
        went_on(place, out, one, f"run {which}")
        parts = [path.name for path in out.glob("*.part")]
        if parts:
            told.append(("left behind", f"run {which}", ", ".join(parts)))
        last = one.findings[0] if one.findings else {"kind": "as undisturbed", "text": ""}
        told = [
            (last["kind"], case, last["text"]) if kind == "killed" else (kind, case, text)
            for kind, case, text in told
        ]
        shutil.rmtree(out)
        return told

    with ThreadPoolExecutor(2) as pool:
        for told in pool.map(chain, range(-(-number // KILLS))):
            for one in told:
                tried.add(*one)
    return tried


def a_stopped_run(place: Place, name: str, at: int = 30) -> Path:
    """A run that was killed after this update; made once, then copied."""
    kept = place.root / f"stopped{at}"
    if not kept.exists():
        process = start(place.begin(kept))
        kill_after(process, kept, at, 0.0)
    out = place.root / name
    shutil.copytree(kept, out)
    return out


def one_line(status: int, output: str) -> str:
    """Why this is no refusal in one line; nothing, if it is one."""
    if "Traceback" in output:
        return "a traceback: " + output.strip()[-300:]
    if status != 1 or "error: " not in output:
        return f"status {status}: {output.strip()[-300:]}"
    return ""


def full_disk(place: Place, rounds: int, seed: int) -> Tried:
    """Go on where a file may not become larger than some bytes; then again with room.

    RLIMIT_FSIZE stands for the full disk: a write fails in the middle of a file, as it does there.
    """
    import resource  # not on Windows

    tried, rng = Tried("full disk"), random.Random(seed)
    size = (place.root / "whole0" / STATE).stat().st_size
    for number in range(rounds):
        out = a_stopped_run(place, f"full{number}")
        room = rng.choice((rng.randint(1, 4096), rng.randint(1, size - 1)))
        new = place.root / f"new{number}"
        told = place.begin(new) if number % 3 == 0 else None
        resume = ["--resume", "--out", str(out)]

        def little_room(room: int = room) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

        found = end(start(told or resume, preexec_fn=little_room))
        case = f"{room} bytes, {'a new run' if told else 'on resume'}"
        if wrong := one_line(*found):
            tried.add("unclear", case, wrong)
        elif wrong := half_written(new if told else out):
            tried.add("half-written", case, wrong)
        elif told and not (new / STATE).exists():
            status, output = end(start(told))
            if status:
                tried.add("lost", case, "the same command is refused with room: " + output[-200:])
            else:
                differs = place.judge(new)
                tried.add("mixed" if differs else "as undisturbed", case, differs)
        elif told:  # it had got as far as something to go on from
            went_on(place, new, tried, case)
        else:
            went_on(place, out, tried, case)
        shutil.rmtree(out)
    return tried


def can_unshare() -> bool:
    """Whether this system lets us mount for one process alone."""
    with contextlib.suppress(OSError):
        return subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0
    return False


def read_only(place: Place) -> Tried:
    """Begin and go on in a folder that must not be written."""
    tried = Tried("read-only folder")
    for number in range(2):
        out = a_stopped_run(place, f"only{number}")
        told = ["--resume", "--out", str(out)]
        if number:
            told = place.begin(out / "new")
        command = [sys.executable, "-m", "train", *told]
        if os.geteuid() == 0:  # whom no permission stops
            if not can_unshare():
                tried.add("left out")
                continue
            mount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
            command = ["unshare", "-rm", "sh", "-c", mount, str(out), *command]
        else:
            out.chmod(0o555)
        found = end(start_command(command))
        out.chmod(0o755)
        if wrong := one_line(*found):
            tried.add("unclear", " ".join(told[:1]), wrong)
        elif number:
            tried.add("refused")
        else:
            went_on(place, out, tried, "on resume")
        shutil.rmtree(out)
    return tried


def two_at_once(place: Place, rounds: int, seed: int) -> Tried:
    """Two processes on one folder: one runs, the other is refused and names it."""
    tried, rng = Tried("two on one folder"), random.Random(seed)
    for number in range(rounds):
        if resumed := number % 2:
            out = a_stopped_run(place, f"both{number}")
            told = [["--resume", "--out", str(out)]] * 2
        else:
            out = place.root / f"both{number}"
            told = [place.begin(out, which) for which in (0, 1)]
        first = start(told[0])
        time.sleep(rng.choice((0.0, rng.uniform(0, 3))))
        second = start(told[1])
        found = [end(first), end(second)]
        case = f"round {number}, {'both resume' if resumed else 'both begin'}"
        winners = [which for which, (status, _) in enumerate(found) if status == 0]
        wrong = [one_line(*one) for which, one in enumerate(found) if which not in winners]
        if not winners or any(wrong):
            text = " / ".join(output[-200:] for _, output in found)
            tried.add("unclear", case, text)
        elif len(winners) == 2 and not resumed:
            tried.add("mixed", case, "both end with 0")
        else:  # of two that resume the second may come when the first has ended
            differs = place.judge(out, 0 if resumed else winners[0])
            tried.add("mixed" if differs else "as undisturbed", case, differs)
        shutil.rmtree(out)
    return tried


# --- changed files, in forked children ------------------------------------------------------------


def changes(content: bytes, rng: random.Random) -> dict[str, bytes | None]:
    """What may have become of a file between stop and resume."""
    lines = content.splitlines(keepends=True)
    swapped = [*lines]
    rng.shuffle(swapped)
    return {
        "deleted": None,
        "emptied": b"",
        "cut in half": content[: len(content) // 2],
        "cut by a byte": content[:-1],
        "longer": content + rng.randbytes(20),
        "another file": rng.randbytes(200),
        "its lines in another order": b"".join(swapped),
        "a line less": b"".join(lines[:-1]),
        "a byte changed": _flipped(content, rng),
    }


def _flipped(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def resume_here(place: Place, out: Path, file: str) -> list[str]:
    """Go on in this process: what came of it, and what it said."""
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
        try:
            status: Any = train_main(["--resume", "--out", str(out)])
        except SystemExit as error:
            status = error.code
        except BaseException as error:
            return ["unclear", f"traceback: {type(error).__name__}: {error}"]
    text = said.getvalue()
    if status:
        wrong = one_line(status, text)
        return ["unclear", wrong] if wrong else ["refused", text.strip()[-200:]]
    if differs := place.judge(out, leave=file if file in text else ""):
        return ["mixed", f"status 0, but other {differs}: {text[:200]}"]
    return ["said so" if file in text.split("\n\n")[0] else "as undisturbed", ""]


def changed_files(place: Place, seed: int) -> Tried:
    """Change one file between stop and resume, in each way."""
    rng, cases = random.Random(seed), []
    stopped = a_stopped_run(place, "for changes")
    data = {name: (place.root / name).read_bytes() for name in ("train", "valid", "test")}
    for name in (STATE, BEST, LOSSES):
        for how, content in changes((stopped / name).read_bytes(), rng).items():
            cases.append((name, how, content))
    for name, content in data.items():
        cases += [(name, how, other) for how, other in changes(content, rng).items()]
    for name, text in ((STATE, "whole1"), (BEST, "whole1"), (LOSSES, "whole1")):
        cases.append((name, "of another run", (place.root / text / name).read_bytes()))
    return _in_children(place, stopped, cases, "changed files")


def flips_in_runs(place: Place, number: int, seed: int) -> Tried:
    """Flip one bit of the log of losses of a run that has a few updates left."""
    rng = random.Random(seed)
    stopped = a_stopped_run(place, "for flips", UPDATES - 4)
    content = (stopped / LOSSES).read_bytes()
    cases = [(LOSSES, f"bit {at}", _flipped(content, rng)) for at in range(number)]
    return _in_children(place, stopped, cases, f"flipped bits, {LOSSES}")


def _in_children(
    place: Place, stopped: Path, cases: list[tuple[str, str, bytes | None]], name: str
) -> Tried:
    tried = Tried(name)

    def one(number: int) -> list[str]:
        file, _, content = cases[number]
        here = place.root / f"case{number}"
        out = here / "out"
        shutil.copytree(stopped, out)
        mine = [str(path) for path in _own_data(place, here)]
        path = (here if file in ("train", "valid", "test") else out) / file
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        try:
            return _with_data(place, out, file, mine)
        finally:
            shutil.rmtree(here)

    for outcome in watched.each(one, range(len(cases)), limit=60.0, chunk=10):
        file, how, _ = cases[outcome.number]
        kind, text = outcome.value if outcome.how == "done" else (outcome.how, outcome.value)
        tried.add(kind, f"{file}: {how}", str(text).replace(str(place.root), ""))
    shutil.rmtree(stopped)
    return tried


def _own_data(place: Place, here: Path) -> list[Path]:
    """The data of one case, to be changed alone."""
    paths = [here / name for name in ("train", "valid", "test")]
    for path in paths:
        shutil.copy(place.root / path.name, path)
    return paths


def _with_data(place: Place, out: Path, file: str, data: list[str]) -> list[str]:
    """Resume a run whose checkpoint names the data of `place`: here they stand elsewhere."""
    import train.corpus as corpus

    read = corpus.read_corpus

    def elsewhere(options: Any) -> Any:
        for name, path in zip(("train", "valid", "test"), data, strict=True):
            setattr(options, name, [path])
        return read(options)

    import train.run as run

    run.read_corpus = elsewhere  # type: ignore[attr-defined]  # in this child alone
    try:
        return resume_here(place, out, file)
    finally:
        run.read_corpus = read  # type: ignore[attr-defined]


def flips_in_files(root: Path, number: int, seed: int) -> list[Tried]:
    """Flip one bit of a checkpoint and of a model: refused, or read as what it was."""
    make_files(root)
    found = []
    for loader in LOADERS:
        if loader.name not in ("load_checkpoint", "load_model"):
            continue
        tried, folder = Tried(f"flipped bits, {loader.files[0]}"), root / loader.name
        content = (folder / loader.files[0]).read_bytes()
        right = _digest(loader.load(folder))

        def one(
            which: int, loader: Any = loader, content: bytes = content, right: str = right
        ) -> list[str]:
            here = root / f"{loader.name}{which}"
            here.mkdir()
            flipped = _flipped(content, random.Random((seed << 20) + which))
            (here / loader.files[0]).write_bytes(flipped)
            try:
                same = _digest(loader.load(here)) == right
                return ["no effect" if same else "unnoticed", ""]
            except ChangedByARefusal as error:
                return ["changed by a refusal", str(error)]
            except ValueError:
                return ["refused", ""]
            except BaseException as error:
                return ["unclear", f"{type(error).__name__}: {error}"]
            finally:
                shutil.rmtree(here)

        for outcome in watched.each(one, range(number), limit=20.0):
            kind, text = outcome.value if outcome.how == "done" else (outcome.how, outcome.value)
            tried.add(kind, f"flip {outcome.number}", str(text))
        found.append(tried)
    return found


def run(root: Path, *, kills_wanted: int = 50, flips: int = 300, seed: int = 0,
        tell: Callable[[str], None] = lambda line: None) -> list[Tried]:  # fmt: skip
    """All faults, one after another."""
    found: list[Tried] = []

    def done(*tried: Tried) -> None:
        for one in tried:
            found.append(one)
            tell(f"{one.name}: {dict(one.counts)}")

    (root / "files").mkdir()
    done(*flips_in_files(root / "files", flips, seed))
    place = prepare(root)
    done(kills(place, kills_wanted, seed))
    done(two_at_once(place, 6, seed))
    done(full_disk(place, 9, seed))
    done(read_only(place))
    done(changed_files(place, seed))
    done(flips_in_runs(place, flips, seed))
    return found

"""Kill processes of a training run, by one torchrun and by two, and see how the run ends.

    python benchmarks/kills.py [--only 2] [--seeds 0 1 2 3]

Two processes learn to say 211 sentences backwards, started by one torchrun, or by one torchrun
each, which meet as on two machines, but on the loopback interface. A seed draws which rank is
killed (SIGKILL) and when: while the processes start, after some of the updates, and after the last
one. With restarts a run is killed as often as it may be started again, and is to end with the bits
of a run that nobody disturbed; without, all of it is to end, and to say why: the trainer in its
line of error, or torchrun in its report. A run is "hung" if it has neither gone on nor ended LIMIT
seconds after a kill. Recorded in results/kills.json
after each run: called again, it measures what is missing.

It reads /proc, so it needs Linux.
"""

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from chapters.distributed.experiments.two_processes import logged, same_bits, stop, workers
from chapters.distributed.restarts import BOOK, several_machines
from measure.experiments import command_line, grid

RESTARTS = (4, 0)  # a run is killed as often, at least once
UPDATES, PAIRS, PROCESSES = 12, 211, 2
LIMIT = 300.0  # seconds that the rest of a run may need to go on, or to end
LOOK = 0.005  # seconds between two looks at the processes
OPTIONS = (
    "--layers 1 --d-model 16 --heads 2 --d-ff 16 --dropout 0.1 --batch-size 40 --beam 1 "
    f"--steps {UPDATES} --threads 1 --device cpu --save-every 0"
)
# What says why a run has ended: the trainer's own line, or torchrun's report of a killed process.
LINE = re.compile(r"^error: .+|^ +traceback +: Signal 9 \(SIGKILL\) received by PID \d+", re.M)


@dataclass
class Running:
    """One run: its torchruns, the files that they write to, and its folder."""

    launchers: list[subprocess.Popen]
    said: list[TextIO]
    out: Path

    def ranks(self) -> dict[int, int]:
        """The processes that are there, by rank."""
        found = {}
        for number in (n for launcher in self.launchers for n in workers(launcher)):
            try:
                told = Path(f"/proc/{number}/environ").read_bytes()
            except OSError:  # it has just ended
                continue
            if match := re.search(rb"(?:^|\0)RANK=(\d+)\0", told):
                found[int(match[1])] = number
        return found

    def ended(self) -> bool:
        return all(launcher.poll() is not None for launcher in self.launchers)

    def statuses(self) -> list[int | None]:
        return [launcher.poll() for launcher in self.launchers]

    def text(self) -> str:
        """What all of them have printed."""
        for file in self.said:
            file.seek(0)
        return "".join(file.read() for file in self.said)


@contextmanager
def started(
    torchruns: int, restarts: int, out: Path, arguments: Sequence[str]
) -> Iterator[Running]:
    """Train in two processes; none of them is left at the end."""
    where = ["--standalone"] if torchruns == 1 else several_machines(torchruns, "127.0.0.1")
    command = [sys.executable, "-m", "torch.distributed.run", *where]
    command += [f"--nproc-per-node={PROCESSES // torchruns}", f"--max-restarts={restarts}"]
    command += ["-m", "train", *OPTIONS.split(), *arguments, "--out", str(out)]
    environment = os.environ | {
        "PYTHONPATH": str(BOOK),
        "OMP_NUM_THREADS": "1",
        "TQDM_DISABLE": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    with ExitStack() as stack:
        running = Running([], [], out)
        for _ in range(torchruns):
            file = stack.enter_context(tempfile.TemporaryFile("w+"))
            launcher = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
            stack.callback(stop, launcher)
            running.launchers.append(launcher)
            running.said.append(file)
        yield running


class HungError(Exception):
    """A run has neither gone on nor ended in time."""


def wait_until(condition: Callable[[], bool]) -> float:
    """The seconds until something is so. Errors: HungError when LIMIT is over."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > LIMIT:
            raise HungError
        time.sleep(LOOK)
    return round(time.monotonic() - begun, 1)


def plan(rng: random.Random, kills: int) -> list[tuple[int, int, float]]:
    """For each kill how many updates it waits for, its rank, and how many seconds it waits then.

    The first comes while the processes start, the last one after the last update; a single one at
    any time.
    """
    if kills == 1:
        moments = [rng.randrange(UPDATES + 1)]
    else:
        moments = [0, *sorted(rng.sample(range(1, UPDATES), kills - 2)), UPDATES]
    waits = [rng.uniform(0, 0.1 if 0 < moment < UPDATES else 2.0) for moment in moments]
    return [(at, rng.randrange(PROCESSES), wait) for at, wait in zip(moments, waits, strict=True)]


def kill(running: Running, updates: int, rank: int, wait: float) -> dict[str, Any] | None:
    """Kill a rank after so many updates and a wait; return it with the seconds until all go on.

    A run that has ended has nothing to kill.
    """

    def due() -> bool:
        return running.ended() or (logged(running.out) >= updates and rank in running.ranks())

    wait_until(due)
    time.sleep(wait)
    before = running.ranks()
    if rank not in before:
        return None
    os.kill(before[rank], signal.SIGKILL)

    def again() -> bool:
        now = running.ranks()
        anew = not set(before.values()) & set(now.values())
        return running.ended() or (len(now) == PROCESSES and anew)

    try:
        seconds = wait_until(again)
    except HungError:
        seconds = LIMIT
    return {"updates": updates, "rank": rank, "seconds": seconds}


def measure(torchruns: int, restarts: int, seed: int, folder: Path) -> dict[str, Any]:
    """One run that is killed, and how it ends."""
    rng = random.Random(f"{torchruns} {restarts} {seed}")
    out = folder / f"{torchruns} {restarts} {seed}"
    kills: list[dict[str, Any]] = []
    with started(torchruns, restarts, out, data(folder)) as running:
        try:
            for updates, rank, wait in plan(rng, max(restarts, 1)):
                if one := kill(running, updates, rank, wait):
                    kills.append(one)
            seconds = wait_until(running.ended)
            ended = end(running, folder)
        except HungError:
            seconds, ended = LIMIT, "hung"
        if ended not in ("same bits", "one line"):
            print(running.text()[-6000:], file=sys.stderr)
    return {"kills": len(kills), "killed": kills, "ended": ended, "seconds": seconds}


def end(running: Running, folder: Path) -> str:
    """How a run has ended: "same bits", "other bits", "one line", or "no line"."""
    if any(running.statuses()):
        return "one line" if LINE.search(running.text()) else "no line"
    return "same bits" if same_bits(undisturbed(folder), running.out) else "other bits"


def undisturbed(folder: Path) -> Path:
    """The folder of a run by one torchrun that nobody kills; it is made once."""
    out = folder / "undisturbed"
    if not out.exists():
        with started(1, 0, out, data(folder)) as running:
            wait_until(running.ended)
            if running.statuses() != [0]:
                raise RuntimeError(f"expected a run that ends with 0, got:\n{running.text()}")
    return out


def data(folder: Path) -> list[str]:
    """The option that names the sentences, which are written if they are not there."""
    file, rng = folder / "pairs", random.Random(0)
    if not file.exists():
        sources = [rng.choices("abcdefghijk", k=rng.randint(3, 6)) for _ in range(PAIRS)]
        lines = [f"{' '.join(source)}\t{' '.join(source[::-1])}\n" for source in sources]
        file.write_text("".join(lines), encoding="utf-8")
    return ["--train", str(file)]


def main(arguments: list[str] | None = None) -> None:
    over = {"torchruns": (1, 2), "restarts": RESTARTS, "seed": range(4)}
    given = command_line(__file__, __doc__, over, arguments)
    with tempfile.TemporaryDirectory() as folder:
        run = partial(measure, folder=Path(folder))
        grid(run, given, lambda runs: {"limit": LIMIT, "runs": runs}, keeps_runs=True)


if __name__ == "__main__":
    main()

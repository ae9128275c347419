"""Start several processes from a notebook, as torchrun does from the command line.

A worker is a new Python that knows nothing of the notebook. So cloudpickle packs the function with
all that it uses, torchrun starts n processes that unpack it, they meet in torch.distributed, and
each one's output and result come back, in the order of the ranks.
"""

import contextlib
import linecache
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from faulthandler import dump_traceback_later
from pathlib import Path
from typing import Any

import cloudpickle
import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

WORK = "work.pkl"
GRACE = 10.0  # seconds in which torchrun ends the workers, before they are killed
FOREIGN = (os.path.dirname(os.__file__), os.path.dirname(torch.__file__))
TOLD = 2000  # characters of what a worker wrote before it ended without an error of Python


class WorkerError(RuntimeError):
    """A worker ended with an error, or not in time.

    rank       which one, or None if all of them were ended
    error      the name of the error's class, or None for a process that was killed
    """

    def __init__(self, message: str, rank: int | None = None, error: str | None = None):
        super().__init__(message)
        self.rank = rank
        self.error = error

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows in place of the way through this module: the message alone."""
        return [f"WorkerError: {self}"]


@dataclass(frozen=True)
class Workers:
    """What the workers printed and returned, both in the order of the ranks."""

    output: tuple[str, ...]
    results: tuple[Any, ...]

    def __repr__(self) -> str:
        return "\n".join(
            f"rank {rank}: {line}"
            for rank, text in enumerate(self.output)
            for line in text.splitlines()
        )


def run_workers(
    work: Callable[..., Any],
    *arguments: Any,
    n: int = 2,
    device: str = "cpu",
    patience: int | float = 30,
    timeout: int | float = 300,
) -> Workers:
    """Call work(*arguments) in n new processes, which are ranks 0 to n - 1 of torch.distributed.

    Each has one thread; on the CPU they exchange numbers by gloo over this machine's loopback
    interface, with device="cuda" by NCCL, each with a GPU of its own, which is the current one.
    `work` may use what its notebook has: functions, classes, tensors come along, by value.

    Args: patience, seconds that a rank waits for another one in torch.distributed. timeout, seconds
        until all of them are ended, with the start, which takes some seconds.
    Errors: WorkerError with the traceback of the rank that failed; ValueError for numbers that
        cannot be, GPUs that are not there, and what cannot be packed (an open file, a lock).
    """
    if n < 1 or patience <= 0 or timeout <= 0:
        raise ValueError(
            "expected one worker or more, and times above 0, got "
            f"n={n}, patience={patience} and timeout={timeout}"
        )
    if device not in ("cpu", "cuda"):
        raise ValueError(f'expected device "cpu" or "cuda", got {device!r}')
    if device == "cuda" and torch.cuda.device_count() < n:
        raise ValueError(
            f"expected a GPU for each of {n} workers, got {torch.cuda.device_count()}; "
            'start fewer, or say device="cpu"'
        )
    packed = _pack(work, arguments)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        (folder / WORK).write_bytes(packed)
        end = time.time() + timeout
        torch.save((device, patience, end), folder / "settings.pt")
        _torchrun(folder, n, timeout + GRACE)
        _raise_first_error(folder, n, timeout if time.time() > end else None)
        results = tuple(torch.load(folder / f"{r}.pt", weights_only=False) for r in range(n))
        return Workers(tuple(_written(folder, rank, "stdout") for rank in range(n)), results)


def _pack(work: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """The call, and the sources of the notebook's cells, which a traceback of a worker shows."""
    cells = {file: entry for file, entry in linecache.cache.items() if not Path(file).is_file()}
    sources = {file: entry for file, entry in cells.items() if len(entry) == 4}
    try:
        return cloudpickle.dumps((work, arguments, sources))
    except Exception as error:  # each kind of thing that cannot be packed says so in its own way
        name = getattr(work, "__name__", repr(work))
        raise ValueError(
            f"expected a function and arguments that another process can have, got {name}, "
            f"of which something cannot be packed ({error}); make it inside the function"
        ) from error


def _torchrun(folder: Path, n: int, timeout: int | float) -> None:
    """Run this module as the workers of a folder, until the last one ends or the time is over."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={n}", "--local-addr=127.0.0.1", "--redirects=3"]
    command += [f"--log-dir={folder / 'log'}", "-m", __name__, str(folder)]
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(path for path in map(os.path.abspath, sys.path)),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": loopback,
        "NCCL_SOCKET_IFNAME": loopback,
        "TORCHELASTIC_ERROR_FILE": str(folder / "torchrun.json"),
    }
    with (folder / "torchrun.log").open("w") as log:
        started = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                started.wait(timeout)
        finally:  # also when the reader interrupts the cell
            _end(started, folder)


def _end(started: subprocess.Popen, folder: Path) -> None:
    """End torchrun, which ends its workers; then those that it could not."""
    if started.poll() is None:
        started.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(GRACE)
    if started.poll() is None:
        started.kill()
        started.wait()
        for path in folder.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), signal.SIGKILL)


def _written(folder: Path, rank: int, stream: str) -> str:
    """What a rank wrote to its standard output or error."""
    found = sorted(folder.glob(f"log/*/attempt_0/{rank}/{stream}.log"))
    return found[-1].read_text(encoding="utf-8", errors="replace") if found else ""


def _raise_first_error(folder: Path, n: int, timeout: int | float | None) -> None:
    """Raise the error that came first: a rank that another one left alone is not to blame."""
    failed = [rank for rank in range(n) if (folder / f"{rank}.error.pt").exists()]
    told = [(*torch.load(folder / f"{rank}.error.pt"), rank) for rank in failed]
    for rank, number in _killed((folder / "torchrun.log").read_text()):
        if all(alone for alone, *_ in told):
            said = _written(folder, rank, "stderr")[-TOLD:]
            name = signal.Signals(number).name
            raise WorkerError(f"rank {rank} of {n} was killed by {name}\n{said}".rstrip(), rank)
    if told:
        # A rank that waits for one that has failed fails too, with an error of torch.distributed.
        _, error, said, rank = min(told, key=lambda one: (one[0], one[3]))
        raise WorkerError(f"rank {rank} of {n} failed:\n{said}", rank, error)
    missing = [rank for rank in range(n) if not (folder / f"{rank}.pt").exists()]
    if missing and timeout is not None:
        waiting = [f"expected {n} workers to end within {timeout:g} seconds; all were ended"]
        for rank in missing:
            waiting.append(f"rank {rank} {_last_line(_written(folder, rank, 'stderr'))}")
        raise WorkerError("\n".join(waiting))
    for rank in missing:
        said = _written(folder, rank, "stderr") or (folder / "torchrun.log").read_text()
        raise WorkerError(f"rank {rank} of {n} ended without a result:\n{said[-TOLD:]}", rank)


def _killed(report: str) -> list[tuple[int, int]]:
    """The ranks that a signal ended, and its number, by torchrun's report of what failed.

    SIGTERM is torchrun's own: so it ends the other ranks when one has failed.
    """
    found = re.findall(r"^ +rank +: (\d+) .*\n +exitcode +: -(\d+)", report, re.MULTILINE)
    return [(int(rank), int(n)) for rank, n in found if int(n) != signal.SIGTERM]


def _last_line(dump: str) -> str:
    """Where a worker was when it was ended: the innermost line outside torch, Python and here."""
    for file, number in re.findall(r'File "([^"]+)", line (\d+) in', dump):
        line = linecache.getline(file, int(number)).strip()
        if line and file != __file__ and not file.startswith(FOREIGN):
            return f"was at: {line}"
    return "had not ended"


# --- in the worker ------------------------------------------------------------------------------


def be_worker() -> None:
    """Be one of the workers: meet the others, do the work, leave the result or the error."""
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    (folder / f"{rank}.pid").write_text(str(os.getpid()))
    device, patience, end = torch.load(folder / "settings.pt")
    left = max(end - time.time(), 0.1)
    dump_traceback_later(left, exit=True)  # whatever happens to the process that waits for us
    try:
        work, arguments, sources = cloudpickle.loads((folder / WORK).read_bytes())
        linecache.cache.update(sources)
        with _joined(device, patience, timedelta(seconds=left)):
            torch.save(work(*arguments), folder / f"{rank}.pt")
    except Exception as error:
        alone = isinstance(error, dist.DistError) or "gloo" in str(error).lower()
        torch.save((alone, type(error).__name__, _shown(error)), folder / f"{rank}.error.pt")
        sys.exit(1)


@contextlib.contextmanager
def _joined(device: str, patience: int | float, left: timedelta) -> Iterator[None]:
    """Meet the other ranks, however late the last one starts; from then on wait with patience."""
    store, rank, world = next(rendezvous("env://", timeout=left))
    store.set(f"here {rank}", "yes")
    store.wait([f"here {other}" for other in range(world)], left)
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo",
        store=store,
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=patience),
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def _shown(error: Exception) -> str:
    """The traceback, without torch's own lines and without what each run has anew."""
    told = traceback.TracebackException.from_exception(error)
    own = (__file__, str(Path(torch.__file__).parent))
    told.stack[:] = [frame for frame in told.stack if not frame.filename.startswith(own)]
    text = "".join(told.format())
    text = re.sub(r"\[[^\]\s]*\.cc:\d+\] ", "", text)  # where in gloo
    return re.sub(r"(\[127\.0\.0\.1\]|\[::1\]):\d+", r"\1", text).rstrip()


if __name__ == "__main__":
    be_worker()

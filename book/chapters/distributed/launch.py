"""Start several processes from a notebook, as torchrun does from the command line.

A function of a cell becomes a small script, with what it uses of the notebook: a worker is a new
Python that knows nothing else. torchrun starts it n times, the processes meet in
torch.distributed, and each one's output and result come back, in the order of the ranks.
"""

import ast
import builtins
import contextlib
import importlib
import linecache
import os
import re
import signal
import socket
import subprocess
import symtable
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from faulthandler import dump_traceback_later
from inspect import unwrap
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

SCRIPT = "workers.py"
GRACE = 10.0  # seconds in which torchrun ends the workers, before they are killed
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
    See `worker_script` for what `work` may use. It, its arguments and results travel as files.

    Args: patience, seconds that a rank waits for another one in torch.distributed. timeout, seconds
        until all of them are ended, with the start, which takes some seconds.
    Errors: WorkerError with the traceback of the rank that failed; ValueError for numbers that
        cannot be, GPUs that are not there, and functions that cannot be sent.
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
    text = worker_script(work)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        (folder / SCRIPT).write_text(text, encoding="utf-8")
        end = time.time() + timeout
        torch.save((device, patience, end, arguments), folder / "arguments.pt")
        _torchrun(folder, n, timeout + GRACE)
        _raise_first_error(folder, n, text, timeout if time.time() > end else None)
        results = tuple(torch.load(folder / f"{r}.pt", weights_only=False) for r in range(n))
        return Workers(tuple(_written(folder, rank, "stdout") for rank in range(n)), results)


def _torchrun(folder: Path, n: int, timeout: int | float) -> None:
    """Run the script of this folder in n processes, until the last one ends or the time is over."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={n}", "--local-addr=127.0.0.1", "--redirects=3"]
    command += [f"--log-dir={folder / 'log'}", str(folder / SCRIPT), str(folder)]
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


def _raise_first_error(folder: Path, n: int, text: str, timeout: int | float | None) -> None:
    """Raise the error that came first: a rank that another one left alone is not to blame."""
    failed = [rank for rank in range(n) if (folder / f"{rank}.error.pt").exists()]
    told = [(*torch.load(folder / f"{rank}.error.pt"), rank) for rank in failed]
    if told:
        # A rank that waits for one that has failed fails too, with an error of torch.distributed.
        _, error, said, rank = min(told, key=lambda one: (one[0], one[3]))
        raise WorkerError(f"rank {rank} of {n} failed:\n{said}", rank, error)
    missing = [rank for rank in range(n) if not (folder / f"{rank}.pt").exists()]
    if missing and timeout is not None:
        lines = text.splitlines()
        waiting = [f"expected {n} workers to end within {timeout:g} seconds; all were ended"]
        for rank in missing:
            found = re.search(rf'{SCRIPT}", line (\d+) in', _written(folder, rank, "stderr"))
            at = f"was at: {lines[int(found[1]) - 1].strip()}" if found else "had not ended"
            waiting.append(f"rank {rank} {at}")
        raise WorkerError("\n".join(waiting))
    for rank in missing:
        said = _written(folder, rank, "stderr") or (folder / "torchrun.log").read_text()
        raise WorkerError(f"rank {rank} of {n} ended without a result:\n{said[-TOLD:]}", rank)


# --- in the worker ------------------------------------------------------------------------------


def as_worker(work: Callable[..., Any]) -> None:
    """Be one of the workers: meet the others, do the work, leave the result or the error.

    The script that `worker_script` writes ends with this call.
    """
    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    (folder / f"{rank}.pid").write_text(str(os.getpid()))
    device, patience, end, arguments = torch.load(folder / "arguments.pt", weights_only=False)
    left = max(end - time.time(), 0.1)
    dump_traceback_later(left, exit=True)  # whatever happens to the process that waits for us
    try:
        with _joined(device, patience, timedelta(seconds=left)):
            result = work(*arguments)
            torch.save(result, folder / f"{rank}.pt")
    except Exception as error:
        alone = isinstance(error, dist.DistError) or "gloo" in str(error).lower()
        name = type(error).__name__
        torch.save((alone, name, _shown(error, folder)), folder / f"{rank}.error.pt")
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


def _shown(error: Exception, folder: Path) -> str:
    """The traceback, without torch's own lines and without what each run has anew."""
    told = traceback.TracebackException.from_exception(error)
    own = (__file__, str(Path(torch.__file__).parent))
    told.stack[:] = [frame for frame in told.stack if not frame.filename.startswith(own)]
    text = "".join(told.format()).replace(str(folder / SCRIPT), SCRIPT)
    text = re.sub(r"\[[^\]\s]*\.cc:\d+\] ", "", text)  # where in gloo
    return re.sub(r"(\[127\.0\.0\.1\]|\[::1\]):\d+", r"\1", text).rstrip()


# --- the script ---------------------------------------------------------------------------------


def worker_script(work: Callable[..., Any]) -> str:
    """The script that the workers run: the function, what it uses, and a call of `as_worker`.

    What it may use of its notebook: modules, and names imported from them; functions and classes of
    other cells, which come along; numbers, strings and lists of such. Anything else is to be an
    argument.
    Errors: ValueError for a function that is not defined at the top of a cell or a file, or that
        uses what cannot be written down.
    """
    name = getattr(work, "__name__", "")
    if not name.isidentifier():
        raise _undefined(work)
    lines: dict[str, str] = {}
    _bring(name, work, lines)
    imports = [line for line in lines.values() if line.startswith(("import ", "from "))]
    others = [line for line in lines.values() if line not in imports]
    parts = ["\n".join(sorted(imports)), *others]
    call = "from chapters.distributed.launch import as_worker\n\n    as_worker"
    parts.append(f'if __name__ == "__main__":\n    {call}({name})')
    return "\n\n\n".join(part for part in parts if part) + "\n"


def _bring(name: str, value: Any, lines: dict[str, str]) -> None:
    """Write down how the script gets this value under this name, after what it needs itself."""
    if name in lines:
        return
    if isinstance(value, types.ModuleType):
        lines[name] = f"import {value.__name__} as {name}"
        if name == value.__name__:
            lines[name] = f"import {name}"
    elif _importable(value):
        own = value.__name__
        lines[name] = f"from {value.__module__} import {own}" + (
            f" as {name}" if name != own else ""
        )
    elif isinstance(value, types.FunctionType | type):
        text, namespace = _definition(value)
        lines[name] = ""  # it may call itself
        for used in _names_used(text):
            if used in namespace and used != value.__name__:
                _bring(used, namespace[used], lines)
        del lines[name]
        lines[name] = text if name == value.__name__ else f"{text}\n\n\n{name} = {value.__name__}"
    else:
        try:
            same = ast.literal_eval(repr(value)) == value
        except (ValueError, SyntaxError, TypeError, RuntimeError):
            same = False
        if not same:
            raise ValueError(
                f"expected a function that uses only what a new process can have, got one that "
                f"uses {name!r} of the notebook, a {type(value).__name__}; make it in the "
                "function, or give it as an argument: run_workers(work, it)"
            )
        lines[name] = f"{name} = {value!r}"


def _importable(value: Any) -> bool:
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not module or not name or module == "__main__" or module not in sys.modules:
        return False
    return getattr(importlib.import_module(module), name, None) is value


def _definition(thing: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """The source of a function or a class as its cell has it, and the names that it can use."""
    inner = vars(thing).values() if isinstance(thing, type) else [unwrap(thing)]
    functions = [unwrap(getattr(one, "__func__", one)) for one in inner]
    functions = [one for one in functions if isinstance(one, types.FunctionType)]
    for function in functions:
        code = function.__code__
        text = "".join(linecache.getlines(code.co_filename, function.__globals__))
        for node in ast.parse(text).body if text else ():
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            first = min(one.lineno for one in (node, *node.decorator_list))
            inside = first <= code.co_firstlineno <= (node.end_lineno or first)
            if node.name == thing.__name__ and inside:
                found = "\n".join(text.splitlines()[first - 1 : node.end_lineno])
                return found, function.__globals__
    raise _undefined(thing)


def _undefined(thing: Any) -> ValueError:
    return ValueError(
        f"expected a function or class with a name, defined at the top of a cell, got {thing!r}; "
        "define it there, with def or class"
    )


def _names_used(text: str) -> list[str]:
    """The names that a definition takes from outside, each once, in alphabetical order."""
    tables = [symtable.symtable(text, SCRIPT, "exec")]
    found = set()
    for table in tables:
        tables += table.get_children()
        for symbol in table.get_symbols():
            if symbol.is_global() or (table is tables[0] and symbol.is_referenced()):
                found.add(symbol.get_name())
    return sorted(name for name in found if not hasattr(builtins, name))

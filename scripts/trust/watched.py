"""Work in forked children under a watchdog, so that a crash and a hang are results like others.

A child inherits all that its parent has imported; it works through many numbers and tells the
parent of each. The parent kills a child that stays too long at one number and forks another one,
which goes on after it.
"""

import faulthandler
import json
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PATIENCE = 4  # a busy machine: so many times the limit may pass by the clock
CHUNK = 500  # numbers that a child works through before another one takes its place


class Outcome(NamedTuple):
    """What became of one number: `how` is "done", "hang" or "crash"; `value` what work returned,
    or which signal or exit status ended the child.
    """

    number: int
    how: str
    value: Any


@dataclass
class _Child:
    pid: int
    pipe: int
    waiting: list[int]
    buffer: bytes = b""
    current: int | None = None
    since: float = field(default_factory=time.monotonic)
    cpu: float = 0.0
    error: str = ""  # what work raised, which it should not


def each(
    work: Callable[[int], Any],
    numbers: Iterable[int],
    *,
    workers: int = 2,
    limit: float = 5.0,
    memory: int | None = None,
    chunk: int = CHUNK,
    grace: float = PATIENCE,
) -> Iterator[Outcome]:
    """Do `work` for each number, in any order; it returns what JSON can tell.

    Args: limit, seconds of the processor for one number (by the clock `grace` times as many);
        memory, bytes that a child may have beyond what its parent has.
    """
    left = list(numbers)[::-1]
    children: list[_Child] = []
    try:
        while left or children:
            while left and len(children) < workers:
                taken = [left.pop() for _ in range(min(chunk, len(left)))]
                children.append(_fork(work, taken, memory))
            ready, _, _ = select.select([child.pipe for child in children], [], [], 0.05)
            for child in list(children):
                if child.pipe in ready:
                    data = os.read(child.pipe, 1 << 16)
                    yield from _told(child, data)
                    if not data:
                        children.remove(child)
                        yield from _ended(child, left)
                elif _too_long(child, limit, grace):
                    os.kill(child.pid, signal.SIGKILL)
                    children.remove(child)
                    yield from _ended(child, left, hang=True)
    finally:
        for child in children:
            os.kill(child.pid, signal.SIGKILL)
            os.waitpid(child.pid, 0)
            os.close(child.pipe)


def _fork(work: Callable[[int], Any], numbers: list[int], memory: int | None) -> _Child:
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a thread of tqdm or torch that waits
        pid = os.fork()
    if pid:
        os.close(writer)
        return _Child(pid, reader, numbers)
    try:
        import resource  # not on Windows, which cannot fork either

        os.close(reader)
        faulthandler.disable()
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silence, stream)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory is not None and (size := _virtual_memory()):
            resource.setrlimit(resource.RLIMIT_AS, (size + memory, size + memory))
        for number in numbers:
            os.write(writer, f"{number}\n".encode())
            told = json.dumps([number, work(number)]) + "\n"
            _write_all(writer, told.encode())
        os._exit(0)
    except BaseException as error:  # work is to return its errors: this one ends the child
        _write_all(writer, (json.dumps([None, repr(error)]) + "\n").encode())
        os._exit(99)


def _write_all(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _told(child: _Child, data: bytes) -> Iterator[Outcome]:
    *lines, child.buffer = (child.buffer + data).split(b"\n")
    for line in lines:
        told = json.loads(line)
        if isinstance(told, int):
            child.current, child.since = told, time.monotonic()
            child.cpu = _cpu_seconds(child.pid)
        elif told[0] is None:
            child.error = told[1]
        else:
            child.waiting.remove(told[0])
            child.current = None
            yield Outcome(told[0], "done", told[1])


def _ended(child: _Child, left: list[int], hang: bool = False) -> Iterator[Outcome]:
    """Tell of the number at which a child ended, and give its other ones back."""
    _, status = os.waitpid(child.pid, 0)
    os.close(child.pipe)
    if child.current is not None:
        child.waiting.remove(child.current)
        code = os.waitstatus_to_exitcode(status)
        ended = signal.Signals(-code).name if code < 0 else f"exit status {code} {child.error}"
        yield Outcome(child.current, "hang" if hang else "crash", ended)
    left.extend(reversed(child.waiting))


def _too_long(child: _Child, limit: float, grace: float) -> bool:
    past = time.monotonic() - child.since
    if child.current is None or past < limit:
        return False
    return past > grace * limit or _cpu_seconds(child.pid) - child.cpu > limit


def _cpu_seconds(pid: int) -> float:
    """The processor's seconds of a process; 0 where /proc does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            told = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def _virtual_memory() -> int:
    try:
        with open("/proc/self/statm", encoding="utf-8") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0

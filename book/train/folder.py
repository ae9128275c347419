"""The folder of a run: the names of its files, and the lock that keeps other processes out."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

STATE, BEST, LOSSES, SUMMARY = "last.pt", "best.safetensors", "losses.jsonl", "summary.txt"
LOCK = "run.lock"
TABLE = "losses.csv"
BOARD = "tensorboard"  # a folder
FILES = (STATE, BEST, LOSSES, TABLE, SUMMARY)  # that a run leaves


@contextmanager
def locked(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Keep a folder, which is made if it is not there, for this process alone.

    The lock is the system's own and ends with the process, however that ends. What killed processes
    have left half written is removed, and a folder in which nothing was begun is taken away again.

    Args: `patience`, how many seconds to wait for another process.
    Errors: ValueError that names the process which has the folder; OSError for one that cannot be
    made or written.
    """
    made: list[Path] = []
    lock: BaseFileLock = FileLock(folder / LOCK)
    try:
        made += [place for place in (folder, *folder.parents) if not place.exists()]
        try:
            _take(folder, lock, patience)
        except FileNotFoundError:  # the process that had the folder has just taken it away
            _take(folder, lock, patience)
    except Timeout as error:
        raise ValueError(
            f"expected a folder in which no run is going on, got {folder}, where "
            f"{_holder(folder / LOCK)} trains; wait for it, or name another folder with --out"
        ) from error
    except OSError as error:
        _remove_empty(made)
        raise OSError(
            f"expected a folder that can be written, got {folder}: {error.strerror}; "
            "name another one with --out"
        ) from error
    try:
        if not isinstance(lock, SoftFileLock):  # which writes the same by itself
            with suppress(OSError):  # a system that locks the content of the file, too
                (folder / LOCK).write_text(f"{os.getpid()}\n{platform.node()}\n", encoding="utf-8")
        for name in FILES:
            for part in folder.glob(f"{name}*.part"):
                part.unlink()
        yield
    finally:
        with suppress(OSError):  # a system that removes no open file keeps it
            (folder / LOCK).unlink()
        lock.release()
        _remove_empty(made)


def _take(folder: Path, lock: BaseFileLock, patience: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lock.acquire(timeout=patience)


def _holder(path: Path) -> str:
    """The process that has written its number and its machine into the lock."""
    with suppress(OSError, ValueError):
        number, machine = path.read_text(encoding="utf-8").split()[:2]
        return f"process {number} on {machine}"
    return "another process"


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()

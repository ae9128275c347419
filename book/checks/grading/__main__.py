"""Grade notebooks that were handed in: `python -m checks.grading FOLDER`, in the folder `book`.

Each notebook is a chapter as `make reader` and `make lab` make it, with answers in it, whatever its
name is. It is read, and its answers are run, in a process of its own that cannot write, has no
network and gets so much time and memory (`confined`). One table, FOLDER/grades.csv, says of each
exercise whether its answer passed, or what the check said. A notebook that crashes or hangs costs
no more than the line of the exercise at which it did.
"""

import argparse
import contextlib
import csv
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

# torch reads them when it is imported. A process that has run several threads is not to be forked.
os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

from checks.grading.judge import judge, one_line, prepare
from train.options import number

START = 120.0  # seconds until a notebook has been read
TICK, PATIENCE = 0.1, 3  # seconds between two looks; how much longer an answer may wait than work
LONGEST_LINE = 2**20  # bytes
STOPPED, NOT_READ = "stopped", "not read"
COLUMNS = ("who", "exercise", "result", "message")
TABLE = "grades.csv"
FORMULA = ("=", "+", "-", "@")  # with which a spreadsheet's formula begins


class Grade(NamedTuple):
    who: str
    exercise: str
    result: str
    message: str


class Limits(NamedTuple):
    seconds: float  # of the processor, for an exercise
    memory: int  # bytes


class Lost(Exception):
    """The process has ended, or was ended, before it said what was expected; the text says how."""


class Judge:
    """The process that judges one notebook, as `judge` runs in it."""

    def __init__(self, path: Path, scratch: Path, limits: Limits, begin: int):
        # Forked from here where that is safe: torch has been imported once, and has run nothing.
        context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        self.heard, told = context.Pipe(duplex=False)
        given = (path.read_bytes(), path.name, scratch, limits.memory, begin, told)
        self.process: BaseProcess = context.Process(target=judge, args=given, daemon=True)
        self.process.start()
        told.close()

    def say(self, seconds: float, *keys: str) -> list[Any]:
        """What it says next under these keys. Errors: Lost, also after so many seconds."""
        done, late = threading.Event(), threading.Event()
        watch = threading.Thread(target=self.watch, args=(seconds, done, late))
        watch.start()
        try:
            line = json.loads(self.heard.recv_bytes(LONGEST_LINE))
            return [line[key] for key in keys]
        except (EOFError, OSError, ValueError, LookupError, TypeError):
            if late.is_set():
                raise Lost(f"it took more than {seconds:g} seconds") from None
            self.process.join(5)
            code = self.process.exitcode
            how = signal.Signals(-code).name if code is not None and code < 0 else f"code {code}"
            raise Lost(f"the process ended by itself ({how})") from None
        finally:
            done.set()
            watch.join()

    def watch(self, seconds: float, done: threading.Event, late: threading.Event) -> None:
        """Kill it once it has used so many seconds of the processor, or waited for much longer.

        On a busy machine, or one that slept, little work takes long: so the clock alone is unfair.
        """
        begun, waited = processor_seconds(self.process.pid), 0.0
        while not done.wait(TICK):
            waited += TICK
            used = processor_seconds(self.process.pid)
            busy = waited if begun is None or used is None else used - begun
            if busy >= seconds or waited >= PATIENCE * seconds:
                late.set()
                self.kill()
                return

    def kill(self) -> None:
        with contextlib.suppress(AttributeError, OSError):  # what it started ends with it
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.kill()

    def end(self) -> None:
        self.kill()
        self.process.join()
        self.heard.close()


def processor_seconds(pid: int | None) -> float | None:
    """What a process and its children have used; None where the system does not tell."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        stats = (
            Path(f"/proc/{one}/stat").read_text("utf-8", "replace") for one in (pid, *children)
        )
        fields = [text.rpartition(")")[2].split() for text in stats]
    except OSError:
        return None
    return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")


def graded(path: Path, who: str, limits: Limits, lacks: set[str]) -> Iterator[Grade]:
    """The grades of one notebook. A process that is lost takes one exercise with it."""
    exercises: list[str] = []
    done = 0
    while done == 0 or done < len(exercises):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            judging = Judge(path, Path(scratch), limits, done)
            try:
                refused, lack, names = judging.say(START, "refused", "lacks", "exercises")
                lacks.add(one_line(lack))
                if refused:
                    yield Grade(who, "", NOT_READ, one_line(refused))
                    return
                exercises = list(map(one_line, names))
                while done < len(exercises):
                    judging.say(limits.seconds, "begins")
                    result, message = judging.say(limits.seconds, "result", "message")
                    yield Grade(who, exercises[done], one_line(result), one_line(message))
                    done += 1
            except Lost as how:
                if not exercises:
                    yield Grade(who, "", STOPPED, f"reading it: {how}")
                    return
                yield Grade(who, exercises[done], STOPPED, str(how))
                done += 1
            finally:
                judging.end()


def notebooks(folder: Path) -> list[Path]:
    """All notebooks in a folder and the folders in it, but the copies that Jupyter keeps."""
    found = (path for path in folder.rglob("*.ipynb") if path.is_file())
    return sorted(p for p in found if ".ipynb_checkpoints" not in p.parts)


def harmless(text: str) -> str:
    """The text of a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def write_table(path: Path, grades: Sequence[Grade]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        table.writerows(map(harmless, grade) for grade in grades)


def parser() -> argparse.ArgumentParser:
    told = argparse.ArgumentParser(
        prog="python -m checks.grading", description=(__doc__ or "").partition("\n")[0]
    )
    told.add_argument("folder", type=Path, help="where the notebooks are, also in folders of it")
    told.add_argument("--out", type=Path, help=f"the table (default FOLDER/{TABLE})")
    told.add_argument(
        "--seconds",
        type=number(float, 0, above=True),
        default=60,
        help="of the processor, for each exercise (default 60)",
    )
    told.add_argument("--memory", type=number(int, 1), default=1024, help="in MiB (default 1024)")
    return told


def fault_of_place(out: Path) -> str:
    """Why no table can be written there, or nothing: hours of grading must not end so."""
    if out.is_dir() or not out.parent.is_dir():
        return f"expected the name of a file for the table, in a folder that is there, got {out}"
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        return f"expected a table that may be written, got {out}; name another one with --out"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade a folder; return 0, or 1 if there is no notebook in it or no place for the table."""
    given = parser().parse_args(arguments)
    if not (found := notebooks(given.folder)):
        print(f"expected notebooks in {given.folder}, found none", file=sys.stderr)
        return 1
    out = given.out or given.folder / TABLE
    if fault := fault_of_place(out):
        print(fault, file=sys.stderr)
        return 1
    prepare()
    limits = Limits(given.seconds, given.memory * 2**20)
    grades: list[Grade] = []
    lacks: set[str] = set()
    for place, path in enumerate(found, start=1):
        who = path.relative_to(given.folder).as_posix()
        own = list(graded(path, who, limits, lacks))
        grades += own
        counts = Counter(grade.result for grade in own)
        told = ", ".join(f"{count} {result}" for result, count in counts.items())
        print(f"{place:3} of {len(found)}  {who}: {told}", flush=True)
    write_table(out, grades)
    for lack in sorted(lacks - {""}):
        print(f"Note: {lack}.")
    print(f"{len(grades)} lines: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

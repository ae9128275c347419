"""Run the unit tests and the notebooks as other machines would: `make portable`.

    python scripts/portable.py                       each thing that this machine can do, once
    python scripts/portable.py --full                all their combinations on the first Python
    python scripts/portable.py --list                what would run
    python scripts/portable.py --python 3.12         one Python
    python scripts/portable.py --only avx2           the configurations with this in their name
    python scripts/portable.py --suite unit          the unit tests alone
    python scripts/portable.py --set-up              make the environments and run nothing

A stored output must hold on every processor and with every number of threads. So on the Python of
.venv the processor is held to each instruction set that it has, and each other Python runs as the
machine is, in an environment of its own: .venv-3.12 and so on. One thread and two take turns; with
--full each instruction set runs with both. What this machine lacks is named. A failure stops
nothing; a table at the end has a line for each run.
"""

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "_build" / "portable"
PYTHONS = ("3.11", "3.12", "3.13")
THREADS = (1, 2)
SUITES = ("unit", "notebooks")
# From the least to the most. torch's own kernels are told apart by the first variable; its matrix
# multiplications stand in oneDNN and MKL, which have their own.
CAPABILITIES = {
    "default": {"ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "avx512": {},
}
ASK_CAPABILITY = "import torch; print(torch.backends.cpu.get_cpu_capability())"
ASK_VERSION = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
SUMMARY = re.compile(r"^=* ?\d+ \w+.* in [\d.]+s", re.MULTILINE)


class Configuration(NamedTuple):
    """One way to run the tests; no capability means the processor as it is."""

    python: str
    venv: str
    capability: str | None
    threads: int

    @property
    def name(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{self.python} {self.capability or 'as it is'}, {threads}"

    def environment(self) -> dict[str, str]:
        if self.capability is None:
            return {}
        return {"ATEN_CPU_CAPABILITY": self.capability, **CAPABILITIES[self.capability]}


class Result(NamedTuple):
    """What one suite did; none passed and none failed if it never came to its summary."""

    passed: int
    failed: int
    status: int
    seconds: float

    @property
    def ok(self) -> bool:
        return self.status == 0 and self.passed > 0 and self.failed == 0


def offered(native: str) -> list[str]:
    """The capabilities of a processor whose own, as torch calls it, is `native`.

    A processor that is not x86 knows none of these names but "default".
    """
    names = list(CAPABILITIES)
    known = native.lower() if native.lower() in names else "default"
    return names[: names.index(known) + 1]


def plan(
    default: str, others: Sequence[str], capabilities: Iterable[str], *, full: bool = False
) -> list[Configuration]:
    """Every capability on one Python and every other Python, with one thread and two in turn.

    With `full`, every capability with every number of threads on the one Python.
    """
    turns = itertools.cycle(THREADS)
    runs = [
        Configuration(default, ".venv", capability, threads)
        for capability in capabilities
        for threads in (THREADS if full else [next(turns)])
    ]
    return runs + [
        Configuration(python, f".venv-{python}", None, 1 if full else next(turns))
        for python in others
    ]


def chosen(
    runs: Iterable[Configuration], pythons: Sequence[str], words: Sequence[str]
) -> list[Configuration]:
    """The configurations of these Pythons, if any are named, whose name holds all the words."""
    return [
        run
        for run in runs
        if (not pythons or run.python in pythons) and all(word in run.name for word in words)
    ]


def ask(python: str | Path, code: str) -> str | None:
    """What a Python prints for a piece of code; None if it cannot be run, as a shim of pyenv that
    leads nowhere.
    """
    environment = {k: v for k, v in os.environ.items() if k != "ATEN_CPU_CAPABILITY"}
    try:
        done = subprocess.run(
            [python, "-c", code], env=environment, capture_output=True, text=True, timeout=300
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def find_python(version: str, home: Path | None = None) -> str | None:
    """A Python of this version that can make environments: on the PATH, or of pyenv."""
    versions = (home or Path.home()) / ".pyenv" / "versions"
    found = sorted(
        versions.glob(f"{version}.*/bin/python{version}"),
        key=lambda path: [int(n) for n in re.findall(r"\d+", path.parts[-3])],
        reverse=True,
    )
    for candidate in (shutil.which(f"python{version}"), *map(str, found)):
        if candidate and ask(candidate, ASK_VERSION) == version:
            return candidate
    return None


def set_up(version: str, python: str) -> bool:
    """Make the environment .venv-VERSION as `make` makes .venv; say if it works.

    pip takes the torch that its index has for this Python. If that is a build with CUDA, its
    packages need some 5 GB, for it does not load without them even where there is no GPU.
    """
    command = ["make", "setup-python", f"VENV=.venv-{version}", f"PYTHON={python}"]
    done = subprocess.run(command, cwd=ROOT)
    works = ask(ROOT / f".venv-{version}/bin/python", ASK_CAPABILITY) is not None
    return done.returncode == 0 and works


def counts(output: str) -> tuple[int, int]:
    """How many tests passed and failed, by pytest's last line; an error counts as a failure."""
    lines = [match.group() for match in SUMMARY.finditer(output)]
    found = dict(
        (word.rstrip("s") if word.startswith("error") else word, int(number))
        for number, word in re.findall(r"(\d+) (\w+)", lines[-1] if lines else "")
    )
    failures = ("failed", "error", "xpassed")
    return found.get("passed", 0), sum(found.get(word, 0) for word in failures)


def log_of(run: Configuration, suite: str, folder: Path = LOGS) -> Path:
    return folder / f"{re.sub(r'[^a-z0-9.]+', '-', run.name)}.{suite}.log"


def run_suite(run: Configuration, suite: str) -> Result:
    """Run one suite in one configuration; its output goes into a file."""
    workers = max(1, (os.cpu_count() or 1) // run.threads)
    command = ["make", suite, f"VENV={run.venv}", f"THREADS={run.threads}", f"WORKERS={workers}"]
    log = log_of(run, suite)
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | run.environment(),
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    output = log.read_text(encoding="utf-8", errors="replace")
    return Result(*counts(output), done.returncode, time.perf_counter() - start)


def cell(result: Result | None) -> str:
    if result is None:
        return "not run"
    if not result.passed and not result.failed:
        return "STOPPED"
    text = f"{result.passed} / {result.failed}"
    return text if result.ok else f"{text} FAILED"


def table(results: dict[Configuration, dict[str, Result]]) -> str:
    """One line for each configuration: tests passed / failed of each suite, and the seconds."""
    rows: list[tuple[str, ...]] = [("configuration", "unit tests", "notebook cells", "seconds")]
    for run, suites in results.items():
        seconds = f"{sum(result.seconds for result in suites.values()):.0f}"
        rows.append((run.name, *(cell(suites.get(suite)) for suite in SUITES), seconds))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            text.rjust(width) if i == 3 else text.ljust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def carry_out(
    runs: Iterable[Configuration],
    suites: Sequence[str],
    runner: Callable[[Configuration, str], Result],
) -> dict[Configuration, dict[str, Result]]:
    """Run everything, whatever fails, and say how far it is."""
    results: dict[Configuration, dict[str, Result]] = {}
    for run in runs:
        results[run] = {}
        for suite in suites:
            result = results[run][suite] = runner(run, suite)
            print(f"{run.name}, {suite}: {cell(result)} ({result.seconds:.0f} s)", flush=True)
    return results


def prepared(pythons: Sequence[str], make: bool) -> tuple[list[str], list[str]]:
    """Which of these Pythons can be used, and what to say of the others."""
    ready, missing = [], []
    for version in pythons:
        python = find_python(version)
        if python is None:
            missing.append(f"no Python {version} on the PATH or in ~/.pyenv/versions: left out")
        elif make and not set_up(version, python):
            missing.append(f"could not make .venv-{version} with {python}: left out")
        else:
            ready.append(version)
    return ready, missing


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", action="append", default=[], help="such as 3.12; may repeat")
    parser.add_argument("--only", action="append", default=[], help="such as avx2 or '2 threads'")
    parser.add_argument("--full", action="store_true", help="every instruction set, all threads")
    parser.add_argument("--suite", choices=SUITES, help="default: both")
    parser.add_argument("--list", action="store_true", help="say what would run")
    parser.add_argument("--set-up", action="store_true", help="make the environments and stop")
    options = parser.parse_args(arguments)

    default = ask(ROOT / ".venv/bin/python", ASK_VERSION)
    native = ask(ROOT / ".venv/bin/python", ASK_CAPABILITY)
    if default is None or native is None:
        parser.error("expected an environment with torch in .venv, got none; run: make setup-test")
    capabilities = offered(native)
    others = [
        version
        for version in PYTHONS
        if version != default
        and chosen(plan(default, [version], [])[-1:], options.python, options.only)
    ]
    ready, missing = prepared(others, make=not options.list)
    missing = [
        f"this processor has no {name}: left out"
        for name in CAPABILITIES
        if name not in capabilities
    ] + missing
    missing += [
        f"expected --python out of {', '.join(PYTHONS)}, got {version}"
        for version in options.python
        if version not in (*PYTHONS, default)
    ]
    planned = plan(default, ready, capabilities, full=options.full)
    runs = chosen(planned, options.python, options.only)
    if options.list or options.set_up:
        print("\n".join([*(run.name for run in runs), *missing]))
        return 0
    if not runs:
        print("\n".join(["nothing to run", *missing]), file=sys.stderr)
        return 1
    results = carry_out(runs, [options.suite] if options.suite else SUITES, run_suite)
    print("\n".join(["", table(results), f"Logs: {LOGS}", *missing]))
    failed = any(not result.ok for suites in results.values() for result in suites.values())
    return int(failed or any("could not make" in line for line in missing))


if __name__ == "__main__":
    sys.exit(main())

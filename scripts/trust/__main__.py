"""Try to break the library, a training run and the page, and say what gave way: `make trust`.

    make trust                                          all of it, a quarter of an hour of two cores
    make trust ARGS="--only fuzz --inputs 2000"         a part, and shorter
    make trust ARGS="--seed 7"                          other random inputs

Parts: fuzz (library, loaders, command line), faults (kills, disk, changed files), mutants (of lib)
and hostile (texts and links). One table at the end; what was run in its full size is also written,
with seed and date, to benchmarks/results/trust.json and into the table of benchmarks/README.md. The
status is 0 if every bar holds.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read by torch as it is imported

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "trust.json"
README = ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- trust: begin -->", "<!-- trust: end -->"
PARTS = ("mutants", "fuzz", "faults", "hostile")  # mutants first: lib must not be imported yet
INPUTS, KILLS, FLIPS, MUTANTS = 100_000, 50, 300, 300
LEAST_KILLED = 0.97


@dataclass
class Row:
    """One line of the table: what was tried, how often, what came of it, what should not have."""

    part: str
    name: str
    tried: int
    outcome: str
    against: int
    seconds: float
    findings: list[dict[str, Any]] = field(default_factory=list)


Say = Callable[[str], None]


def fuzz(o: argparse.Namespace, say: Say) -> list[Row]:
    """100,000 inputs, shared out among library, options, loaders and whole runs."""
    from jaxtyping import config, install_import_hook

    install_import_hook(["lib", "kit", "tasks", "train"], "beartype.beartype")  # and results
    config.update("jaxtyping_disable", True)
    import torch

    torch.set_num_threads(1)
    from scripts.trust import commands, fuzz, loaders

    def row(tally: fuzz.Tally, started: float, *more: str) -> Row:
        against = tally.of("unclear", "crash", "hang", *more)
        outcome = ", ".join(f"{kind} {n:,}" for kind, n in tally.counts.most_common())
        findings = sorted(tally.findings.values(), key=lambda one: -one["times"])
        seconds = time.monotonic() - started
        return Row("fuzz", tally.name, tally.total, outcome, against, seconds, findings)

    rows = []
    runs = max(4, o.inputs // 400)
    files = max(22, o.inputs // 25)
    lines = o.inputs * 4 // 10
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        started = time.monotonic()
        rows.append(
            row(fuzz.library(o.inputs - runs - files - lines, o.seed), started, "not finite")
        )
        say(rows[-1].outcome)
        started = time.monotonic()
        (root / "files").mkdir()
        loaders.make_files(root / "files")
        for one in loaders.LOADERS:
            one.load(root / "files" / one.name)
        judge = partial(loaders.judge_file, root / "files", o.seed)
        tally = fuzz.run(judge, loaders.name_of, range(files), "loaders")
        rows.append(row(tally, started, "unnoticed", "changed by a refusal", "not finite"))
        say(rows[-1].outcome)
        started = time.monotonic()
        judge = partial(commands.judge_options, o.seed)
        rows.append(row(fuzz.run(judge, lambda _: "options", range(lines), "options"), started))
        say(rows[-1].outcome)
        started = time.monotonic()
        judge = commands.runner(root, o.seed)
        limits = {"limit": commands.LIMIT, "chunk": 20}
        tally = fuzz.run(judge, lambda _: "python -m train", range(runs), "whole runs", **limits)
        rows.append(row(tally, started))
        say(rows[-1].outcome)
    return rows


def faults(o: argparse.Namespace, say: Say) -> list[Row]:
    from scripts.trust import faults

    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        found = faults.run(Path(folder), kills_wanted=o.kills, flips=o.flips, seed=o.seed, tell=say)
    seconds = (time.monotonic() - started) / max(1, len(found))
    return [of_tried("faults", one, seconds) for one in found]


def hostile(o: argparse.Namespace, say: Say) -> list[Row]:
    from scripts.trust import hostile

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for one in (partial(hostile.texts, Path(folder)), hostile.pages):
            started = time.monotonic()
            rows.append(of_tried("hostile", one(), time.monotonic() - started))
            say(rows[-1].outcome)
    return rows


def of_tried(part: str, tried: Any, seconds: float) -> Row:
    outcome = ", ".join(f"{kind} {number}" for kind, number in tried.counts.most_common())
    against = len(tried.findings)
    return Row(part, tried.name, tried.total, outcome, against, seconds, tried.findings)


def mutants(o: argparse.Namespace, say: Say) -> list[Row]:
    import torch  # noqa: F401  # once here, not in each child

    from scripts.trust import mutants

    report = mutants.run(mutants.sample(o.mutants, o.seed), tell=say)
    outcome = (
        f"killed {report.killed} ({report.timeouts} by time), equivalent {report.equivalent}, "
        f"holes {len(report.holes)}: {100 * report.share:.1f} %"
    )
    against = len(report.stale) + (len(report.holes) if report.share < LEAST_KILLED else 0)
    findings = report.holes + [{"stale entry of equivalent.json": entry} for entry in report.stale]
    return [Row("mutants", "lib", report.mutants, outcome, against, report.seconds, findings)]


def table(rows: Sequence[Row]) -> str:
    lines = [
        "| part | what | tried | outcome | against the bar | s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        against = f"**{row.against}**" if row.against else "0"
        cells = (row.part, row.name, f"{row.tried:,}", row.outcome, against, f"{row.seconds:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def store(rows: Sequence[Row], o: argparse.Namespace) -> None:
    """Write these parts' rows, in the place of their former ones, with seed and date into the file
    of results, and the table of all parts into the README, between its marks.
    """
    told = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    run = {
        "date": datetime.now(UTC).date().isoformat(),
        "seed": o.seed,
        "python": platform.python_version(),
    }
    new = {row.part for row in rows}
    told = [one for one in told if one["part"] not in new] + [vars(row) | run for row in rows]
    told.sort(key=lambda one: PARTS.index(one["part"]))
    RESULTS.write_text(json.dumps(told, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    names = [one.name for one in fields(Row)]
    kept = [Row(**{name: one[name] for name in names}) for one in told]
    days = "; ".join(
        dict.fromkeys(
            f"{one['part']}: {one['date']}, seed {one['seed']}, Python {one['python']}"
            for one in told
        )
    )
    minutes = sum(row.seconds for row in kept) / 60
    head = f"{days}. Together {minutes:.0f} minutes.\n\n"
    README.write_text(f"{before}{BEGIN}\n{head}{table(kept)}\n{END}{after}", encoding="utf-8")


def in_a_child(part: str, arguments: Sequence[str]) -> list[Row]:
    """Each part in a process of its own: what one imports does not meet the next."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.json"
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                o = options(arguments)
                rows = PART[part](o, lambda line: print(f"{part}: {line}", flush=True))
                path.write_text(json.dumps([vars(row) for row in rows]), encoding="utf-8")
                status = 0
            except Exception as error:
                print(f"{part}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        os.waitpid(pid, 0)
        if not path.exists():
            return [Row(part, "the part itself", 0, "did not come to its end", 1, 0.0)]
        return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


PART: dict[str, Callable[[argparse.Namespace, Say], list[Row]]] = {
    "mutants": mutants,
    "fuzz": fuzz,
    "faults": faults,
    "hostile": hostile,
}


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make trust", description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; may repeat")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=INPUTS, help="of the fuzz")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--flips", type=int, default=FLIPS, help="of each format")
    parser.add_argument("--mutants", type=int, default=MUTANTS)
    return parser.parse_args(arguments)


def full(part: str, o: argparse.Namespace) -> bool:
    """Whether this is a run of the part whose rows are kept: at least in its full size."""
    sizes = {
        "mutants": [(o.mutants, MUTANTS)],
        "fuzz": [(o.inputs, INPUTS)],
        "faults": [(o.kills, KILLS), (o.flips, FLIPS)],
        "hostile": [],
    }
    return all(given >= least for given, least in sizes[part])


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    o = options(arguments)
    started = time.monotonic()
    rows = [row for part in o.only or PARTS for row in in_a_child(part, arguments)]
    for row in rows:
        for finding in row.findings[:40]:
            print(f"{row.name}: {json.dumps(finding, ensure_ascii=True)[:400]}")
    print(f"\nseed {o.seed}, {(time.monotonic() - started) / 60:.1f} minutes\n\n{table(rows)}")
    short = {row.part for row in rows if not row.tried or "left out" in row.outcome}
    if kept := [row for row in rows if row.part not in short and full(row.part, o)]:
        store(kept, o)
    return int(any(row.against for row in rows))


if __name__ == "__main__":
    sys.exit(main())

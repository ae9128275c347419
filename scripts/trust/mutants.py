"""Change the library at random places, one at a time, and see whether its tests notice.

Each mutant is one change of one file of `lib`, made in memory: a comparison, an operator, a
constant or a default turned into another one, a result into None, a statement or a keyword left
out. Types, docstrings, the words of messages and the `strict` of zip, a mere safeguard, stay.

A mutant runs against those tests of tests/lib that execute the changed line (of a definition's
head: its body), the module's own tests first, the quickest first, up to the first that fails. All
happens in children that fork from a process with torch imported. `equivalent.json` names the
mutants that change nothing, with the reason, by their source text.
"""

import ast
import hashlib
import importlib
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

import coverage
import pytest

from scripts.trust import watched

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.json")
LIMIT = 240.0  # seconds of the processor for all tests of one mutant
TIMEOUT = 60  # seconds by the clock for one test; a busy machine needs some
MEMORY = 4 << 30
SHARES = 4  # parts of the tests, for the map
COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
}  # fmt: skip
HEADS = (ast.FunctionDef, ast.ClassDef)


class Span(NamedTuple):
    """From line and column to line and column, in bytes, as ast counts."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Mutant:
    """One change: of which file, where, from what to what; `text` is its first line."""

    file: str
    span: Span
    before: str
    after: str
    text: str
    where: str  # the class and function around it
    head: tuple[int, int] | None  # lines of the body, if the change is in a definition's head

    @property
    def key(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in ("file", "where", "text", "before", "after")}

    def apply(self, source: str) -> str:
        lines = source.encode().splitlines(keepends=True)
        s = self.span
        first, last = lines[s.line - 1][: s.column], lines[s.end_line - 1][s.end_column :]
        lines[s.line - 1 : s.end_line] = [first + self.after.encode() + last]
        return b"".join(lines).decode()


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Every mutant of one file."""
    found: list[Mutant] = []
    around: list[str] = []
    lines = source.splitlines()

    def add(node: ast.AST, after: str, head: tuple[int, int] | None) -> None:
        span = Span(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        before = ast.get_source_segment(source, node) or ""
        text = lines[span.line - 1].strip()
        where = ".".join(around)
        found.append(Mutant(file, span, " ".join(before.split()), after, text, where, head))

    def visit(node: ast.AST, head: tuple[int, int] | None) -> None:
        if isinstance(node, HEADS):
            around.append(node.name)
            visit_inside(node, head)
            around.pop()
        else:
            visit_inside(node, head)

    def visit_inside(node: ast.AST, head: tuple[int, int] | None) -> None:
        for after in _changes(node):
            add(node, after, head)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "type_comment"):
                continue
            inside = head
            if isinstance(node, ast.FunctionDef):
                body = (node.body[0].lineno, node.end_lineno or node.lineno)
                inside = body if name == "args" else None
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _left_out(child):
                    visit(child, inside)

    visit(ast.parse(source), None)
    return found


def _left_out(node: ast.AST) -> bool:
    """Docstrings, overloads, imports, messages of errors (f-strings), and types."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.keyword) and node.arg == "strict":
        return True
    if isinstance(node, ast.FunctionDef):
        return any(getattr(one, "id", "") == "overload" for one in node.decorator_list)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript):
        return getattr(node.value.value, "id", "") in ("Callable", "Iterable")
    return isinstance(
        node, ast.Import | ast.ImportFrom | ast.JoinedStr | ast.AnnAssign | ast.Assert
    ) and not (isinstance(node, ast.AnnAssign) and node.value is not None)


def _changes(node: ast.AST) -> Iterator[str]:
    """What may stand in the place of this node."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            ops = [*node.ops]
            ops[at] = COMPARISONS[type(operator)]()
            yield f"({ast.unparse(ast.Compare(node.left, ops, node.comparators))})"
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        text = node.left.value if isinstance(node.left, ast.Constant) else None
        if not isinstance(text, str):
            other = OPERATORS[type(node.op)]()
            yield f"({ast.unparse(ast.BinOp(node.left, other, node.right))})"
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"({ast.unparse(ast.BoolOp(other, node.values))})"
    elif isinstance(node, ast.UnaryOp):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant):
        yield from _other_constants(node.value)
    elif isinstance(node, ast.Return) and node.value is not None:
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "return None"
    elif isinstance(node, ast.Expr | ast.AugAssign | ast.Raise) or (
        isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    ):
        yield "pass"
    elif isinstance(node, ast.Break):
        yield "continue"
    elif isinstance(node, ast.Continue):
        yield "break"
    elif isinstance(node, ast.Call):
        for at, keyword in enumerate(node.keywords):
            if keyword.arg not in (None, "strict"):
                rest = node.keywords[:at] + node.keywords[at + 1 :]
                yield ast.unparse(ast.Call(node.func, node.args, rest))
        name = getattr(node.func, "id", "")
        if name in ("min", "max"):
            other = ast.Name({"min": "max", "max": "min"}[name])
            yield ast.unparse(ast.Call(other, node.args, node.keywords))
    elif isinstance(node, ast.IfExp) and not isinstance(node.body, ast.JoinedStr):
        yield f"({ast.unparse(ast.IfExp(node.test, node.orelse, node.body))})"


def _other_constants(value: Any) -> Iterator[str]:
    if isinstance(value, bool):
        yield repr(not value)
    elif isinstance(value, int):
        yield repr(value + 1)
        if value > 0:
            yield repr(value - 1)
    elif isinstance(value, float):
        yield repr(value * 2 + 0.5)
    elif isinstance(value, str) and " " not in value:  # a text with spaces is part of a message
        yield repr(value + "x")


def sample(number: int, seed: int) -> list[Mutant]:
    """This many mutants of the library, each with the same chance.

    They are those with the smallest digests of seed and text: a change elsewhere in the library
    leaves nearly all of them as they were.
    """
    every = []
    for path in sorted((ROOT / "book" / "lib").glob("*.py")):
        file = path.relative_to(ROOT).as_posix()
        every += mutants_of(file, path.read_text(encoding="utf-8"))

    def place(mutant: Mutant) -> str:
        text = repr((seed, mutant.key | {"where": ""}))
        return hashlib.sha256(text.encode()).hexdigest()

    return sorted(every, key=place)[:number]


# --- which test runs which line -------------------------------------------------------------------


class Watch:
    """A plugin of pytest that tells coverage which test runs, and how long each takes."""

    def __init__(self, measure: coverage.Coverage):
        self.measure = measure
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.measure.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.seconds[report.nodeid] = float("nan")


class Chosen:
    """A plugin of pytest that runs these tests alone, in this order, and keeps which one failed."""

    def __init__(self, tests: list[str]):
        self.order = {test: place for place, test in enumerate(tests)}
        self.killer = ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.order),
            key=lambda item: self.order[item.nodeid],
        )

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.killer:
            self.killer = report.nodeid


def files_of(folder: str, tests: list[str]) -> list[str]:
    """The files that hold these tests; all of a folder that lies outside the repository."""
    inside = Path(ROOT, folder).is_relative_to(ROOT)
    names = {test.split("::")[0] for test in tests} if inside else {folder}
    return sorted(str(ROOT / name) for name in names)


def run_tests(files: list[str], plugin: Any, *options: str) -> int:
    """Run pytest here, in this process."""
    with tempfile.TemporaryDirectory() as temporary:
        quiet = [
            "-q",
            "--assert=plain",
            "-p",
            "no:cacheprovider",
            f"--basetemp={temporary}/t",
            "--no-header",
        ]
        return int(pytest.main([*quiet, f"--timeout={TIMEOUT}", *options, *files], [plugin]))


@dataclass
class Map:
    """Which tests run each line of each file, the seconds of each test, and what they import."""

    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]
    imports: list[str]

    def add(
        self, tests: dict[str, dict[str, list[str]]], seconds: dict[str, float], imports: list[str]
    ) -> None:
        """Join what some of the files gave; JSON's keys are texts."""
        for file, lines in tests.items():
            mine = self.tests.setdefault(file, {})
            for line, names in lines.items():
                mine[int(line)] = [*mine.get(int(line), ()), *names]
        self.seconds |= seconds
        self.imports += [name for name in imports if name not in self.imports]

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that execute the changed line: the module's own first, the quickest first."""
        lines = self.tests.get(mutant.file, {})
        first, last = mutant.head or (mutant.span.line, mutant.span.end_line)
        wanted = {test for at in range(first, last + 1) for test in lines.get(at, ())}
        own = f"test_{Path(mutant.file).stem}"
        if not wanted:  # run while tests are collected: by a model that a file of tests makes once
            wanted = {test for test in self.seconds if own in test}
            if mutant.head is None and not self._in_function(mutant):  # run by the import
                wanted |= {test for tests in lines.values() for test in tests}
        return sorted(wanted, key=lambda test: (own not in test, self.seconds.get(test, 0.0)))

    @staticmethod
    def _in_function(mutant: Mutant) -> bool:
        tree = ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))
        return any(
            isinstance(node, ast.FunctionDef)
            and node.body[0].lineno <= mutant.span.line <= (node.end_lineno or 0)
            for node in ast.walk(tree)
        )


def make_map(folder: str) -> Map:
    """Run all tests of a folder once, in children, and remember which lines each one runs."""
    place = ROOT / folder
    files = sorted(map(str, place.rglob("test_*.py"))) if place.is_dir() else [str(place)]
    shares = [share for share in (files[at::SHARES] for at in range(SHARES)) if share]
    found = Map({}, {}, [])
    with tempfile.TemporaryDirectory() as temporary:

        def measure(number: int) -> int:
            status, *told = measured(shares[number])
            Path(temporary, f"{number}.json").write_text(json.dumps(told), encoding="utf-8")
            return status

        for outcome in watched.each(measure, range(len(shares)), limit=1200.0, chunk=1):
            if outcome.how != "done" or outcome.value != 0:
                raise ValueError(
                    f"expected the tests in {folder} to pass before any mutant, got {outcome}; run "
                    f"them: python -m pytest {folder}"
                )
            told = Path(temporary, f"{outcome.number}.json").read_text(encoding="utf-8")
            found.add(*json.loads(told))
    return found


def measured(files: list[str]) -> tuple[int, dict[str, dict[int, list[str]]], Any, list[str]]:
    """Run these files' tests: pytest's status, who runs which line, the seconds, the imports."""
    own = coverage.Coverage(data_file=None, include=[f"{ROOT}/book/lib/*"], config_file=False)
    watch = Watch(own)
    own.start()
    status = run_tests(files, watch, "--timeout=0")
    own.stop()
    data = own.get_data()
    tests = {
        Path(file).relative_to(ROOT).as_posix(): {
            line: [name for name in names if name]
            for line, names in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    ours = ("lib", "kit", "tasks", "train", "tests", "conftest", "scripts", "test_", "__")
    return status, tests, watch.seconds, [n for n in sys.modules if not n.startswith(ours)]


# --- one mutant -----------------------------------------------------------------------------------


def put_in_place(mutant: Mutant) -> None:
    """From now on, whoever imports the file in this process gets the mutant."""
    path = ROOT / mutant.file
    changed = mutant.apply(path.read_text(encoding="utf-8")).encode()
    get_data = SourceFileLoader.get_data

    def mutated(self: SourceFileLoader, wanted: Any) -> bytes:
        if Path(wanted) == path:
            return changed
        if str(wanted).endswith(".pyc") and Path(wanted).name.startswith(f"{path.stem}."):
            raise OSError("the mutant has no byte code yet")
        return get_data(self, wanted)

    sys.dont_write_bytecode = True
    SourceFileLoader.get_data = mutated  # type: ignore[method-assign]  # in this child alone


def judge(mutant: Mutant, tests: list[str], folder: str = "tests/lib") -> list[str]:
    """Run the tests on the mutant: who killed it, or that nobody did."""
    put_in_place(mutant)
    own = [test for test in tests if Path(mutant.file).stem in test.split("::")[0]]
    others = [test for test in tests if test not in set(own)]
    for part in (own, others):
        if part:
            chosen = Chosen(part)
            status = run_tests(files_of(folder, part), chosen, "-x")
            if status in (pytest.ExitCode.NO_TESTS_COLLECTED, pytest.ExitCode.USAGE_ERROR):
                raise LookupError(f"expected to find the tests {part[:3]}, found none")
            if status != 0:
                return ["killed", chosen.killer or f"status {status}"]
    return ["survived", f"{len(tests)} tests"]


@dataclass
class Report:
    """What became of the mutants."""

    mutants: int
    killed: int
    timeouts: int
    equivalent: int
    holes: list[dict[str, Any]]
    seconds: float
    stale: list[dict[str, str]]  # entries of equivalent.json whose source is gone

    @property
    def share(self) -> float:
        """Of the mutants that are not equivalent, how many were killed."""
        return self.killed / max(1, self.mutants - self.equivalent)


def known_equivalent() -> list[dict[str, str]]:
    return json.loads(EQUIVALENT.read_text(encoding="utf-8")) if EQUIVALENT.exists() else []


def run(
    chosen: list[Mutant],
    folder: str = "tests/lib",
    *,
    equivalent: list[dict[str, str]] | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Report:
    """Judge these mutants in children; no lib may be imported here yet."""
    started = time.monotonic()
    known = known_equivalent() if equivalent is None else equivalent
    tests = make_map(folder)
    tell(f"{len(tests.seconds)} tests take {sum(tests.seconds.values()):.0f} s")
    for name in tests.imports:
        with suppress(Exception):
            importlib.import_module(name)
    work = [tests.of(mutant) for mutant in chosen]

    def one(number: int) -> list[str]:
        if not work[number]:
            return ["survived", "no test runs this line"]
        return judge(chosen[number], work[number], folder)

    report = Report(len(chosen), 0, 0, 0, [], 0.0, [])
    outcomes = watched.each(one, range(len(chosen)), limit=LIMIT, memory=MEMORY, chunk=1)
    for done, outcome in enumerate(outcomes, start=1):
        if done % 50 == 0:
            tell(f"{done} of {len(chosen)}")
        mutant = chosen[outcome.number]
        if outcome.how == "crash" and "LookupError" in outcome.value:
            raise ValueError(outcome.value)
        what, why = outcome.value if outcome.how == "done" else ("killed", outcome.how)
        if what == "killed":
            report.killed += 1
            report.timeouts += why == "hang"
            continue
        if any(mutant.key.items() <= entry.items() for entry in known):
            report.equivalent += 1
            continue
        report.holes.append({**mutant.key, "line": mutant.span.line, "why": why})
        tell(f"hole: {mutant.file}:{mutant.span.line} {mutant.before} -> {mutant.after} ({why})")
    sources = {m.file: (ROOT / m.file).read_text(encoding="utf-8") for m in chosen}
    report.stale = [
        entry
        for entry in known
        if entry["file"] in sources and entry["text"] not in sources[entry["file"]]
    ]
    report.seconds = time.monotonic() - started
    return report

"""Rules for the whole house: what imports what, a small library that chapters use and show, a room
for each chapter with all that is its own, tests beside every module. Each rule is a function of the
repository's folder that lists what is wrong or misplaced.

The rules are held against the book, and each against a small house that breaks it.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts import house
from tests.paths import ROOT

FILES, LINES_OF_CODE, IN_ALL = range(12, 17), 400, 2100
MOST_VALIDATION = 0.12  # of the lines of code
LEAST_CHAPTERS = 3
NUMBERED = re.compile(r"(^|_)(ch|chap|chapters?)_?\d|^_?\d", re.IGNORECASE)
CHAPTER_LINE = re.compile(r"^\s*Chapters?: *\d", re.MULTILINE)
# What the room of a chapter may hold, by paths within it.
KINDS = re.compile(
    r"\w+\.(py|js|css|toml)|(words|quoted)\.yml|run\.json|parts/\w+\.js|tests/(browser/)?\w+\.py"
    r"|experiments/\w+\.py|results/\w+\.json|figures/[0-9a-f]{64}\.svg"
)
NEEDED = ("answers.py", "words.yml")
Rule = Callable[[Path], list[str]]
RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


def definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """The public functions and classes of a module; of overloads, the one that is run."""
    found = (n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef))
    last = {node.name: node for node in found if not node.name.startswith("_")}
    yield from last.values()


def library(root: Path) -> dict[str, Path]:
    """The modules of lib, without the package itself."""
    return {name: path for name, path in house.modules(root).items() if name.startswith("lib.")}


def settings() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]


@rule
def contracts_hold(root: Path) -> list[str]:
    """Modules import what the contracts in pyproject.toml let them; import-linter checks it."""
    command = Path(sys.executable).parent / "lint-imports"
    checked = subprocess.run(
        [command, "--no-cache", "--no-logo", "--config", ROOT / "pyproject.toml"],
        env={**os.environ, "PYTHONPATH": str(root / "book"), "COLUMNS": "1000"},
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if checked.returncode == 0:
        return []
    told = " ".join(checked.stdout.split())
    circles = re.findall(r"No cycles are allowed in (\w+)", told)
    arrows = re.findall(r"(\S+) -> (\S+)", told)
    return [
        *(f"{room} imports in a circle" for room in circles),
        *(f"{one} imports {other}" for one, other in arrows),
    ] or [checked.stdout + checked.stderr]


@rule
def rooms_are_under_contract(root: Path) -> list[str]:
    contracts = settings()["importlinter"]
    held = set(contracts["root_packages"])
    book = root / "book"
    rooms = {path.relative_to(book).parts[0] for path in book.rglob("*.py")}
    return [
        *(f"book/{room} is in no contract of pyproject.toml" for room in sorted(rooms - held)),
        *(f"house.ROOMS lacks {room}" for room in sorted(held ^ set(house.ROOMS))),
    ]


@rule
def notebooks_import_shared_rooms_and_their_own(root: Path) -> list[str]:
    graph = house.import_graph(root)
    return [
        f"{path.name} imports {other}"
        for name, path in house.chapters(root).items()
        for other in sorted(graph[path.name])
        if not house.within(other, (*house.SHARED, f"chapters.{name}"))
    ]


@rule
def library_is_small(root: Path) -> list[str]:
    """In code: blank lines, comments, docstrings and sentences in messages are free."""
    files = sorted((root / "book" / "lib").rglob("*.py"))
    problems = []
    if len(files) not in FILES:
        problems.append(f"lib has {len(files)} files, not {FILES.start} to {FILES.stop - 1}")
    code = {path: house.lines_of_code(path) for path in files}
    if (total := sum(code.values())) > IN_ALL:
        problems.append(f"lib has {total} lines of code, more than {IN_ALL}")
    checks = sum(map(house.lines_that_validate, files))
    if checks > MOST_VALIDATION * total:
        problems.append(
            f"{checks} of {total} lines of code in lib only validate, more than "
            f"{MOST_VALIDATION:.0%}: let go what torch refuses in words of its own"
        )
    for path, lines in code.items():
        if lines > LINES_OF_CODE:
            problems.append(f"lib/{path.name} has {lines} lines of code, more than {LINES_OF_CODE}")
    return problems


@rule
def library_serves_several(root: Path) -> list[str]:
    return [
        f"{module} is used by {len(in_chapters)} chapters ({', '.join(in_chapters)}) and by no "
        "other module of lib: its place is their room"
        for module, (in_chapters, others) in house.users(root).items()
        if len(in_chapters) < LEAST_CHAPTERS and not any(o.startswith("lib.") for o in others)
    ]


@rule
def modules_say_what_they_are(root: Path) -> list[str]:
    return [
        f"{name} has no docstring"
        for name, path in house.modules(root).items()
        if not ast.get_docstring(house.tree_of(path))
    ]


def has_tests(path: Path) -> bool:
    return any(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for node in ast.walk(house.tree_of(path))
    )


def place_of_tests(place: Path) -> Path:
    """The folder with the tests of a module, by its path in the book."""
    if place.parts[0] == "chapters":
        return Path("book", *place.parts[:2], "tests")
    return Path("tests", place.parent)


@rule
def modules_have_tests_beside_them(root: Path) -> list[str]:
    """A module x has test_x.py or test_x_*.py in its chapter's tests, or in its room under tests.

    The tests of build are named after what a page shows, those of experiments after their records.
    """
    problems = []
    for module, path in house.modules(root).items():
        place = path.relative_to(root / "book")
        folder, name = place_of_tests(place), place.stem.strip("_")
        found = (root / folder).glob(f"test_{name}*.py")
        named = (f for f in found if re.fullmatch(rf"test_{name}(_\w+)?", f.stem))
        needed = path.name != "__init__.py" and house.is_shown(module)
        if needed and place.parts[0] != "build" and not any(map(has_tests, named)):
            problems.append(f"missing: {folder}/test_{name}.py for book/{place}")
    return problems


@rule
def public_names_are_explained(root: Path) -> list[str]:
    return [
        f"{module}.{node.name} has no docstring"
        for module, path in library(root).items()
        for node in definitions(house.tree_of(path))
        if not ast.get_docstring(node)
    ]


@rule
def public_names_are_shown(root: Path) -> list[str]:
    text = "\n".join(
        "".join(cell["source"])
        for path in house.chapters(root).values()
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
    )
    words = set(re.findall(r"\w+", text))
    return [
        f"{module}.{node.name} is mentioned in no chapter"
        for module, path in library(root).items()
        for node in definitions(house.tree_of(path))
        if node.name not in words
    ]


@rule
def names_are_concepts(root: Path) -> list[str]:
    """A chapter may move; what it teaches keeps its name, and its docstrings name no number."""
    problems = []
    for name, path in house.modules(root).items():
        problems += [f"{name}: {part}" for part in name.split(".") if NUMBERED.search(part)]
        for node in ast.walk(house.tree_of(path)):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                continue
            own = getattr(node, "name", "the module")
            if NUMBERED.search(own):
                problems.append(f"{name}: {own}")
            if CHAPTER_LINE.search(ast.get_docstring(node) or ""):
                problems.append(f"{name}: {own} names a chapter")
    return problems


@rule
def library_prints_nothing(root: Path) -> list[str]:
    return [
        f"{name}, line {node.lineno}: print"
        for name, path in library(root).items()
        for node in ast.walk(house.tree_of(path))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]


def used_names(tree: ast.Module) -> set[str]:
    """Every name that a module reads, and every word of the strings in its annotations."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            for part in ast.walk(annotation) if annotation else ():
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    names |= set(re.findall(r"\w+", part.value))
    return names


@rule
def nothing_is_passed_on(root: Path) -> list[str]:
    """No shim: a name is imported where it is used, from where it stands."""
    problems = []
    for name, path in house.modules(root).items():
        tree = house.tree_of(path)
        used = used_names(tree)
        for node in ast.walk(tree):
            targets = node.targets if isinstance(node, ast.Assign) else ()
            if any(getattr(target, "id", "") == "__all__" for target in targets):
                problems.append(f"{name} has an __all__")
            if isinstance(node, ast.Import | ast.ImportFrom):
                problems += [
                    f"{name} imports {alias.name} and does not use it"
                    for alias in node.names
                    if (alias.asname or alias.name.split(".")[0]) not in used
                ]
    return problems


@rule
def chapters_have_their_rooms(root: Path) -> list[str]:
    names = set(house.chapters(root))
    rooms = {path.name for path in (root / "book" / "chapters").iterdir() if any(path.glob("*.py"))}
    files = (Path("book/chapters", name, file) for name in sorted(names) for file in NEEDED)
    return [
        *(f"missing: {path}" for path in files if not (root / path).exists()),
        *(f"missing: a chapter for book/chapters/{name}" for name in sorted(rooms - names)),
    ]


@rule
def rooms_hold_what_is_known(root: Path) -> list[str]:
    """Each file of a chapter's room is of a kind that has its place there; none has a number."""
    problems = []
    for path in sorted((root / "book" / "chapters").glob("*/**/*")):
        place = path.relative_to(root)
        within = Path(*place.parts[3:])
        if path.is_dir() or "__pycache__" in place.parts:
            continue
        if not KINDS.fullmatch(within.as_posix()):
            problems.append(f"{place} is of no kind that a chapter's room holds")
        elif place.parts[3] != "figures" and any(map(NUMBERED.search, place.parts)):
            problems.append(f"{place} has the number of a chapter")
    return problems


@rule
def built_pages_are_read_after_the_build(root: Path) -> list[str]:
    """The unit tests run before the book is built: only browser folders may ask for its pages."""
    problems = []
    for folder in ("tests", "book/chapters"):
        for path in sorted((root / folder).rglob("test_*.py")):
            marked = any(
                isinstance(node, ast.Attribute)
                and (node.attr == "built" and ast.unparse(node.value).endswith("mark"))
                for node in ast.walk(house.tree_of(path))
            )
            if marked and path.parent.name != "browser":
                place = path.relative_to(root)
                problems.append(
                    f"{place} reads the built book: its place is {place.parent}/browser"
                )
    return problems


each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)


@each_rule
def test_book_keeps_the_rule(rule):
    problems = rule(ROOT)
    assert not problems, "; ".join(problems)


# --- a small house ------------------------------------------------------------------------------

NAMES = ["attention", "masks", "layers", "data", "loss", "decoding"]
NAMES += ["metrics", "cache", "words", "scores", "norm", "seeds"]
CHAPTERS = ("masking", "training", "decoding")
TEST = '"""Tests."""\n\n\ndef test_it():\n    assert True\n'


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_notebook(path: Path, code: str) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# About ", "*".join(NAMES)]},
        {"cell_type": "code", "source": code.splitlines(keepends=True)},
    ]
    write(path, json.dumps({"cells": cells}))


@pytest.fixture
def small(tmp_path):
    """A house of twelve files in lib, three chapters and a command line, that keeps every rule."""
    book = tmp_path / "book"
    for name in NAMES[1:]:
        write(book / f"lib/{name}.py", f'"""M."""\n\n\ndef {name}():\n    """It."""\n')
        write(tmp_path / f"tests/lib/test_{name}.py", TEST)
    attention = (
        '"""M."""\n\nimport math\n\nfrom lib.masks import masks\n\n\n'
        'def attention():\n    """It."""\n    return masks(math.pi)\n'
    )
    write(book / "lib/attention.py", attention)
    write(tmp_path / "tests/lib/test_attention_cache.py", TEST)
    for room in house.ROOMS[1:-1]:
        write(book / room / "__init__.py", '"""A room."""\n')
    for place, imports in (
        ("drawing/axes", "from lib.masks import masks"),
        ("chapters/masking/checks", "from drawing.axes import axes\nfrom lib import masks"),
        ("chapters/training/plots", "import drawing.axes\nimport lib.loss"),
        ("chapters/decoding/plots", "from lib.decoding import decoding"),
        ("train/__main__", "import math"),
        ("train/options", "from lib.data import data"),
    ):
        names = re.findall(r"import (\w+)", imports)
        write(book / f"{place}.py", f'"""M."""\n\n{imports}\n\naxes = {", ".join(names)}\n')
        folder, name = place_of_tests(Path(place)), Path(place).name.strip("_")
        write(tmp_path / folder / f"test_{name}.py", TEST)
    for number, name in enumerate(CHAPTERS, start=1):
        code = "\n".join(f"from lib.{module} import {module}" for module in NAMES)
        more = "\nimport train.options\nfrom chapters.training import plots" * (name == "training")
        write_notebook(book / f"{number:02}_{name}.ipynb", code + more)
        write(book / "chapters" / name / "answers.py", '"""M."""\n\nRIGHT: dict = {}\n')
        write(book / "chapters" / name / "words.yml", "here: in the middle\n")
        write(book / "chapters" / name / "tests/browser/test_page.py", "mark.built\n")
    return tmp_path


def append(path: str, text: str) -> Callable[[Path], None]:
    """Add a line to a file of the house, or begin the file with it."""

    def spoil(root: Path) -> None:
        old = (root / path).read_text(encoding="utf-8") if (root / path).exists() else '"""M."""\n'
        write(root / path, f"{old}\n{text}\n")

    return spoil


def remove(*paths: str) -> Callable[[Path], None]:
    def spoil(root: Path) -> None:
        for path in paths:
            (root / path).unlink()

    return spoil


def rewrite(path: str, text: str) -> Callable[[Path], None]:
    return lambda root: write(root / path, text)


def notebook(path: str, code: str) -> Callable[[Path], None]:
    return lambda root: write_notebook(root / path, code)


def unused_in(*chapters: str) -> Callable[[Path], None]:
    """Let these chapters do without lib.seeds."""

    def spoil(root: Path) -> None:
        for path in chapters:
            text = (root / path).read_text(encoding="utf-8")
            write(root / path, text.replace("from lib.seeds import seeds", "seeds = 0"))

    return spoil


@each_rule
def test_small_house_keeps_the_rule(rule, small):
    assert rule(small) == []


SPOILT = [
    (
        built_pages_are_read_after_the_build,
        append("book/chapters/masking/tests/test_checks.py", "pytestmark = pytest.mark.built"),
        "book/chapters/masking/tests/test_checks.py reads the built book: its place is "
        "book/chapters/masking/tests/browser",
    ),
    (
        built_pages_are_read_after_the_build,
        append("tests/lib/test_masks.py", "pytestmark = pytest.mark.built"),
        "tests/lib/test_masks.py reads the built book",
    ),
    *[
        (contracts_hold, append(f"book/{path}", text), message)
        for path, text, message in (
            ("lib/masks.py", "import drawing.axes", "lib.masks imports drawing.axes"),
            (
                "lib/masks.py",
                "def f():\n    from train import options",
                "lib.masks imports train.options",
            ),
            ("lib/masks.py", "import tests.paths", "lib.masks imports tests"),
            ("lib/masks.py", "from lib import attention", "lib imports in a circle"),
            ("tasks/digits.py", "import train.options", "tasks.digits imports train.options"),
            ("train/options.py", "from drawing import axes", "train.options imports drawing.axes"),
            ("widgets/base.py", "from drawing import axes", "widgets.base imports drawing.axes"),
            ("widgets/base.py", "import engine", "widgets.base imports engine"),
            (
                "drawing/axes.py",
                "from chapters.masking import checks",
                "drawing.axes imports chapters.masking.checks",
            ),
            (
                "build/pages.py",
                "from chapters.masking import checks",
                "build.pages imports chapters.masking.checks",
            ),
            (
                "chapters/masking/checks.py",
                "from ..training import plots",
                "chapters.masking.checks imports chapters.training.plots",
            ),
            (
                "chapters/masking/experiments/seeds.py",
                "import chapters.training.plots",
                "chapters.masking.experiments.seeds imports chapters.training.plots",
            ),
            (
                "chapters/masking/tests/test_checks.py",
                "import chapters.training.plots",
                "chapters.masking.tests.test_checks imports chapters.training.plots",
            ),
            ("chapters/masking/checks.py", "import scripts.house", "checks imports scripts"),
        )
    ],
    (
        rooms_are_under_contract,
        append("book/sounds/waves.py", "x = 1"),
        "book/sounds is in no contract",
    ),
    (
        notebooks_import_shared_rooms_and_their_own,
        notebook("book/01_masking.ipynb", "from chapters.training import plots"),
        "01_masking.ipynb imports chapters.training.plots",
    ),
    (
        notebooks_import_shared_rooms_and_their_own,
        notebook("book/01_masking.ipynb", 'import_module("build.pages")'),
        "01_masking.ipynb imports build.pages",
    ),
    (library_is_small, remove("book/lib/seeds.py"), "lib has 11 files, not 12 to 16"),
    (
        library_is_small,
        append("book/lib/seeds.py", "x = 1\n" * 401),
        "lib/seeds.py has 402 lines of code, more than 400",
    ),
    (
        library_is_small,
        lambda root: [append(f"book/lib/{name}.py", "x = 1\n" * 200)(root) for name in NAMES],
        "lib has 2415 lines of code, more than 2100",
    ),
    (
        library_is_small,
        append("book/lib/seeds.py", "if seeds:\n    raise ValueError(\n        'no'\n    )\n" * 2),
        "4 of 19 lines of code in lib only validate, more than 12%",
    ),
    (
        library_serves_several,
        unused_in("book/01_masking.ipynb"),
        "lib.seeds is used by 2 chapters (training, decoding)",
    ),
    (
        modules_say_what_they_are,
        rewrite("book/train/options.py", "x = 1\n"),
        "train.options has no docstring",
    ),
    (
        modules_have_tests_beside_them,
        remove("tests/lib/test_seeds.py", "book/chapters/masking/tests/test_checks.py"),
        "missing: tests/lib/test_seeds.py for book/lib/seeds.py",
    ),
    (
        modules_have_tests_beside_them,
        rewrite("book/chapters/masking/tests/test_checks.py", "x = 1\n"),
        "missing: book/chapters/masking/tests/test_checks.py for book/chapters/masking/checks.py",
    ),
    (
        modules_have_tests_beside_them,
        remove("tests/train/test_main.py"),
        "missing: tests/train/test_main.py for book/train/__main__.py",
    ),
    (
        public_names_are_explained,
        append("book/lib/seeds.py", "def norm():\n    pass"),
        "lib.seeds.norm has no docstring",
    ),
    (
        public_names_are_shown,
        append("book/lib/seeds.py", 'def unseen():\n    """It."""'),
        "lib.seeds.unseen is mentioned in no chapter",
    ),
    (
        names_are_concepts,
        append("book/chapters/masking/chapter6.py", "x = 1"),
        "chapters.masking.chapter6: chapter6",
    ),
    (
        names_are_concepts,
        append("book/lib/seeds.py", "def plot_ch06():\n    pass"),
        "lib.seeds: plot_ch06",
    ),
    (
        names_are_concepts,
        append("book/lib/seeds.py", 'def f():\n    """It.\n\n    Chapter: 3\n    """'),
        "lib.seeds: f names a chapter",
    ),
    (
        library_prints_nothing,
        append("book/lib/seeds.py", "def f():\n    print(1)"),
        "lib.seeds, line 8: print",
    ),
    (
        nothing_is_passed_on,
        append("book/lib/__init__.py", "from lib.masks import masks"),
        "lib imports masks and does not use it",
    ),
    (
        nothing_is_passed_on,
        append("book/lib/seeds.py", "from lib.masks import masks as masks"),
        "lib.seeds imports masks and does not use it",
    ),
    (
        nothing_is_passed_on,
        append("book/lib/seeds.py", '__all__ = ["seeds"]'),
        "lib.seeds has an __all__",
    ),
    (
        chapters_have_their_rooms,
        remove("book/01_masking.ipynb"),
        "missing: a chapter for book/chapters/masking",
    ),
    (
        chapters_have_their_rooms,
        notebook("book/04_norms.ipynb", ""),
        "missing: book/chapters/norms/answers.py; missing: book/chapters/norms/words.yml",
    ),
    (
        rooms_hold_what_is_known,
        rewrite("book/chapters/masking/notes.md", "What is left to do."),
        "book/chapters/masking/notes.md is of no kind",
    ),
    (
        rooms_hold_what_is_known,
        rewrite("book/chapters/masking/results/table.csv", "1,2"),
        "book/chapters/masking/results/table.csv is of no kind",
    ),
    (
        rooms_hold_what_is_known,
        rewrite("book/chapters/masking/results/06_leaks.json", "{}"),
        "book/chapters/masking/results/06_leaks.json has the number of a chapter",
    ),
]


@pytest.mark.parametrize(
    ("rule", "spoil", "message"),
    SPOILT,
    ids=[f"{r.__name__}-{i}" for i, (r, *_) in enumerate(SPOILT)],
)
def test_spoilt_house_breaks_the_rule(rule, spoil, message, small):
    spoil(small)
    assert message in "; ".join(rule(small))


def test_every_rule_is_seen_to_fail():
    assert {rule for rule, *_ in SPOILT} == set(RULES)


def test_what_is_free_does_not_make_the_library_large(small):
    append("book/lib/seeds.py", "# why\n\n" * 4000)(small)
    assert library_is_small(small) == []


def test_all_that_is_missing_stands_in_one_message(small):
    remove("tests/lib/test_seeds.py", "book/chapters/masking/tests/test_checks.py")(small)
    assert [line.split(" for ")[0] for line in modules_have_tests_beside_them(small)] == [
        "missing: tests/lib/test_seeds.py",
        "missing: book/chapters/masking/tests/test_checks.py",
    ]


def test_a_use_by_another_module_of_lib_is_enough(small):
    unused_in(*(f"book/0{n}_{name}.ipynb" for n, name in enumerate(CHAPTERS, start=1)))(small)
    assert library_serves_several(small)
    append("book/lib/norm.py", "from lib.seeds import seeds\n\nx = seeds")(small)
    assert library_serves_several(small) == []

"""Rules for the whole library: short modules, taught names, nothing printed, tests beside it."""

import ast
import re

import nbformat
import pytest

from tests.paths import BOOK, LIB, lib_definitions

MODULES = sorted(LIB.rglob("*.py"))
LINES = 250
# Tools around the subject: used by chapters, not taught by one.
TOOLS = ("notebook.py", "plots", "checks", "widgets", "train.py", "train_")


def taught() -> list[str]:
    return [
        name
        for name, (path, _) in lib_definitions().items()
        if not str(path.relative_to(LIB)).startswith(TOOLS)
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(LIB)))
def test_module_fits_a_readers_patience(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES
    assert ast.get_docstring(ast.parse(text)), "a module says what it is"
    calls = {
        n.func.id
        for n in ast.walk(ast.parse(text))
        if isinstance(n, ast.Call) and hasattr(n.func, "id")
    }
    assert "print" not in calls


@pytest.mark.parametrize("name", sorted(lib_definitions()))
def test_public_name_has_a_docstring(name):
    _, node = lib_definitions()[name]
    assert ast.get_docstring(node)


@pytest.mark.parametrize("name", sorted(taught()))
def test_name_is_taught_in_the_chapter_it_names(name):
    path, node = lib_definitions()[name]
    match = re.search(r"Chapters?:? (\d+)", ast.get_docstring(node))
    assert match, f"{path.name}: the docstring of {name} names no chapter ('Chapter: 3')"
    number = int(match.group(1))
    chapters = list(BOOK.glob(f"{number:02}_*.ipynb"))
    assert chapters, f"there is no chapter {number}"
    notebook = nbformat.read(chapters[0], as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells)
    assert re.search(rf"\b{name}\b", text), f"chapter {number} does not mention {name}"


def test_every_module_has_its_tests():
    tests = {path.stem for path in (LIB.parent.parent / "tests").rglob("test_*.py")}
    for path in LIB.glob("*.py"):
        if path.stem != "__init__":
            assert f"test_{path.stem}" in tests, f"no tests/unit/test_{path.stem}.py"

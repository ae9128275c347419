"""What the chapters ask: each coding exercise with its stub and with the cell that checks it.

A coding exercise is a cell tagged "exercise" that defines a function or a class, and the next cell
tagged "raises-exception" that names it. Code is compared by its syntax trees, so that neither a
comment nor the form of a line makes two cells different. An exercise that is tagged "processes"
too is not graded: its check starts other processes, which an answer that is graded may not.
"""

import ast
import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BOOK = Path(__file__).resolve().parents[2]
HEADING = re.compile(r"^(?:`{3,}|:{3,})\{exercise\}[ \t]*(.*?)[ \t]*$", re.MULTILINE)
STUB, CHECK, PROCESSES = "exercise", "raises-exception", "processes"  # the tags
LASTING = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Exercise:
    """A coding exercise; its check cell calls `check` with what bears the name `name`."""

    number: str  # as readers see it, such as 3.1
    title: str
    name: str
    check: str
    stub: str
    check_cell: str

    def __str__(self) -> str:
        return f"{self.number} {self.title}"


@dataclass(frozen=True)
class Chapter:
    """A chapter: its coding exercises, and the code of its other cells."""

    stem: str
    exercises: tuple[Exercise, ...]
    code: tuple[str, ...]

    @property
    def room(self) -> str:
        return f"chapters.{self.stem[3:]}"

    @functools.cached_property
    def trees(self) -> frozenset[str]:
        """The code of its cells, those of exercises left out, as `same` compares it."""
        return frozenset(map(same, self.code))

    @functools.cached_property
    def lasting(self) -> list[ast.stmt]:
        """Its imports, functions and classes: what needs no run of the chapter."""
        cells = (ast.parse(code).body for code in self.code)
        return [statement for body in cells for statement in body if isinstance(statement, LASTING)]


def same(code: str) -> str:
    """A text that is the same for the same code."""
    try:
        return ast.dump(ast.parse(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return code.strip()


def is_named(name: str, code: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", code) is not None


def called_with(code: str, name: str) -> str:
    """The function that a check cell calls with the answer."""
    (called,) = (
        node.func.id
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if any(isinstance(given, ast.Name) and given.id == name for given in node.args)
    )
    return called


def read_chapter(path: Path) -> Chapter:
    """The exercises of a chapter's notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    exercises, titles, apart = [], [], set()
    for i, (cell, text) in enumerate(zip(cells, texts, strict=True)):
        if cell["cell_type"] == "markdown":
            titles += HEADING.findall(text)
        if STUB not in cell["metadata"].get("tags", ()):
            continue
        (name,) = (
            node.name
            for node in ast.parse(text).body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        )
        at = next(
            j
            for j in range(i + 1, len(cells))
            if CHECK in cells[j]["metadata"].get("tags", ()) and is_named(name, texts[j])
        )
        apart |= {i, at}
        if PROCESSES in cell["metadata"]["tags"]:
            continue
        number = f"{int(path.stem[:2])}.{len(titles)}"
        called = called_with(texts[at], name)
        exercises.append(Exercise(number, titles[-1], name, called, text, texts[at]))
    code = (
        text
        for i, (cell, text) in enumerate(zip(cells, texts, strict=True))
        if cell["cell_type"] == "code" and i not in apart
    )
    return Chapter(path.stem, tuple(exercises), tuple(code))


@functools.cache
def all_chapters() -> tuple[Chapter, ...]:
    return tuple(map(read_chapter, sorted(BOOK.glob("[0-9]*.ipynb"))))


def chapter_of(code: list[str], file_name: str) -> Chapter | None:
    """The chapter that a notebook was made from; None if nothing tells it.

    What is in the cells tells more than the name of the file, which only decides between equals.
    """
    points = {chapter.stem: likeness(chapter, code, file_name) for chapter in all_chapters()}
    best = max(points.values())
    found = [chapter for chapter in all_chapters() if points[chapter.stem] == best]
    return found[0] if best > 0 and len(found) == 1 else None


def likeness(chapter: Chapter, code: list[str], file_name: str) -> float:
    text = "\n".join(code)
    asked = sum(map(len, clues(chapter, text)))
    kept = len(chapter.trees.intersection(map(same, code)))
    return kept + asked + 0.5 * (chapter.stem in file_name)


def clues(chapter: Chapter, text: str) -> Iterator[list[str]]:
    """The mentions of its room, of its checks, and of what its exercises ask for."""
    yield re.findall(rf"\b{re.escape(chapter.room)}\b", text)
    for exercise in chapter.exercises:
        yield re.findall(rf"\b{exercise.check}\b", text)
        yield re.findall(rf"\b(?:def|class)\s+{exercise.name}\b", text)

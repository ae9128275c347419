"""The page of the library: every public name once, with its chapter, and no other."""

import ast
import json
import re

import pytest
from docutils import nodes
from docutils.utils import new_document

from build.directives import library
from tests.paths import BOOK, LIB

MODULES = library.read_library(BOOK)
NAMES = {name.full: name for module in MODULES for name in module.names}
# Of other rooms, what the notebooks import.
OTHERS = [BOOK / f"{name}.py" for name in ("tasks/translation", "tasks/characters")]
OTHERS += [BOOK / f"{name}.py" for name in ("train/checkpoints", "train/subword")]
PUBLIC = sorted(
    {  # a set: an overload for the type checker has the name of the function
        f"{path.stem}.{node.name}"
        for path in (*LIB.glob("*.py"), *OTHERS)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
)
CELLS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))["cells"]
    for path in BOOK.glob("[0-9]*.ipynb")
}


def item(name: library.Name) -> nodes.definition_list_item:
    return library.item(name, "https://example.org/file.py")


def test_every_public_name_is_on_the_page_once_and_nothing_else_is():
    listed = [name for module in MODULES for name in module.names]
    assert sorted(name.full for name in listed) == sorted(PUBLIC)
    terms = [item(name).next_node(nodes.term)["ids"] for name in listed]
    assert sorted(terms) == sorted([name] for name in PUBLIC)


@pytest.mark.parametrize("full", PUBLIC)
def test_a_name_leads_to_a_chapter_that_mentions_it_and_to_its_code(full):
    entry, name = NAMES[full], full.split(".")[1]
    targets = [link["refuri"] for link in item(entry).findall(nodes.reference)]
    if entry.chapter:
        cells = CELLS[entry.chapter.page]
        assert re.search(rf"\b{name}\b", "".join("".join(cell["source"]) for cell in cells))
        assert targets[0] == f"{entry.chapter.page}.html"
    if "#listing" in targets[-1]:
        shown = [library.SHOWN.findall("".join(cell["source"])) for cell in cells]
        things = [thing for found in shown for thing in found if thing.split(".")[0] == name]
        assert targets[-1].partition("#")[2] in map(library.anchor, things)
    else:
        assert targets[-1] == f"https://example.org/file.py#L{entry.line}"


def test_an_exception_is_still_needed():
    """A chapter names what is there, and only where the rule alone finds another chapter."""
    chapters = [library.read_chapter(path) for path in sorted(BOOK.glob("[0-9]*.ipynb"))]
    alone = [chapter._replace(builds=frozenset()) for chapter in chapters]
    exceptions = [(full, chapter.number) for chapter in chapters for full in chapter.builds]
    assert exceptions
    for full, number in exceptions:
        assert NAMES[full].chapter.number == number
        assert library.builder(full, alone).number != number


def chapter(folder, number, code="", text="", builds=()):
    room = folder / "chapters" / "name"
    room.mkdir(parents=True, exist_ok=True)
    (room / "words.yml").write_text(f"builds: {json.dumps(builds)}\n", encoding="utf-8")
    path = folder / f"{number:02}_name.ipynb"
    cells = [{"cell_type": "code", "source": [code]}, {"cell_type": "markdown", "source": [text]}]
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    return library.read_chapter(path)


def test_the_chapter_that_shows_a_name_builds_it_and_else_the_first_that_uses_or_names_it(tmp_path):
    chapters = [
        chapter(tmp_path, 1, "from lib.one import Cell, mix\nfrom lib.two import Cell as Other"),
        chapter(tmp_path, 2, "from lib.one import mix\nmix()", "Here `idle(1)` is named."),
        chapter(tmp_path, 3, "from lib.one import mix, Cell\nshow_source(Cell.step)"),
        chapter(
            tmp_path,
            4,
            "from lib.two import Cell\nshow_source(Cell)",
            "idle, `unidle`",
            ["one.late"],
        ),
    ]
    found = {
        full: library.builder(full, chapters)
        for full in ("one.Cell", "two.Cell", "one.mix", "one.idle", "one.late", "one.nowhere")
    }
    assert [each and each.number for each in found.values()] == [3, 4, 2, 2, 4, None]
    assert found["one.Cell"].shown == {"one.Cell": "Cell.step"}


SOURCE = '''
class Base:
    def __init__(self, width: int, *, deep: bool = False) -> None: ...

class Heir(Base):
    """An heir, e.g. of `Base`. More."""

class Row(NamedTuple):
    """One that has no full stop"""

    kind: ClassVar[int]
    left: int
    right: str = "x"

class Plain: ...

def call(*, x: Float[Tensor, " d_k"]) -> None:
    """Multiply
    1.5 by two. Then
    more."""
'''


def test_a_signature_says_how_a_thing_is_made_and_a_summary_is_a_sentence():
    defined = {node.name: node for node in ast.parse(SOURCE).body}
    found = {name: library.signature(node, defined) for name, node in defined.items()}
    assert found == {
        "Base": "(width: int, *, deep: bool=False)",
        "Heir": "(width: int, *, deep: bool=False)",
        "Row": "(left: int, right: str = 'x')",
        "Plain": "()",
        "call": "(*, x: Float[Tensor, ' d_k']) -> None",
    }
    assert [library.first_sentence(defined[name]) for name in ("Heir", "Row", "call")] == [
        "An heir, e.g. of `Base`.",
        "One that has no full stop",
        "Multiply 1.5 by two.",
    ]
    name = library.Name("lib", "one.call", found["call"], "Mix `x` in.", 7, None, [], ">>> call()")
    assert item(name).astext().split("\n\n") == [
        'call(*, x: Float[Tensor, "d_k"]) -> None',
        "Mix x in.",
        ">>> from lib.one import call\n>>> call()",
        "source",
    ]


METHODS = '''
class Cell:
    """A cell."""

    def __init__(self, width: int): ...

    def step(self, x: str = "a", *, far: int) -> str:
        """Go `on`. Then stop."""

    def _hidden(self): ...

    @property
    def place(self) -> int:
        """Where it stands."""

    @place.setter
    def place(self, to: int) -> None: ...

    @classmethod
    def made(cls) -> "Cell": ...
'''


def test_the_public_methods_of_a_class_stand_below_it():
    found = library.methods(ast.parse(METHODS).body[0])
    assert found == [
        library.Method("step", "(x: str='a', *, far: int) -> str", "Go `on`."),
        library.Method("place", " -> int", "Where it stands."),
        library.Method("made", "() -> 'Cell'", ""),
    ]
    name = library.Name("lib", "one.Cell", "(width: int)", "A cell.", 7, None, found, "")
    listed = [entry.astext() for entry in item(name).findall(nodes.list_item)]
    assert listed == [
        '.step(x: str="a", *, far: int) -> str Go on.',
        ".place -> int Where it stands.",
        '.made() -> "Cell"',
    ]


def test_a_long_example_is_folded_below_its_import_line():
    lines = [f">>> mix({i})" for i in range(12)]
    for number, is_folded in ((library.LONG, False), (library.LONG + 1, True)):
        name = library.Name("tasks", "one.mix", "()", "", 1, None, [], "\n".join(lines[:number]))
        blocks = [block.astext() for block in item(name).findall(nodes.literal_block)]
        start = ">>> from tasks.one import mix"
        assert blocks[0].startswith(start)
        assert (blocks[0] == start) == is_folded
        assert "\n".join(blocks) == "\n".join([start, *lines[:number]])


def test_examples_are_read_by_name(tmp_path):
    path = tmp_path / "lib.one.txt"
    assert library.read_examples(path) == {}
    path.write_text("# mix\n\n>>> mix()  # here\n1\n\n# Cell\n\n>>> Cell()\n", encoding="utf-8")
    assert library.read_examples(path) == {"mix": ">>> mix()  # here\n1", "Cell": ">>> Cell()"}


def test_a_cell_that_shows_source_gets_an_identifier():
    document = new_document("page")
    for code in ("show_source(Cell.step)\nshow_source(mix)", "mix()"):
        document += nodes.container("", nodes.literal_block(text=code), classes=["cell"])
    library.on_read(None, document)
    assert [cell["ids"] for cell in document] == [["listing-cell-step", "listing-mix"], []]

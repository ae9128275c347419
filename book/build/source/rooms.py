"""The chapters of the book, each with its notebook, its room, and the words that stand there.

`_toc.yml` says which chapters there are and numbers them by their order. All else of a chapter
stands in its room, `book/chapters/<name>`; two files there are the build's. `run.json` says how
long the chapter took to run (see `build.directives.runs`), and `words.yml` what the rest of the
book says of the chapter:

    here: what the head of the chapter says about its place on the map of the book
    glossary: the words that its page links to the glossary, each at its first use in the running
      text: as it stands there, or {word: term} where the glossary has it under another name
    index: for a word of the index, or "word; narrower word", the headings of the sections that
      explain it; names of the library stand in backticks
    in_passing: the words of the index whose sections here stand behind those of other chapters
    builds: the names of the library that this chapter explains although another uses them first
"""

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import yaml

PAGE = re.compile(r"book/\d+_(?P<name>\w+)")


@dataclass(frozen=True)
class Words:
    """What stands in a chapter's `words.yml`."""

    here: str = ""
    # The word as it stands on the page, and the glossary's term.
    glossary: dict[str, str] = field(default_factory=dict)
    index: dict[str, list[str]] = field(default_factory=dict)
    in_passing: frozenset[str] = frozenset()
    builds: frozenset[str] = frozenset()


class Room(NamedTuple):
    """A chapter: its number in the contents, its notebook, and the folder of all else."""

    number: int
    notebook: Path

    @property
    def name(self) -> str:
        return self.notebook.stem.partition("_")[2]

    @property
    def page(self) -> str:
        """As `_toc.yml` and Sphinx call it."""
        return f"book/{self.notebook.stem}"

    @property
    def folder(self) -> Path:
        return folder_of(self.notebook)

    @property
    def words(self) -> Words:
        return read_words(self.folder)


def read_contents(root: Path) -> list[tuple[str, list[str]]]:
    """The parts of the book with their pages, in order; the first page is a part without a name."""
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    parts = [
        (part.get("caption", ""), [page["file"] for page in part["chapters"]])
        for part in toc["parts"]
    ]
    return [("", [toc["root"]]), *parts]


def folder_of(notebook: Path) -> Path:
    """The room of the chapter with this notebook, `book/05_multi_head.ipynb`."""
    return notebook.parent / "chapters" / notebook.stem.partition("_")[2]


def rooms(root: Path) -> list[Room]:
    """The chapters of the book in the folder `root`, in the order of its contents."""
    pages = [page for _, part in read_contents(root) for page in part if PAGE.fullmatch(page)]
    return [Room(number, root / f"{page}.ipynb") for number, page in enumerate(pages, start=1)]


def words_file(folder: Path) -> Path:
    return folder / "words.yml"


def read_words(folder: Path) -> Words:
    """The words of a chapter's room; none where it has no such file.

    Errors: ValueError for a part that is not known, or a word in passing that is not in the index.
    """
    path = words_file(folder)
    if not path.exists():
        return Words()
    parts: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    known = [part.name for part in fields(Words)]
    if unknown := sorted(parts.keys() - set(known)):
        got = ", ".join(unknown)
        raise ValueError(f"{path}: expected {', '.join(known)}, got {got}; name one of these")
    glossary: dict[str, str] = {}
    for word in parts.get("glossary", []):
        glossary |= word if isinstance(word, dict) else {word: word}
    words = Words(
        here=parts.get("here", ""),
        glossary=glossary,
        index=parts.get("index", {}),
        in_passing=frozenset(parts.get("in_passing", [])),
        builds=frozenset(parts.get("builds", [])),
    )
    if unknown := sorted(words.in_passing - words.index.keys()):
        got = ", ".join(unknown)
        raise ValueError(f"{path}: expected words of `index` in `in_passing`, got {got}")
    return words

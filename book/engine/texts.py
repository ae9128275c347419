"""The texts that a language model in the page learns from: files, and the book's own chapters.

Only Python's own library is used here, since building needs no other. `texts/README.md` says where
the files come from, and under which licences.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "texts"
BOOK = Path(__file__).parents[1]
MOST = 100_000  # characters of the chapters: the first ones, paragraph by paragraph
SHORT = 80  # a paragraph with fewer is a caption or a line of a list
FENCED = re.compile(r"^(`{3,}|:{3,}|\$\$).*?^\1", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
UNREADABLE = re.compile(r"[{}$|<>#\\]|\]\(")  # of markup, formulas and tables


class Text(NamedTuple):
    """A text on offer: its name for a reader, and where it comes from."""

    label: str
    source: str


TEXTS = {
    "names": Text("first names", "from the lists of the package Faker (MIT licence)"),
    "places": Text("countries and languages", "from Unicode's CLDR, much less to learn from"),
    "poem": Text("a poem", "The Raven, by Edgar Allan Poe (1845)"),
    "chapters": Text("this book", "sentences of its own chapters"),
}


def prose(markdown: str) -> list[str]:
    """The paragraphs of a text of a notebook that are plain sentences, each as one line."""
    found = []
    for paragraph in re.split(r"\n\s*\n", FENCED.sub("\n\n", markdown)):
        text = re.sub(r"[*`]", "", LINK.sub(r"\1", " ".join(paragraph.split())))
        if len(text) >= SHORT and not UNREADABLE.search(text) and text[0].isalpha():
            found.append(text)
    return found


def chapters() -> str:
    """Paragraphs of the book's chapters, from the first on, up to `MOST` characters."""
    found: list[str] = []
    for path in sorted(BOOK.glob("[0-9]*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                found += prose("".join(cell["source"]))
    text = "\n".join(found)
    return text[: text.rfind("\n", 0, MOST)] if len(text) > MOST else text


def text_of(name: str) -> str:
    """The text `name`, one of `TEXTS`.

    Errors: ValueError for another name.
    """
    if name not in TEXTS:
        raise ValueError(f"expected a text out of {', '.join(TEXTS)}, got {name!r}")
    if name == "chapters":
        return chapters()
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def text_script(name: str) -> str:
    """A classic script that leaves the text in the page: what a page from a file loads too."""
    text = json.dumps(text_of(name), ensure_ascii=False)
    return f'(window.bookTexts ??= {{}})["{name}"] = {text};\n'

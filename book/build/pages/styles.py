"""Cuts the style sheets of the theme and of Sphinx's extensions down to what the book can use.

The theme brings all of Bootstrap, an extension all of its cards and grids, and most of their rules
name classes that no page has. A selector stays if each class, id and element that it names occurs
in a page, or as a word of a script: scripts add classes, such as `show`. What stands in brackets,
as in `:not(.a)` and `[href]`, is not looked at, so that nothing goes that could match.

The book's own sheets stay as they were written.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

SHEETS = (
    "basic.css",
    "copybutton.css",
    "exercise.css",
    "mystnb.*.css",  # its version is in its name
    "sphinx-design.min.css",
    "togglebutton.css",
    "styles/*.css",
)
STRINGS = r"""/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|url\([^"')]*\)|\\."""
PIECE = re.compile(rf"{STRINGS}|[^{{}};\"'/\\u]+|.", re.DOTALL)
SELECTOR_PIECE = re.compile(rf"{STRINGS}|.", re.DOTALL)
COMMENT = re.compile(r"/\*.*?\*/\s*", re.DOTALL)
NOTICE = re.compile(r"/\*!|copyright|licen[cs]e", re.IGNORECASE)  # such a comment has to stay
HOLDS_RULES = re.compile(r"@(?:container|layer|media|supports)\b")
BRACKETS = re.compile(r"""\[(?:"[^"]*"|'[^']*'|[^]"'])*\]|\([^()]*\)""")
NAME = re.compile(r"[.#]((?:[\w-]|\\.)+)|(?<![^\s>+~])([a-zA-Z][\w-]*)")
# Where a browser does not know one selector of a rule, the whole rule is void, and must stay so.
OF_ONE_BROWSER = re.compile(r":-(?:moz|ms|o|webkit)-")

NAMED = re.compile(r"""\b(?:class|id)=("[^"]*"|'[^']*'|[^\s"'>]+)""")
ELEMENT = re.compile(r"<([a-zA-Z][\w-]*)")
WORD = re.compile(r"[A-Za-z_][\w-]*")
BEGINNING = re.compile(r"""([A-Za-z_][\w-]*-)(?:\$\{|["'`]\s*\+)""")


class Names:
    """The names that occur in the pages, and all words of the scripts.

    Of a word that a script puts together, such as `toggle-${state}`, only the beginning is known.
    """

    def __init__(self, pages: Iterable[str], scripts: Iterable[str]):
        self.known: set[str] = set()
        for page in pages:
            self.known.update(*(found.strip("\"'").split() for found in NAMED.findall(page)))
            self.known.update(found.lower() for found in ELEMENT.findall(page))
        beginnings: set[str] = set()
        for script in scripts:
            self.known.update(WORD.findall(script))
            beginnings.update(BEGINNING.findall(script))
        self.beginnings = tuple(beginnings)

    def have(self, name: str) -> bool:
        """Whether an element may have it; one with an escape is not looked up."""
        return "\\" in name or name in self.known or name.startswith(self.beginnings)


def rules(sheet: str) -> Iterator[tuple[str, str | None]]:
    """The rules of a sheet, in order: what stands before the braces, and what stands in them.

    A statement without braces, such as `@import`, has None in the second place.
    Errors: ValueError if a brace or a rule stays open.
    """
    depth, head, body = 0, "", ""
    for piece in PIECE.findall(sheet):
        if piece == "}":
            depth -= 1
        if depth < 0:
            break
        if depth:
            body += piece
        elif piece == "}":
            yield head, body
            head = body = ""
        elif piece != "{":
            head += piece
        if piece == "{":
            depth += 1
        elif piece == ";" and not depth:
            yield head, None
            head = ""
    if depth or COMMENT.sub("", head).strip():
        raise ValueError(f"expected a style sheet whose rules are closed, got one with {head!r}")


def selectors(head: str) -> list[str]:
    """Those of a rule, apart: the commas inside brackets and strings part none."""
    found, depth = [""], 0
    for piece in SELECTOR_PIECE.findall(head):
        depth += (piece in "([") - (piece in ")]")
        if piece == "," and not depth:
            found.append("")
        else:
            found[-1] += piece
    return [one.strip() for one in found]


def names_in(selector: str) -> set[str]:
    """The classes, ids and elements that it names outside brackets."""
    before = ""
    while selector != before:
        before, selector = selector, BRACKETS.sub("", selector)
    return {name or element.lower() for name, element in NAME.findall(selector)}


def cut(sheet: str, names: Names) -> str:
    """The sheet with the selectors, and the rules, whose names all occur.

    Comments go, too, unless they say who wrote the sheet. Errors: those of `rules`.
    """
    kept = []
    for head, body in rules(sheet):
        kept += [note.strip() for note in COMMENT.findall(head) if NOTICE.search(note)]
        head = COMMENT.sub("", head).strip()
        if HOLDS_RULES.match(head) and body is not None:
            body = cut(body, names)
            wanted = head if body else ""
        elif head.startswith("@"):
            wanted = head
        else:
            found = [one for one in selectors(head) if all(map(names.have, names_in(one)))]
            wanted = head if found and OF_ONE_BROWSER.search(head) else ",".join(found)
        if wanted:
            kept.append(wanted if body is None else f"{wanted}{{{body}}}")
    return "".join(kept)


def cut_all(static: Path, pages: Iterable[str]) -> None:
    """Cut the sheets in the built folder `static` to what `pages`, and all scripts there, name."""
    names = Names(pages, (path.read_text(encoding="utf-8") for path in static.rglob("*.js")))
    for pattern in SHEETS:
        for path in static.glob(pattern):
            path.write_text(cut(path.read_text(encoding="utf-8"), names), encoding="utf-8")

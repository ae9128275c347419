"""Cuts the style sheets of the theme and of Sphinx's extensions down to what the book can use.

The theme brings all of Bootstrap, an extension all of its cards and grids, and most of their rules
name classes that no page has. A selector stays if each class, id and element that it names occurs
in a page, or as a word of a script: scripts add classes, such as `show`. What stands in brackets,
as in `:not(.a)` and `[href]`, is not looked at, so that nothing goes that could match.

The book's own sheets stay as they were written.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tinycss2 import parse_rule_list, serialize
from tinycss2.ast import Node

SHEETS = (
    "basic.css",
    "copybutton.css",
    "exercise.css",
    "mystnb.*.css",  # its version is in its name
    "sphinx-design.min.css",
    "togglebutton.css",
    "styles/*.css",
)
NOTICE = re.compile(r"/\*!|copyright|licen[cs]e", re.IGNORECASE)  # such a comment has to stay
HOLD_RULES = {"container", "layer", "media", "supports"}
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
        """Whether an element may have it."""
        return name in self.known or name.startswith(self.beginnings)


def selectors(prelude: Iterable[Node]) -> list[list[Node]]:
    """The selectors of a rule, apart: the commas inside brackets part none."""
    found: list[list[Node]] = [[]]
    for node in prelude:
        if node == ",":
            found.append([])
        else:
            found[-1].append(node)
    return found


def names_in(selector: Sequence[Node]) -> set[str]:
    """The classes, ids and elements that it names outside brackets."""
    found = set()
    for before, node in zip([None, *selector], selector, strict=False):
        if node.type == "hash" or (node.type == "ident" and before == "."):
            found.add(node.value)
        elif node.type == "ident" and before != ":":
            found.add(node.lower_value)
    return found


def cut(sheet: str | Iterable[Node], names: Names) -> str:
    """The sheet with the selectors, and the rules, whose names all occur.

    Comments go, too, unless they say who wrote the sheet.
    Errors: ValueError for a sheet that cannot be read.
    """
    kept = []
    for rule in parse_rule_list(sheet, skip_whitespace=True):
        if rule.type == "error":
            raise ValueError(f"expected a style sheet, got one with an error: {rule.message}")
        if rule.type == "comment":
            kept += [rule.serialize()] if NOTICE.search(rule.serialize()) else []
        elif rule.type == "at-rule":
            if rule.lower_at_keyword not in HOLD_RULES or rule.content is None:
                kept.append(rule.serialize())
            elif body := cut(rule.content, names):
                kept.append(f"@{rule.at_keyword}{serialize(rule.prelude)}{{{body}}}")
        else:
            found = [one for one in selectors(rule.prelude) if all(map(names.have, names_in(one)))]
            head = ",".join(serialize(one).strip() for one in found)
            if found and OF_ONE_BROWSER.search(whole := serialize(rule.prelude)):
                head = whole
            if found:
                kept.append(f"{head}{{{serialize(rule.content)}}}")
    return "".join(kept)


def cut_all(static: Path, pages: Iterable[str]) -> None:
    """Cut the sheets in the built folder `static` to what `pages`, and all scripts there, name."""
    names = Names(pages, (path.read_text(encoding="utf-8") for path in static.rglob("*.js")))
    for pattern in SHEETS:
        for path in static.glob(pattern):
            path.write_text(cut(path.read_text(encoding="utf-8"), names), encoding="utf-8")

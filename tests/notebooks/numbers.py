"""Finds the measured numbers in the text of a chapter, and what each of them rests on.

Measured may be: a decimal, a number with a comma for its thousands, a share ("13 of 24"), and a
whole number with a unit (percent, seconds, times, million). Read is what a reader sees: the text,
predictions without their options, outcomes, solutions, captions, alternative texts, the lines of
folded proofs. Not read are formulas (unless one is just a number), code, exercises and hints, which
choose their own numbers, and the numbers of figures, tables and sections.

A number of three digits that say something must stand in an output or in the code of its chapter.
A shorter one meets an equal one there by chance too often. So it must stand in the code cell in
front of its text or behind it, a single digit exactly as it is written. What rests on something
else stands in the chapter's `quoted.yml`, in the words around it, with one of

    cell NAME                    a cell further away, which must have the number
    = 3 * 128 * (64 + 128 + 2)   a calculation, which must give it; several stand between semicolons
    words                        where it is from: a paper, a choice, a figure

A number that the role `{rec}` reads from a record needs no proof here: the build puts it there.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import nbformat
import yaml
from bs4 import BeautifulSoup
from markdown_it.token import Token
from nbformat import NotebookNode

from build.directives.records import calculate
from build.readers.myst import PARSER, directive

UNREAD = {"exercise", "hint", "math", "bibliography"}
UNIT = r"[ ]?%|[ ](?:s|ms|µs|(?:milli)?seconds|times|million|billion)\b"
NUMBER = re.compile(
    rf"""(?<![\w.,·])(?:
    (?P<part>\d+)[ ]of[ ](?:(?:the|its|all)[ ])?(?P<whole>\d[\d,]*)\b
    |(?P<number>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+\.\d+
        |\d+(?={UNIT})|\d+(?=[ ](?:to|and|or)[ ][\d.]+[ ]?%))
     (?P<unit>{UNIT})?
    )(?!\w|\.\d|,\d)""",
    re.VERBOSE,
)
PERCENT_LATER = re.compile(r"[ ](?:to|and|or)[ ][\d.]+[ ]?%")
# In front of a number that counts a place: of a figure, of a section of a paper, of a version.
PLACE = re.compile(
    r"\b(?:figure|exercise|table|section|equation|chapter|version|python|express)s?\s+"
    r"(?:[A-Z]?[\d.]+(?:,? and|,? to|,)\s+)*$",
    re.IGNORECASE,
)
FORMULA = re.compile(r"\$([^$]+)\$")
JUST_NUMBER = re.compile(r"[<>]?\s*[-−+]?\d[\d.,]*(\s%)?")
PRINTED = re.compile(r"(?<![\w.,])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d+)?)(\s?%)?")


class Said(NamedTuple):
    """A number in a text: the cell that it stands in, its text, and where in the text."""

    cell: int
    text: str
    found: re.Match

    @property
    def is_percentage(self) -> bool:
        unit = self.found["unit"] or ""
        return "%" in unit or bool(PERCENT_LATER.match(self.text, self.found.end()))

    def context(self) -> str:
        return self.text[max(self.found.start() - 50, 0) : self.found.end() + 30]


class Shown(NamedTuple):
    """What a code cell shows: its printed text, the numbers in it, those of its code."""

    cell: int
    name: str
    text: str
    printed: list[tuple[float, bool]]  # with a percent sign or without
    written: list[float]


# --- what a reader reads --------------------------------------------------------------------------


def line(token: Token) -> str:
    """Running text; a dot stands for code, for a formula and for what a role puts there."""
    pieces = []
    for child in token.children:
        if child.type in ("softbreak", "hardbreak"):
            pieces.append(" ")
        elif child.type == "text":
            pieces.append(child.content)
        elif child.type == "image":
            pieces.append(f" {child.content} ")
        elif child.type == "math_inline":
            pieces.append(f"${child.content}$")
        elif child.type in ("code_inline", "myst_role"):
            pieces.append("·")
    return FORMULA.sub(lambda found: plain_formula(found[1]), "".join(pieces))


def plain_formula(source: str) -> str:
    text = re.sub(r"\\(approx|,|;|!)", "", source).replace("\\%", " %").replace("{,}", ",").strip()
    return text if JUST_NUMBER.fullmatch(text) else "·"


def passages(markdown: str, options: bool = False) -> Iterator[str]:
    """The texts of a cell. Args: options, whether lists are a prediction's, which are left out."""
    depth = 0
    for token in PARSER.parse(markdown):
        depth += {"bullet_list_open": 1, "bullet_list_close": -1}.get(token.type, 0)
        if token.type == "inline" and not (options and depth):
            yield line(token)
        elif (fence := directive(token)) and fence.name not in UNREAD:
            if fence.name in ("seen", "admonition", "table"):
                yield from passages(fence.argument)
            yield from passages(str(fence.options.get("alt", "")))
            if "within" in fence.options:
                yield str(fence.options["right"])
            yield from passages(fence.body, options=fence.name == "predict")


def texts(cell: NotebookNode) -> list[str]:
    """What is read in a cell: of a code cell, its line, its caption and its alternative text."""
    if cell.cell_type == "markdown":
        return list(passages(cell.source))
    about = cell.metadata.get("mystnb", {})
    lines = (
        about.get("code_prompt_show", ""),
        about.get("figure", {}).get("caption", ""),
        about.get("image", {}).get("alt", ""),
    )
    return [text for one in lines for text in passages(one)]


def numbers(notebook: NotebookNode) -> Iterator[Said]:
    """The numbers in the text of a chapter that may be measured."""
    for i, cell in enumerate(notebook.cells):
        for text in texts(cell):
            for found in NUMBER.finditer(text):
                if not PLACE.search(text[: found.start()]):
                    yield Said(i, text, found)


# --- what they rest on ----------------------------------------------------------------------------


def output_text(cell: NotebookNode) -> str:
    """What the outputs of a cell say; no listing of code, no data of a widget."""
    if "listing" in cell.metadata.get("tags", []):
        return ""
    said = []
    for output in cell.outputs:
        data = output.get("data", {})
        if "text" in output:
            said.append(output.text)
        elif "text/html" in data:
            page = BeautifulSoup(data["text/html"], "html.parser")
            for part in page(["script", "style"]):
                part.decompose()
            said.append(page.get_text(" "))
        elif "image/png" not in data:
            said.append(data.get("text/plain", ""))
    return "\n".join(said)


def literals(source: str) -> list[float]:
    """The numbers that code writes down."""
    return [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and type(node.value) in (int, float)
    ]


def value(number: str) -> float:
    return float(number.replace(",", ""))


def shown(i: int, cell: NotebookNode) -> Shown:
    if cell.cell_type == "markdown":  # the code of solutions
        blocks = re.findall(r"^```python\n(.*?)^```", cell.source, re.DOTALL | re.MULTILINE)
        return Shown(i, cell.id, "", [], [n for block in blocks for n in literals(block)])
    text = output_text(cell)
    printed = [(value(found[1]), bool(found[2])) for found in PRINTED.finditer(text)]
    return Shown(i, cell.id, text, printed, literals(cell.source))


def digits(number: str) -> int:
    """How many digits say something: two in 0.072, four in 1,496."""
    return len(re.sub(r"[,.]", "", number).lstrip("0"))


def equals(number: str, percent: bool, other: float, other_percent: bool, exact: bool) -> bool:
    """Whether another number is this one, rounded as it is unless `exact`."""
    wanted, decimals = value(number), len(number.partition(".")[2])
    slack = 1e-9 if exact else 0.5 * 10**-decimals + 1e-9
    if percent and not other_percent:
        return abs(100 * other - wanted) <= slack
    return abs(other - wanted) <= slack


def shows(number: str, percent: bool, place: Shown) -> bool:
    """Whether a cell prints the number, or writes it down in its code."""
    exact = digits(number) < 2
    return any(equals(number, percent, *one, exact) for one in place.printed) or any(
        equals(number, percent, one, False, exact=True) for one in place.written
    )


def share(said: Said, place: Shown) -> bool:
    words = rf"\b{said.found['part']} of (?:\w+ )?{said.found['whole']}\b"
    return bool(re.search(words, place.text))


@dataclass
class Chapter:
    """A chapter, what its cells show, and what its table `quoted.yml` says."""

    notebook: NotebookNode
    quoted: dict[str, str]

    @cached_property
    def cells(self) -> list[Shown]:
        return [shown(i, cell) for i, cell in enumerate(self.notebook.cells)]

    @cached_property
    def said(self) -> list[Said]:
        return list(numbers(self.notebook))

    def beside(self, cell: int) -> list[Shown]:
        """The cell itself and the nearest ones with a number, in front of it and behind it."""
        code = [s for s in self.cells if (s.printed or s.written) and self.is_code(s.cell)]
        before = [s for s in code if s.cell < cell][-1:]
        after = [s for s in code if s.cell > cell][:1]
        if self.is_code(cell):
            before = []  # a line of a proof speaks of its own cell, a figure's text of it too
        return [*before, self.cells[cell], *after]

    def is_code(self, cell: int) -> bool:
        return self.notebook.cells[cell].cell_type == "code"

    def is_shown(self, said: Said, number: str | None = None) -> bool:
        """Whether cells show a number. Args: number, another one in its place."""
        if said.found["part"]:
            return number is None and any(share(said, place) for place in self.cells)
        number = number or said.found["number"]
        near = self.cells if digits(number) > 2 else self.beside(said.cell)
        return any(shows(number, said.is_percentage, place) for place in near)

    def is_quoted(self, said: Said) -> bool:
        begin, end = said.found.span()
        return any(
            said.text.find(words, at) <= begin and at + len(words) >= end
            for words in self.quoted
            for at in [said.text.rfind(words, 0, begin + len(words))]
            if at >= 0 and at <= begin
        )

    def problems(self) -> list[str]:
        """Numbers that rest on nothing, and lines of the table that are wrong."""
        found = [
            f"cell {self.cells[said.cell].name}: expected {said.found[0]!r} of "
            f"'... {said.context()} ...' in a cell beside its text, in {{rec}} or in quoted.yml"
            for said in self.said
            if not self.is_quoted(said) and not self.is_shown(said)
        ]
        for words, source in self.quoted.items():
            if message := self.judge(words, source):
                found.append(f"quoted.yml: {words!r}: {message}")
        return found

    def judge(self, words: str, source: str) -> str:
        """What is wrong with a line of the table."""
        inside = [s for s in self.said if words in s.text and s.found[0] in words]
        inside = list({s.found[0]: s for s in inside}.values())
        if not inside:
            return "no such words with a number in the chapter"
        if all(self.is_shown(said) for said in inside):
            return "needless: a cell beside the text has it"
        if source.startswith("= "):
            return self.calculated(words, source[2:])
        if name := re.fullmatch(r"cell ([\w-]+)", source):
            place = next((s for s in self.cells if s.name == name[1]), None)
            if place is None:
                return f"the chapter has no cell {name[1]}"
            lacking = [
                said.found[0]
                for said in inside
                if not (share(said, place) if said.found["part"] else self.shows(said, place))
            ]
            return f"cell {name[1]} does not have {', '.join(lacking)}" if lacking else ""
        return "" if len(source.split()) > 1 else f"expected where it is from, got {source!r}"

    def shows(self, said: Said, place: Shown) -> bool:
        return shows(said.found["number"], said.is_percentage, place)

    def calculated(self, words: str, source: str) -> str:
        """What is wrong with calculations that should give the numbers in the words."""
        wanted = [found["number"] for found in NUMBER.finditer(words)]
        values = [calculate(part) for part in source.split(";")]
        if len(wanted) != len(values):
            return f"expected {len(wanted)} calculations, got {len(values)}"
        wrong = [
            f"{result} is not {number}"
            for number, result in zip(wanted, values, strict=True)
            if not equals(number, False, result, False, exact=False)
        ]
        return ", ".join(wrong)


def read_chapter(path: Path, rooms: Path) -> Chapter:
    """The chapter in the notebook `path`, whose room lies in the folder `rooms`."""
    table = rooms / path.stem.partition("_")[2] / "quoted.yml"
    lines = yaml.safe_load(table.read_text(encoding="utf-8")) if table.exists() else {}
    return Chapter(nbformat.read(path, as_version=4), lines)

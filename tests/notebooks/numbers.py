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
    = 3 * 128 * (64 + 128 + 2)   a calculation, which must give it
    head_counts = exact["4"][0]  a calculation with a record (see `build.directives.records`)
    words                        where it is from: a paper, a choice, a run

For several numbers, the calculations stand between semicolons.

A number that the role `{rec}` reads from a record needs no proof here: the build puts it there.
"""

import ast
import json
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

from build.directives.records import calculate, record_path
from build.source.myst import PARSER, directive
from build.source.rooms import folder_of

UNREAD = {"exercise", "hint", "math", "bibliography"}
UNIT = r"[ ]?%|[ ](?:s|ms|µs|(?:milli)?seconds|times|million|billion)\b"
NUMBER = re.compile(
    rf"""(?<![\w.,·])(?:
    (?P<part>\d+)[ ]of[ ](?:(?:the|its|all)[ ])?(?P<whole>\d[\d,]*)\b
    |(?P<number>\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d*\.\d+
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
PRINTED = re.compile(
    r"(?<![\w.,])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d+)?)(\s?%)?"
)


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
    printed: list[tuple[str, bool]]  # with a percent sign or without
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
    printed = [(found[1], bool(found[2])) for found in PRINTED.finditer(text)]
    return Shown(i, cell.id, text, printed, literals(cell.source))


def digits(number: str) -> int:
    """How many digits say something: two in 0.072, four in 1,496."""
    return len(re.sub(r"[,.]", "", number).lstrip("0"))


def decimals(number: str) -> int:
    return len(number.partition(".")[2])


def equals(number: str, percent: bool, other: float) -> bool:
    """Whether another number is this one, rounded as it is."""
    slack = 0.5 * 10 ** -decimals(number) + 1e-9
    return abs((100 if percent else 1) * other - value(number)) <= slack


def prints(number: str, percent: bool, place: Shown) -> bool:
    """Whether a cell prints the number, with as many digits or more; a single digit as it is."""
    for other, other_percent in place.printed:
        percent_too = percent and not other_percent
        if not equals(number, percent_too, value(other)):
            continue
        if digits(number) > 1 or decimals(other) == decimals(number) + 2 * percent_too:
            return True
    return False


def shows(number: str, percent: bool, place: Shown) -> bool:
    """Whether a cell prints the number, or writes it down in its code."""
    wanted = value(number) / (100 if percent else 1)
    return prints(number, percent, place) or any(
        abs(one - wanted) < 1e-9 and isinstance(one, float) == ("." in number or percent)
        for one in place.written
    )


def shows_share(said: Said, place: Shown) -> bool:
    """Whether a cell has a share: in the same words, or as a fraction."""
    part, whole = said.found["part"], said.found["whole"]
    fraction = value(part) / value(whole)
    numbers = [*place.written, *(value(one) for one, _ in place.printed)]
    return bool(re.search(rf"\b{part} of (?:\w+ )?{whole}\b", place.text)) or any(
        abs(one - fraction) < 1e-9 for one in numbers
    )


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
        """The cell itself, the nearest in front of it that prints a number and the nearest whose
        code has one, and the nearest behind it that has a number at all. The line of a proof speaks
        of its own cell alone.
        """
        own = self.cells[cell]
        if "proof" in self.notebook.cells[cell].metadata.get("tags", []):
            return [own]
        code = [place for place in self.cells if self.is_code(place.cell)]
        before, after = code[::-1], [p for p in code if p.cell > cell and (p.printed or p.written)]
        before = [p for p in before if p.cell < cell]
        printed, written = [p for p in before if p.printed], [p for p in before if p.written]
        return [own, *printed[:1], *(p for p in written[:1] if p not in printed[:1]), *after[:1]]

    def is_code(self, cell: int) -> bool:
        return self.notebook.cells[cell].cell_type == "code"

    def has(self, said: Said, place: Shown, number: str | None = None) -> bool:
        """Whether a cell shows a number. Args: number, another one in its place."""
        if said.found["part"]:
            return number is None and shows_share(said, place)
        return shows(number or said.found["number"], said.is_percentage, place)

    def is_shown(self, said: Said, number: str | None = None) -> bool:
        """Whether the cells that count for it show a number; see `has`."""
        long = said.found["number"] and digits(said.found["number"]) > 2
        near = self.cells if long else self.beside(said.cell)
        return any(self.has(said, place, number) for place in near)

    def inside(self, words: str) -> list[Said]:
        """The numbers in these words of the text."""
        return [
            said
            for said in self.said
            for found in re.finditer(re.escape(words), said.text)
            if found.start() <= said.found.start() and said.found.end() <= found.end()
        ]

    @cached_property
    def quoted_numbers(self) -> list[Said]:
        return [said for words in self.quoted for said in self.inside(words)]

    def problems(self) -> list[str]:
        """Numbers that rest on nothing, and lines of the table that are wrong."""
        found = [
            f"cell {self.cells[said.cell].name}: expected {said.found[0]!r} of "
            f"'... {said.context()} ...' in a cell beside its text, in {{rec}} or in quoted.yml"
            for said in self.said
            if said not in self.quoted_numbers and not self.is_shown(said)
        ]
        for words, source in self.quoted.items():
            if message := self.judge(words, str(source)):
                found.append(f"quoted.yml: {words!r}: {message}")
        return found

    def judge(self, words: str, source: str) -> str:
        """What is wrong with a line of the table."""
        inside = self.inside(words)
        if not inside:
            return "no such words with a number in the chapter"
        if all(self.is_shown(said) for said in inside):
            return "needless: a cell beside the text has it"
        if calculation := re.fullmatch(r"(\w*) ?= (.+)", source, re.DOTALL):
            return calculated(inside, calculation[1], calculation[2])
        if cell := re.fullmatch(r"cell ([\w-]+)", source):
            place = next((s for s in self.cells if s.name == cell[1]), None)
            if place is None:
                return f"the chapter has no cell {cell[1]}"
            lacking = [said.found[0] for said in inside if not self.has(said, place)]
            return f"cell {cell[1]} does not have {', '.join(lacking)}" if lacking else ""
        return "" if " " in source else f"expected where it is from, got {source!r}"


def calculated(inside: list[Said], name: str, source: str) -> str:
    """What is wrong with the calculations that should give these numbers."""
    unique = list({said.found[0]: said for said in inside}.values())
    record = json.loads(record_path(name).read_text(encoding="utf-8")) if name else None
    values = [calculate(part, record) for part in source.split(";")]
    if len(unique) != len(values):
        return f"expected {len(unique)} calculations, got {len(values)}"
    wrong = [
        f"{result} is not {said.found[0]}"
        for said, result in zip(unique, values, strict=True)
        if not gives(result, said)
    ]
    return ", ".join(wrong)


def gives(result: float, said: Said) -> bool:
    """Whether a calculation has given a number; for a share, the fraction."""
    if said.found["part"]:
        return round(result * value(said.found["whole"])) == value(said.found["part"])
    return equals(said.found["number"], said.is_percentage, result)


def read_chapter(path: Path) -> Chapter:
    """The chapter in the notebook `path`, with the table in its room."""
    table = folder_of(path) / "quoted.yml"
    lines = yaml.safe_load(table.read_text(encoding="utf-8")) if table.exists() else {}
    return Chapter(nbformat.read(path, as_version=4), lines)

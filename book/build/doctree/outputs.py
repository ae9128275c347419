"""What the pages make of exercises and printed text, while the notebooks keep what they stored.

An exercise's check fails until a reader has solved it: the page leaves that error out. Its parts
get identifiers of their own, and the title of a solution opens it instead of leading back to the
exercise. Printed text tells the style sheet whether its columns would be lost if lines were broken,
and which lines nearly fit on a phone. A long line of code tells it how far it is indented, so that
a phone can break it and let the rest hang.
"""

import re
from collections.abc import Iterator
from html import unescape
from itertools import takewhile

from docutils import nodes
from sphinx_exercise.nodes import solution_node

PARTS = {"exercise-content", "solution-content"}  # sphinx-exercise gives these to every exercise

PRINTED = re.compile(
    r'<div class="(?P<kind>output (?:stream|text_plain|traceback))(?! printed)\b(?P<rest>[^">]*)">'
    r'(?P<pre><div class="highlight"><pre>(?P<lines>.*?)</pre>)',
    re.DOTALL,
)
GAP = re.compile(r"\S {2,}(?=\S)")  # between two columns
CODE = re.compile(
    r'<div class="highlight-(?:python|pycon|ipython3?|javascript|js|default)\b[^>]*>'
    r'<div class="highlight"><pre>'
    r"(?P<lines>.*?)</pre>",
    re.DOTALL,
)
SHORT = 44  # letters of a line of code that fit on any phone
DEEPEST = 4  # steps of four letters by which a line hangs at most
NARROW = 56  # letters that fit on a phone if they are set a little smaller


def on_resolved(app, doctree: nodes.document, page: str) -> None:
    for section in doctree.findall(nodes.section):
        if PARTS & set(section["ids"]):
            section["ids"] = []
    for solution in doctree.findall(solution_node):
        for link in list(solution[0].findall(nodes.reference)):
            link.parent.replace(link, link.children)
    for cell in doctree.findall(is_exercise):
        for check in checks(cell):
            leave_out_error(check)


def is_cell(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and "cell" in node["classes"]


def is_exercise(node: nodes.Node) -> bool:
    """Whether the node is a cell in which a reader writes an answer."""
    return is_cell(node) and "tag_exercise" in node["classes"]


def checks(cell: nodes.container) -> Iterator[nodes.container]:
    """The cell of an answer and those that follow it directly: all fail while it is empty."""
    yield cell
    siblings = cell.parent.children
    yield from takewhile(is_cell, siblings[siblings.index(cell) + 1 :])


def leave_out_error(cell: nodes.container) -> None:
    """Take the error that an empty answer ends with out of a cell, and outputs left empty by it."""
    for error in list(cell.findall(nodes.literal_block)):
        if "traceback" in error["classes"]:
            outputs = error.parent
            outputs.remove(error)
            if not outputs.children:
                outputs.parent.remove(outputs)


def fit_lines(text: str) -> str:
    """Mark printed text and its tables; `--letters` is the length of a line that should fit."""

    def mark(match: re.Match) -> str:
        lines = unescape(re.sub(r"<[^>]*>", "", match["lines"])).splitlines() or [""]
        aligned = "traceback" not in match["kind"] and has_columns(lines)
        letters = max(map(len, lines))
        form = " printed aligned" if aligned else " printed"
        style = f' style="--letters: {letters}"' if aligned or letters <= NARROW else ""
        return f'<div class="{match["kind"]}{form}{match["rest"]}"{style}>{match["pre"]}'

    return PRINTED.sub(mark, text)


def hang_lines(text: str) -> str:
    """Put each long line of code into an element of its own: `line-2` is indented by eight."""

    def line(code: str) -> str:
        plain = unescape(re.sub(r"<[^>]*>", "", code))
        is_whole = code.count("<span") == code.count("</span")
        if len(plain) <= SHORT or not is_whole or '<span class="line' in code:
            return code
        depth = min((len(plain) - len(plain.lstrip())) // 4, DEEPEST)
        return f'<span class="line line-{depth}">{code}</span>'

    def block(match: re.Match) -> str:
        lines = "\n".join(map(line, match["lines"].split("\n")))
        return match[0].replace(match["lines"], lines, 1)

    return CODE.sub(block, text)


def has_columns(lines: list[str]) -> bool:
    """Whether printed lines are a table or a matrix, which broken lines would take apart."""
    columns = sum(len(GAP.findall(line)) > 1 for line in lines)
    return columns > 1 or any("tensor([[" in line for line in lines)

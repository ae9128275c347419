"""What the pages make of exercises and printed text, while the notebooks keep what they stored.

An exercise's check fails until a reader has solved it: the page says so in one calm line instead of
an error. Its parts get identifiers of their own, and the title of a solution opens it instead of
leading back to the exercise. Printed text tells the style sheet whether its columns would be lost
if lines were broken, and which lines nearly fit on a phone.
"""

import re
from html import unescape

from docutils import nodes
from sphinx_exercise.nodes import solution_node

NOT_SOLVED = "Not solved yet. Write your answer in the notebook, run it, and this check replies."
PARTS = {"exercise-content", "solution-content"}  # sphinx-exercise gives these to every exercise

PRINTED = re.compile(
    r'<div class="(?P<kind>output (?:stream|text_plain|traceback))(?! printed)\b(?P<rest>[^">]*)">'
    r'(?P<pre><div class="highlight"><pre>(?P<lines>.*?)</pre>)',
    re.DOTALL,
)
GAP = re.compile(r"\S {2,}(?=\S)")  # between two columns
NARROW = 56  # letters that fit on a phone if they are set a little smaller


def on_resolved(app, doctree: nodes.document, page: str) -> None:
    for section in doctree.findall(nodes.section):
        if PARTS & set(section["ids"]):
            section["ids"] = []
    for solution in doctree.findall(solution_node):
        for link in list(solution[0].findall(nodes.reference)):
            link.parent.replace(link, link.children)
    for cell in doctree.findall(is_exercise):
        calm_check(cell.next_node(is_cell, descend=False, siblings=True))


def is_cell(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and "cell" in node["classes"]


def is_exercise(node: nodes.Node) -> bool:
    """Whether the node is a cell in which a reader writes an answer."""
    return is_cell(node) and "tag_exercise" in node["classes"]


def calm_check(cell: nodes.container | None) -> None:
    """Put a line of text in the place of the error that the check of an empty answer ends with."""
    errors = () if cell is None else cell.findall(nodes.literal_block)
    for error in list(errors):
        if "traceback" in error["classes"]:
            error.parent.replace(error, nodes.paragraph("", NOT_SOLVED, classes=["not-solved"]))


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


def has_columns(lines: list[str]) -> bool:
    """Whether printed lines are a table or a matrix, which broken lines would take apart."""
    columns = sum(len(GAP.findall(line)) > 1 for line in lines)
    return columns > 1 or any("tensor([[" in line for line in lines)

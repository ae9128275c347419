"""Measure the form of each chapter: what a reader meets on the page, against the bars.

    python scripts/form.py                  (make form)

Visible is what stands open on the page.

- words: of the Markdown, captions included. A formula or a name in a line counts as one word, a
  displayed formula or a block of code as none. Not visible: a hint or a solution, and all else with
  the class dropdown; `seen`; the answer of a `recall`; `margin`, which stands beside the text. A
  section "Appendix" counts nowhere: it is for those who want more.
- cells and lines of code: without the cells that the page folds or leaves out (hide-input,
  hide-cell, remove-input, remove-cell, proof, listing); lines without blank ones. Outputs count
  nowhere.
- schematics: cells that call a function of the chapter's `schematics`, and cells without visible
  code whose output is a drawing (image/svg+xml).
- predictions and recall questions: the directives `predict` and `recall`.
- unanswered: the questions about a widget that no `seen` answers. They stand in the widget's
  section, from one heading to the next, before or after it: a sentence outside directives that ends
  in a question mark, or an item of a list that has one or tells the reader to do something (an
  imperative such as set, drag or compare, at the start of a clause). A question is answered if a
  `seen` or an `outcome` follows it before the next heading.
- adjacent: pairs of visible code cells with no visible word between them. Words are also the line
  of a fold and the caption of a figure. An exercise's stub and its check are no such pair.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from markdown_it.token import Token

from build.source.myst import PARSER, Fence, directive

ROOT = Path(__file__).resolve().parent.parent

# The chapters that are held to the bars.
IN_FORM: tuple[str, ...] = (
    "seq2seq",
    "attention_seq2seq",
    "attention_layer",
    "self_attention",
    "multi_head",
    "modern_block",
    "distributed",
)

FOLDED = {"hide-input", "hide-cell", "remove-input", "remove-cell", "proof", "listing"}
UNSEEN = {"hint", "solution", "seen", "margin"}
NO_WORDS = {"math", "bibliography"}
TRY = re.compile(
    r"(?:^|[,;:.]\s|\b(?:and|then|now|first)\s)\W*(?:add|change|choose|click|compare|divide|double|drag"
    r"|draw|find|follow|give|halve|hold|keep|let|look|lower|make|move|pick|play|predict|press|put"
    r"|raise|read|remove|reset|select|set|slide|start|step|swap|switch|take|try|turn|type|write)\b",
    re.IGNORECASE,
)


class Form(NamedTuple):
    """What is counted of a chapter, in the order of the table."""

    words: int
    cells: int
    lines: int
    schematics: int
    predictions: int
    recalls: int
    unanswered: int
    adjacent: int


LEAST = Form(0, 0, 0, 3, 2, 5, 0, 0)
MOST = Form(2100, 25, 180, sys.maxsize, sys.maxsize, sys.maxsize, 0, 0)


def is_open(fence: Fence) -> bool:
    return fence.name not in UNSEEN and "dropdown" not in fence.options.get("class", "")


def shown(fence: Fence) -> str:
    """The part of a directive that stands open on the page."""
    if not is_open(fence) or fence.name in NO_WORDS:
        return ""
    if fence.name == "recall":
        return re.split(r"^---\s*$", fence.body, maxsplit=1, flags=re.MULTILINE)[0]
    return fence.body


def plain(token: Token) -> str:
    """The words of a paragraph or heading, a dot for each formula, name and citation."""
    found = []
    for child in token.children or []:
        if child.type in ("code_inline", "math_inline", "myst_role"):
            found.append("·")
        elif "break" in child.type:
            found.append(" ")
        elif child.type == "text":
            found.append(child.content)
    return "".join(found)


def count_words(text: str) -> int:
    """The visible words of a Markdown text."""
    found = 0
    for token in PARSER.parse(text):
        if fence := directive(token):
            titled = is_open(fence) and fence.name in ("table", "exercise", "admonition")
            found += count_words(shown(fence)) + titled * len(fence.argument.split())
        elif token.type == "inline":
            found += sum(bool(re.search(r"\w|·", word)) for word in plain(token).split())
    return found


def directives(text: str) -> Iterator[Fence]:
    """The directives of a text, and those inside of them."""
    for token in PARSER.parse(text):
        if fence := directive(token):
            yield fence
            yield from directives(fence.body)


def marks(text: str) -> Iterator[str]:
    """What a reader passes in a text, in order: heading, question, answer and widget."""
    items = 0
    heading = False
    for token in PARSER.parse(text):
        items += {"list_item_open": 1, "list_item_close": -1}.get(token.type, 0)
        heading = token.type == "heading_open" or (heading and token.type != "heading_close")
        if token.type == "heading_open":
            yield "heading"
        elif token.type == "inline" and not heading:
            questions = len(re.findall(r"\?(?=\W|$)", plain(token)))
            if items and (questions or TRY.search(plain(token))):
                questions = 1  # whatever an item asks, it is one thing to try
            yield from ["question"] * questions
        elif fence := directive(token):
            kind = {"seen": "answer", "outcome": "answer", "widget": "widget"}.get(fence.name)
            yield from [kind] if kind else []


def unanswered(passed: list[str]) -> int:
    """The questions in sections with a widget that no answer follows in their section."""
    found, waiting, has_widget = 0, 0, False
    for mark in [*passed, "heading"]:
        if mark == "heading":
            found += waiting if has_widget else 0
            waiting, has_widget = 0, False
        elif mark == "question":
            waiting += 1
        elif mark == "answer":
            waiting = 0
        else:
            has_widget = True
    return found


def tags(cell: dict[str, Any]) -> set[str]:
    return set(cell["metadata"].get("tags", []))


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def outputs(cell: dict[str, Any], kind: str) -> list[str]:
    found = (output.get("data", {}).get(kind) for output in cell.get("outputs", []))
    return ["".join(text) for text in found if text]


def caption(cell: dict[str, Any]) -> str:
    return cell["metadata"].get("mystnb", {}).get("figure", {}).get("caption", "")


def is_widget(cell: dict[str, Any]) -> bool:
    return any('class="book-widget"' in text for text in outputs(cell, "text/html"))


def schematic_names(cells: list[dict[str, Any]]) -> set[str]:
    """What the code cells import from a chapter's schematics, by the name that it has there."""
    return {
        alias.asname or alias.name
        for cell in cells
        for node in ast.walk(ast.parse(source(cell)))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        if f"{node.module}.{alias.name}".split(".")[2:3] == ["schematics"]
    }


def calls(cell: dict[str, Any], names: set[str]) -> bool:
    """Whether a cell calls one of the names, or a function of one that is a module."""
    return any(
        isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[0] in names
        for node in ast.walk(ast.parse(source(cell)))
    )


def without_appendix(cells: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The cells but those of a section "Appendix", which begins and ends with a cell's heading."""
    aside = False
    for cell in cells:
        if cell["cell_type"] == "markdown" and source(cell).startswith("## "):
            aside = source(cell).startswith("## Appendix")
        if not aside:
            yield cell


def measure(notebook: dict[str, Any]) -> Form:
    """Count a chapter, as nbformat's JSON has it."""
    cells = list(without_appendix(notebook["cells"]))
    texts = [source(cell) for cell in cells if cell["cell_type"] == "markdown"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    visible = [cell for cell in code if not tags(cell) & FOLDED]
    found = [fence for text in texts for fence in directives(text)]
    drawn = schematic_names(code)

    passed: list[str] = []
    adjacent, before = 0, None  # the visible code cell that no word has followed yet
    for cell in cells:
        if cell["cell_type"] == "markdown":
            passed += marks(source(cell))
            before = before if count_words(source(cell)) == 0 else None
            continue
        passed += ["widget"] if is_widget(cell) else []
        if tags(cell) & FOLDED:
            told = caption(cell) or cell["metadata"].get("mystnb", {}).get("code_prompt_show")
            before = None if told else before
            continue
        adjacent += before is not None and "exercise" not in tags(before)
        before = cell

    return Form(
        words=sum(map(count_words, texts)) + sum(count_words(caption(cell)) for cell in code),
        cells=len(visible),
        lines=sum(bool(line.strip()) for cell in visible for line in source(cell).splitlines()),
        schematics=sum(
            calls(cell, drawn)
            or ("remove-input" in tags(cell) and bool(outputs(cell, "image/svg+xml")))
            for cell in code
        ),
        predictions=sum(fence.name == "predict" for fence in found),
        recalls=sum(fence.name == "recall" for fence in found),
        unanswered=unanswered(passed),
        adjacent=adjacent,
    )


def misses(form: Form) -> list[str]:
    """The bars that a chapter misses, by name."""
    bars = zip(form._fields, form, LEAST, MOST, strict=True)
    return [name for name, value, least, most in bars if not least <= value <= most]


def chapters() -> dict[str, Path]:
    """The notebooks by the names of their chapters."""
    return {path.stem[3:]: path for path in sorted((ROOT / "book").glob("[0-9][0-9]_*.ipynb"))}


def main() -> int:
    print(f"{'':24}" + "".join(f"{name:>13}" for name in Form._fields))
    failed = []
    for chapter, path in chapters().items():
        form = measure(json.loads(path.read_text(encoding="utf-8")))
        missed = misses(form)
        values = zip(form._fields, form, strict=True)
        marked = "".join(f"{value:>12,}{'*' if name in missed else ' '}" for name, value in values)
        print(f"{path.stem:24}{marked}")
        failed += [chapter] if missed and chapter in IN_FORM else []
    bars = [f"{a}+" if a else f"{b:,}" for a, b in zip(LEAST, MOST, strict=True)]
    print(f"{'the bars':24}" + "".join(f"{bar:>12} " for bar in bars))
    print("* misses its bar" + (f"; expected in form: {' '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure the form of each chapter: what a reader meets on the built page, and in the notebook.

    python scripts/form.py                  (make form; needs make book)

On the page, in a browser at the width of a phone, as somebody opens it for the first time:

- words: of the prose up to Recall, captions, questions and what answers a prediction included; a
  formula counts as one, a display and code as none. Margin notes and widgets are not prose.
- folded: words behind a click, of the whole page, without hints, solutions and code: `seen`, the
  answers of `recall`, dropdowns, the lines of "Checked in this chapter".
- tests: folded tests and listings between the paragraphs, and set-up before the first of them.
- predictions, and of their outcomes those that are shown unasked.
- cells, lines, columns: of the visible code up to Recall; lines without blank ones, the longest.
- scroll: of a hundred blocks of code and printed text, those that scroll sideways, and the number
  of formulas that do; with every fold open.

In the notebook, without sections "Appendix":

- schematics: cells that call a function of the chapter's `schematics`, and cells without visible
  code whose output is a drawing (image/svg+xml).
- recall questions: the directive `recall`.
- unanswered: the questions about a widget that no `seen` answers. They stand in the widget's
  section, from one heading to the next, before or after it: a sentence outside directives that ends
  in a question mark, or an item of a list that has one or tells the reader to do something (an
  imperative such as set, drag or compare, at the start of a clause). A question is answered if a
  `seen` or an `outcome` follows it before the next heading.
- adjacent: pairs of visible code cells with no visible word between them; the caption of a figure
  is one. An exercise's stub and its check are no such pair.

For the chapters in form (IN_FORM) tests hold the counts that must be zero (ZERO) and those of the
notebook that HELD names. The others are reported: a length at its limit is a reason to look again,
no success.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from markdown_it.token import Token
from playwright.sync_api import Page, sync_playwright

from build.source.myst import PARSER, Fence, directive
from scripts import chromium

ROOT = Path(__file__).resolve().parent.parent
HTML = ROOT / "_build" / "html"

# The chapters that are held to the bars: those in the new form.
IN_FORM: tuple[str, ...] = (
    "seq2seq",
    "attention_seq2seq",
    "attention_layer",
    "self_attention",
    "multi_head",
    "transformer",
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
    """What is counted of a notebook, in the order of the table."""

    schematics: int
    recalls: int
    unanswered: int
    adjacent: int


class PageForm(NamedTuple):
    """What is counted of a page, in the order of the table."""

    words: int
    folded: int
    tests: int
    predictions: int
    unasked: int
    cells: int
    lines: int
    columns: int
    scroll: int
    formulas: int


LEAST, MOST = Form(3, 5, 0, 0), Form(sys.maxsize, sys.maxsize, 0, 0)
# What is held; the others are marked in the table beyond these limits.
ZERO = ("tests", "unasked", "formulas")
HELD = ("schematics", "recalls", "unanswered")
LIMITS = {"words": 1700, "predictions": 3, "cells": 18, "lines": 140, "columns": 72, "scroll": 10}
PHONE = 390
COUNT = """() => {
  const article = document.querySelector(".bd-article");
  const lastOf = (root) => [...root.querySelectorAll("section > h2")]
    .find((one) => /^(Recall|Exercises)/.test(one.textContent))?.parentElement;
  const end = lastOf(article);
  const isBefore = (node) => !end
    || Boolean(node.compareDocumentPosition(end) & Node.DOCUMENT_POSITION_FOLLOWING);
  const words = (node) => node.textContent.split(/\\s+/)
    .filter((word) => /[\\p{L}\\p{N}·]/u.test(word)).length;
  /** Its text alone: a formula in a line is one word. */
  const bare = (node, left) => {
    const copy = node.cloneNode(true);
    const none = "pre, script, svg, button, .math-block, .cell_input, .printed, .headerlink,"
      + ".term-tip, .ask-row, .ask-label, .check, .waiting";
    for (const one of copy.querySelectorAll(`${left}, ${none}`)) one.remove();
    for (const one of copy.querySelectorAll("math, code")) one.replaceWith("·");
    for (const one of copy.querySelectorAll("*")) one.append(" ");
    return copy;
  };
  const prose = article.cloneNode(true);
  for (let node = lastOf(prose); node;) [node] = [node.nextElementSibling, node.remove()];
  const closed = "details:not(.chapter-map), .dropdown:not(.hint, .solution)";
  const folds = [...article.querySelectorAll(closed)]
    .filter((one) => !one.parentElement.closest("details, .dropdown, .book-widget"));
  const isOpen = (node) => node.checkVisibility() || node.closest(".evidence");
  const code = [...article.querySelectorAll(".cell_input pre")]
    .filter((pre) => isBefore(pre) && isOpen(pre) && !pre.closest("details, .checked"))
    .map((pre) => pre.textContent.split("\\n").filter((line) => line.trim()));
  const first = article.querySelector("section > p");
  const counted = {
    words: words(bare(prose, "details, .dropdown, aside, .book-widget, .checked, .set-up-link")),
    folded: folds.reduce((sum, one) => sum + words(bare(one, ".hint, .solution")), 0),
    tests: [...article.querySelectorAll(".fold, .tag_proof, .tag_listing, .tag_hide-input")]
      .filter((one) => !one.closest(".checked") && (!one.matches(".tag_hide-input")
        || first.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_PRECEDING)).length,
    predictions: article.querySelectorAll(".predict").length,
    unasked: [...article.querySelectorAll(".outcome")]
      .filter((one) => one.checkVisibility()).length,
    cells: code.length,
    lines: code.flat().length,
    columns: Math.max(0, ...code.flat().map((line) => line.length)),
  };
  for (const one of article.querySelectorAll("details")) one.open = true;
  const hidden = article.querySelectorAll(".toggle-hidden");
  for (const one of hidden) one.classList.remove("toggle-hidden");
  for (const one of article.querySelectorAll(".evidence")) one.removeAttribute("hidden");
  window.dispatchEvent(new Event("resize"));
  const isWide = (node) => node.scrollWidth > node.clientWidth + 1;
  const seen = (selector) => [...article.querySelectorAll(selector)]
    .filter((one) => one.checkVisibility());
  const blocks = seen("pre");
  counted.scroll = Math.ceil((100 * blocks.filter(isWide).length) / Math.max(blocks.length, 1));
  counted.formulas = seen(".math-block").filter(isWide).length;
  return counted;
}"""


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
            before = None if caption(cell) else before
            continue
        adjacent += before is not None and "exercise" not in tags(before)
        before = cell

    return Form(
        schematics=sum(
            calls(cell, drawn)
            or ("remove-input" in tags(cell) and bool(outputs(cell, "image/svg+xml")))
            for cell in code
        ),
        recalls=sum(fence.name == "recall" for fence in found),
        unanswered=unanswered(passed),
        adjacent=adjacent,
    )


def measure_page(page: Page, path: Path) -> PageForm:
    """Open a built page on a phone and count; `page` belongs to a context without answers."""
    page.set_viewport_size({"width": PHONE, "height": 844})
    page.goto(path.as_uri())
    page.evaluate("document.fonts.ready")
    return PageForm(**page.evaluate(COUNT))


def misses(form: Form) -> list[str]:
    """The bars that a notebook misses, by name."""
    bars = zip(form._fields, form, LEAST, MOST, strict=True)
    return [name for name, value, least, most in bars if not least <= value <= most]


def beyond(form: PageForm) -> list[str]:
    """What of a page is beyond its limit, by name."""
    limits = LIMITS | dict.fromkeys(ZERO, 0) | {"folded": form.words}
    found = [name for name, most in limits.items() if getattr(form, name) > most]
    return found + ([] if form.predictions else ["predictions"])


def chapters() -> dict[str, Path]:
    """The notebooks by the names of their chapters."""
    return {path.stem[3:]: path for path in sorted((ROOT / "book").glob("[0-9][0-9]_*.ipynb"))}


def row(name: str, values: tuple[int, ...], fields: tuple[str, ...], marked: list[str]) -> str:
    """A line of the table; a star behind each value that is marked."""
    cells = (
        f"{value:>11,}{'*' if field in marked else ' '}"
        for field, value in zip(fields, values, strict=True)
    )
    return f"{name:24}{''.join(cells)}"


def main() -> int:
    pages = {chapter: HTML / "book" / f"{path.stem}.html" for chapter, path in chapters().items()}
    missing = [path for path in pages.values() if not path.exists()]
    if missing:
        sys.exit(f"expected the built book, but {missing[0]} is missing: run make book first")
    fields = (*PageForm._fields, *Form._fields)
    print(f"{'':24}" + "".join(f"{name:>12}" for name in fields))
    failed = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.executable(), args=["--no-sandbox"]
        )
        page = browser.new_page()
        for chapter, path in chapters().items():
            form = measure_page(page, pages[chapter])
            of_notebook = measure(json.loads(path.read_text(encoding="utf-8")))
            marked = beyond(form) + misses(of_notebook)
            print(row(path.stem, (*form, *of_notebook), fields, marked))
            held = {*HELD, *ZERO} & {*marked}
            failed += [chapter] if held and chapter in IN_FORM else []
        browser.close()
    print("* beyond its limit" + (f"; expected in form: {' '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

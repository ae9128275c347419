"""Tests, listings and set-up: what stands in the text of a page, and what at its end."""

from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbformat.v4 import new_markdown_cell, new_output
from sphinx.errors import ExtensionError

from build.doctree.folds import fold_of, spoken, words
from build.pages.search import read_page
from tests.build.test_questions import OUTCOME, PREDICT, build, soup
from tests.question_book import code, heading, notebook

# The smallest picture.
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


def text(markdown: str) -> nbformat.NotebookNode:
    return new_markdown_cell(markdown)


def proof(line: str = "Tested: equal.", **metadata: str) -> nbformat.NotebookNode:
    cell = code("assert 1", ["proof"], "printed\n", line)
    cell.metadata |= metadata
    return cell


def page_of(folder: Path, *cells: nbformat.NotebookNode) -> BeautifulSoup:
    folder.mkdir()
    nbformat.write(notebook(heading("Page"), *cells), folder / "page.ipynb")
    out, said = build(folder)
    assert said == ""
    return soup(out / "page.html")


def before(page: BeautifulSoup, number: int) -> str:
    """The text of the element that holds a mark, up to the mark."""
    mark = page.select_one(f"#check-{number}-mark")
    return " ".join("".join(part.text for part in reversed([*mark.previous_siblings])).split())


@pytest.mark.parametrize(
    ("tag", "said", "mark", "line"),
    [
        ("proof", "Tested: equal to `naive`.", "Check 1: Equal to naive", "Equal to naive."),
        ("proof", "equal within $10^{-10}$", "Check 1: Equal within 10^-10", "Equal within"),
        ("proof", "Tested, three seeds: equal.", "Check 1: Three seeds", "Three seeds: equal."),
        ("listing", "Listing: `attention`.", "Listing 1: `attention", "attention."),
        ("listing", "The layer.", "Listing 1: The layer", "The layer."),
    ],
)
def test_a_mark_says_the_line_and_leads_to_the_whole_cell(tag, said, mark, line, tmp_path):
    cell = code("assert 1", [tag], "printed\n", said)
    page = page_of(tmp_path / "book", text("A sentence."), cell, text("Another."))
    (link,) = page.select("a.check")
    assert link.parent.name == "p"
    assert link.parent.text.startswith("A sentence.")
    assert link["aria-label"].startswith(mark.replace("`", ""))
    entry = page.select_one(link["href"])
    fold = entry.select_one("details.fold")
    assert not fold.has_attr("open")
    assert fold.summary.text.startswith(line)
    assert "assert 1" in fold.select_one(".cell_input").text
    assert "printed" in fold.select_one(".cell_output").text
    assert entry.select_one(".check-back a")["href"] == f"#{link['id']}"
    assert [one.text[:22] for one in page.select("h2")] == ["Checked in this chapte"]
    assert not page.select(".cell:not(.checked *)")


PLACES = {
    "paragraph": ("One.\n\nTwo.", "Two."),
    "list": ("- one\n- two", "two"),
    "quotation": ("> Said.", "Said."),
    "note": ("```{note}\nOne.\n\nTwo.\n```", "Two."),
    "behind a margin note": ("Text.\n\n```{sidebar} Aside\nNote.\n```", "Text."),
    "formula": ("Text.\n\n$$\na = b\n$$", ""),
    "heading": ("Text.\n\n## Part", ""),
    "seen": ("```{seen}\nIt moves.\n```", "It moves."),
    "prediction": (PREDICT + OUTCOME, "So it is."),
    "role": ("One{check}`here` and two.", ""),
}


@pytest.mark.parametrize(("markdown", "found"), PLACES.values(), ids=PLACES)
def test_the_mark_stands_at_the_end_of_the_text_before(markdown, found, tmp_path):
    cell = proof(check="here") if "{check}" in markdown else proof()
    page = page_of(tmp_path / "book", text(markdown), cell)
    assert before(page, 1) == found
    if "{check}" in markdown:
        assert page.select_one("#check-1-mark").find_parent("p").text.split() == [
            *("One", "1", "and", "two.")
        ]


def test_marks_follow_each_other_over_open_cells_and_captions(tmp_path):
    figure = code("plot()", ["remove-input"])
    figure.metadata["mystnb"] = {"figure": {"caption": "A picture.", "name": "fig-a"}}
    figure.outputs = [new_output("display_data", data={"image/png": PIXEL})]
    page = page_of(
        tmp_path / "book",
        text("Text."),
        code("1", []),
        proof(),
        proof(),
        text("More."),
        figure,
        proof(),
    )
    assert [before(page, n) for n in (1, 2)] == ["Text.", "Text. 1"]
    assert page.select_one("#check-3-mark").find_parent("figcaption") is not None


def test_between_a_widget_and_what_was_seen_the_mark_belongs_to_what_was_seen(tmp_path):
    seen = "```{seen}\nIt moves.\n```"
    page = page_of(
        tmp_path / "book", text("Drag it. What moves?"), code("W()", []), proof(), text(seen)
    )
    assert before(page, 1) == "It moves."


def test_what_proves_an_outcome_is_marked_there_and_not_at_the_question(tmp_path):
    page = page_of(tmp_path / "book", text(PREDICT), code("1", []), proof(), text(OUTCOME))
    assert before(page, 1) == "So it is."
    assert page.select_one(".evidence #check-1-mark")


def test_the_set_up_stands_at_the_end_and_the_first_open_cell_leads_there(tmp_path):
    setup = [code(f"import {name}", ["hide-input"]) for name in ("math", "time")]
    page = page_of(tmp_path / "book", *setup, text("A sentence."), code("1", []), proof())
    fold = page.select_one("details.set-up")
    assert not fold.has_attr("open")
    assert [cell.text.strip() for cell in fold.select(".cell_input")] == [
        "import math",
        "import time",
    ]
    assert not fold.select("details")
    (link,) = page.select(".set-up-link a")
    assert page.select_one(link["href"]) is fold
    assert "1" in link.find_parent("p").find_next_sibling(class_="cell").text
    assert page.select_one("h1").find_next_sibling().text == "A sentence.\xa01"


def test_a_margin_note_that_stood_before_a_test_stays_beside_its_text(tmp_path):
    note = "```{sidebar} Aside\nNote.\n```"
    page = page_of(
        tmp_path / "book", text(f"One.\n\nTwo.\n\n{note}"), proof(), text("## Part\n\nThree.")
    )
    assert page.select_one("aside").find_next_sibling().text.startswith("Two.")


def test_without_tests_the_set_up_needs_no_heading(tmp_path):
    page = page_of(tmp_path / "book", code("import math", ["hide-input"]), text("A sentence."))
    assert not page.select("h2")
    assert page.select_one("section > div.checked > details.set-up")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("", "a cell tagged 'proof' needs its one visible line"),
        ("Tested:", "a cell tagged 'proof' needs its one visible line"),
        ("see [this](index.md)", "expected text, code and formulas"),
    ],
)
def test_a_test_without_its_line_stops_the_build(said, message, tmp_path):
    with pytest.raises(ExtensionError, match=message) as error:
        page_of(tmp_path / "book", proof(said))
    assert "page.ipynb, cell 2, line " in str(error.value)


def test_a_place_without_its_cell_stops_the_build(tmp_path):
    with pytest.raises(ExtensionError, match=r'expected a proof .* \{"check": "here"\}'):
        page_of(tmp_path / "book", text("One{check}`here` and two."), proof(check="there"))


def test_search_finds_no_marks_and_no_entries(tmp_path):
    page = page_of(tmp_path / "book", text("A sentence."), proof())
    entries = read_page(f"<article>{page.h1.parent}</article>")
    assert [one.text for entry in entries for one in entry.paragraphs] == ["A sentence."]
    assert [entry.title for entry in entries] == ["Page"]


def test_a_line_is_read_out_without_its_markup():
    said = {"mystnb": {"code_prompt_show": "Tested: `f(x)` is $x^2$."}}
    kind, mark, line = fold_of(["proof"], said)
    assert (kind, mark, spoken(words(line))) == ("proof", "Tested", "f(x) is x^2")

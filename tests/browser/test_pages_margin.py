"""The margin notes: beside their paragraph and over nothing else; in the text of a narrow page."""

import pytest
from playwright.sync_api import Browser

from tests.paths import BOOK, HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
CHAPTERS = [path.stem for path in sorted(BOOK.glob("[0-9]*.ipynb"))]
# What a note covers, how far below its own top the next part of the text begins, and its right end.
MEASURE = """() => {
  const box = (part) => part.getBoundingClientRect();
  const meet = (a, b) => a.left < b.right - 1 && a.right > b.left + 1
    && a.top < b.bottom - 1 && a.bottom > b.top + 1;
  const parts = [...document.querySelectorAll(
    ".bd-article :is(p, pre, img, table, .bw, .math-block, aside.margin)")]
    .filter((part) => part.checkVisibility());  // what a closed fold holds has a box all the same
  return [...document.querySelectorAll("aside.margin")].map((note) => ({
    text: note.innerText.slice(0, 40),
    covers: parts.filter((part) => part !== note && !note.contains(part)
      && box(part).width && meet(box(note), box(part))).map((part) => part.outerHTML.slice(0, 80)),
    beside: box(note).left >= box(note.nextElementSibling).right,
    lower: box(note).top - box(note.nextElementSibling).top,
    right: box(note).right,
    inside: note.scrollWidth <= note.clientWidth,
  }));
}"""


def notes(browser: Browser, name: str, width: int):
    page = browser.new_page(viewport={"width": width, "height": 900})
    try:
        page.goto((HTML / "book" / f"{name}.html").as_uri(), wait_until="domcontentloaded")
        return page.evaluate(MEASURE)
    finally:
        page.close()


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_note_stands_beside_its_paragraph(browser: Browser, name: str):
    found = notes(browser, name, 1200)
    assert found
    for note in found:
        assert note["covers"] == []
        assert note["beside"], note
        assert -5 <= note["lower"] <= 30, note
        assert note["right"] <= 1200
        assert note["inside"], note


def test_a_note_stands_in_the_text_of_a_narrow_page(browser: Browser):
    for note in notes(browser, CHAPTERS[0], 390):
        assert note["covers"] == []
        assert not note["beside"]
        assert note["right"] <= 390

"""Numbers in the built book, of chapters and within them, and the links that say one.

Run `make book` first; `make test` does.
"""

import re

import pytest
import yaml
from bs4 import Tag

from tests.browser.built import page
from tests.paths import ROOT

pytestmark = pytest.mark.built
PARTS = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
NAMES = {
    numbered: [
        entry["file"][5:]
        for part in PARTS
        if ("numbered" in part) == numbered
        for entry in part["chapters"]
    ]
    for numbered in (True, False)
}
CHAPTERS, UNNUMBERED = NAMES[True], NAMES[False]
NUMBERS = {name: number for number, name in enumerate(CHAPTERS, 1)}
PAGES = [*CHAPTERS, *UNNUMBERED, "intro"]
SITE = "The Transformer, Piece by Piece"
COUNTED = re.compile(r"(Exercise|Figure|Table) \d+\.\d+")


def text(tag: Tag) -> str:
    return " ".join(tag.get_text().split()).removesuffix("#")


def heading(name: str) -> str:
    return text(page(name).select_one("article h1"))


def captions(name: str) -> dict[str, str]:
    """What is counted on a page, "Exercise 3.2", by the id to which a link leads, in its order."""
    found = {}
    for number in page(name).select("article .caption-number"):
        found[number.find_parent(id=True)["id"]] = text(number)
    return found


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_the_name_of_a_file_has_the_number_of_its_chapter(name, number):
    assert name.startswith(f"{number:02}_"), f"{name} is chapter {number} in _toc.yml: rename it"


@pytest.mark.parametrize("name", PAGES)
def test_a_title_is_the_same_wherever_it_stands(name):
    title = heading(name)
    if name in NUMBERS:
        assert title.startswith(f"{NUMBERS[name]}. ")
    else:
        assert not re.match(r"\d", title)
    assert page(name).title.get_text() == f"{title} — {SITE}"
    assert page(name).find("meta", property="og:title")["content"] == title
    assert text(page(name).select_one("#jb-print-docs-body h1")) == title  # on paper, in the PDF
    for other in (CHAPTERS[0], UNNUMBERED[0]):
        links = {
            a["href"].removesuffix(".html"): text(a) for a in page(other).select(".bd-docs-nav a")
        }
        assert links["#" if name == other else name] == title


@pytest.mark.parametrize("name", CHAPTERS)
def test_the_next_page_is_named_by_its_number(name):
    for link in page(name).select(".prev-next-area a"):
        assert text(link.select_one(".prev-next-title")) == heading(link["href"][: -len(".html")])


@pytest.mark.parametrize("name", PAGES)
def test_a_link_that_says_a_number_leads_there(name):
    for link in page(name).select("article a[href]"):
        target, _, anchor = link["href"].partition("#")
        leads_to = target.removesuffix(".html") or name
        if chapter := re.fullmatch(r"chapter (\d+)", text(link), re.IGNORECASE):
            assert NUMBERS.get(leads_to) == int(chapter.group(1)), link
        elif COUNTED.fullmatch(text(link)):
            assert captions(leads_to)[anchor] == text(link), link


@pytest.mark.parametrize(("name", "number"), NUMBERS.items())
def test_what_is_counted_is_counted_within_its_chapter(name, number):
    labels = [*captions(name).values()]
    for kind in ("Exercise", "Figure", "Table"):
        own = [label for label in labels if label.startswith(kind)]
        assert own == [f"{kind} {number}.{one}" for one in range(1, len(own) + 1)]
    assert len(page(name).select("article figure")) == sum(x.startswith("Figure") for x in labels)
    tables = page(name).select("article table.table")  # those of the text, none of an output
    assert len(tables) == sum(label.startswith("Table") for label in labels)
    exercises = page(name).select("div.exercise")
    assert len(exercises) >= 5
    solutions = page(name).select("div.solution .admonition-title")
    assert [text(title).removeprefix("Solution to ") for title in solutions] == [
        text(exercise.select_one(".admonition-title")) for exercise in exercises
    ]

"""The map in the built pages: where it stands, and what its parts lead to."""

import pytest

from build.directives.map import chapters
from tests.browser.built import page
from tests.paths import HTML, ROOT

pytestmark = pytest.mark.built
KNOWN = chapters(ROOT)
PAGES = {concept: chapter.address.removesuffix(".html") for concept, chapter in KNOWN.items()}


def test_the_chapters_are_those_of_the_contents_in_their_order():
    assert [chapter.number for chapter in KNOWN.values()] == list(range(1, len(KNOWN) + 1))
    assert KNOWN["masking"].title == "Masking"


@pytest.mark.parametrize("concept", KNOWN)
def test_a_chapter_begins_with_the_map_and_its_own_part_is_lit(concept):
    tree = page(PAGES[concept])
    (details,) = tree.select("details.chapter-map")
    assert details.find_previous_sibling().name == "h1"
    assert not details.has_attr("open")
    line = f"Where chapter {KNOWN[concept].number} fits: {KNOWN[concept].here}"
    assert details.summary.get_text() == line
    assert details.select("summary rect.on")
    lit = {link["href"] for link in details.select("a[aria-current=page]")}
    assert lit == {KNOWN[concept].address}
    heading = tree.h1.find(string=True, recursive=False) or tree.h1.get_text()
    assert KNOWN[concept].title in heading


@pytest.mark.parametrize("name", ["intro", *PAGES.values()])
def test_every_part_leads_to_its_chapter(name):
    links = page(name).select("svg.sch a")
    titles = {chapter.address: chapter for chapter in KNOWN.values()}
    assert {link["href"] for link in links} == titles.keys()
    for link in links:
        chapter = titles[link["href"]]
        assert link["aria-label"].endswith(f" {chapter.number}: {chapter.title}")
        assert (HTML / "book" / chapter.address).exists()


def test_pages_without_the_map_do_not_load_its_style():
    for name, used in (("intro", True), ("03_attention_layer", True), ("glossary", False)):
        sheets = [link["href"] for link in page(name).select("link[rel=stylesheet]")]
        assert any("schematics.css" in sheet for sheet in sheets) == used, name

"""The map: each chapter is on it, and the chapter asked for is lit."""

import re
from xml.etree import ElementTree

import pytest

from drawing.book_map import Chapter, small_map, translator_map
from scripts import house

KNOWN = {
    name: Chapter(n, name, f"{name}.html", "") for n, name in enumerate(house.chapters(), start=1)
}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("lit", ["", *KNOWN])
def test_each_part_leads_to_its_chapter_and_its_own_is_lit(lit):
    tree = ElementTree.fromstring(translator_map(KNOWN, lit).svg())
    found = {}
    for link in tree.iter(f"{SVG}a"):
        name = link.get("href").removesuffix(".html")
        words, number = ("".join(node.itertext()) for node in link.iter(f"{SVG}text"))
        assert link.get("aria-label") == f"{words} {number}: {name}"
        assert number == str(KNOWN[name].number)
        kinds = {node.get("class") for node in link.iter(f"{SVG}g")}
        assert kinds == {"lit" if name == lit else "plain"}
        assert link.get("aria-current") == ("page" if name == lit else None)
        found[name] = words
    assert found.keys() == KNOWN.keys()


def test_a_book_with_other_chapters_is_refused():
    with pytest.raises(ValueError, match=r"got none for \['recurrence'\]"):
        translator_map(KNOWN | {"recurrence": Chapter(18, "", "", "")})
    fewer = {name: chapter for name, chapter in KNOWN.items() if name != "decoding"}
    with pytest.raises(ValueError, match="expected a chapter 'decoding' for 'Choose a word'"):
        translator_map(fewer)


@pytest.mark.parametrize("lit", KNOWN)
def test_the_small_picture_has_the_same_parts_and_the_same_lit(lit):
    names = [part.name for part in translator_map(KNOWN).parts if part.name in KNOWN]
    drawn = re.findall(r'<rect class="(on|off)"', small_map(KNOWN, lit))
    assert drawn == ["on" if name == lit else "off" for name in names]
    assert 'aria-hidden="true"' in small_map(KNOWN, lit)

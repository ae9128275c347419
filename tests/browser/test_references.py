"""The list of references in the built book: every entry has its link, every citation its entry.

Run `make book` first; `make test` does.
"""

import re
from urllib.parse import urlsplit

import pytest

from tests.browser.built import page
from tests.paths import BOOK, HTML

pytestmark = pytest.mark.built
HOSTS = {
    "arxiv.org",
    "cdn.openai.com",
    "doi.org",
    "images.nvidia.com",
    "jmlr.org",
    "karpathy.github.io",
    "stacks.stanford.edu",
    "transformer-circuits.pub",
    "www.jstor.org",
    "www.kybernetika.cz",
    "www.lesswrong.com",
}


@pytest.fixture(scope="module")
def entries() -> dict:
    """Each entry of the list by its id, in its order."""
    found = page("bibliography").select("#references > ul > li")
    return {entry["id"]: entry for entry in found}


def test_every_source_is_in_the_list(entries):
    text = (BOOK / "references.bib").read_text(encoding="utf-8")
    assert set(entries) == set(re.findall(r"^@\w+\{(\w+),$", text, re.MULTILINE))


def test_every_entry_leads_to_its_paper(entries):
    links = {name: [a["href"] for a in entry.select("a")] for name, entry in entries.items()}
    assert [name for name, found in links.items() if len(found) != 1] == []
    addresses = [urlsplit(address) for (address,) in links.values()]
    assert {address.scheme for address in addresses} == {"https"}
    assert {address.netloc for address in addresses} == HOSTS
    assert len(set(addresses)) == len(addresses)


def test_entries_show_no_markup_and_say_author_and_year_first(entries):
    for entry in entries.values():
        text = entry.get_text()
        assert not re.search(r"[\\{}\[\]]|^\d", text), text
        assert re.match(r"[^()]+ \((19|20)\d\d[a-z]?\)\. \S", text), text


def test_entries_are_sorted_by_their_authors(entries):
    plain = str.maketrans("éèüłŁ", "eeull")
    names = [re.split(r",| \(", text.get_text())[0] for text in entries.values()]
    first = [name.translate(plain).lower() for name in names]
    assert first == sorted(first)


@pytest.mark.parametrize("name", sorted(path.stem for path in (HTML / "book").glob("*.html")))
def test_a_citation_leads_to_the_entry_of_its_year(name, entries):
    for link in page(name).select('article a[href^="bibliography.html#"]'):
        entry = entries[link["href"].partition("#")[2]]
        year = re.search(r"\((\d{4}[a-z]?)\)", entry.get_text()).group(1)
        assert link.get_text().endswith(year), link

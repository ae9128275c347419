"""The built book as files: links lead somewhere, nothing comes from elsewhere, formulas are set.

Run `make book` first; `make test` does.
"""

import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from fontTools.ttLib import TTFont
from fontTools.ttLib.tables._g_l_y_f import USE_MY_METRICS

from build.directives import runs
from build.source.rooms import rooms
from tests.paths import BOOK, HTML, ROOT

pytestmark = pytest.mark.built
PAGES = sorted(path for path in HTML.rglob("*.html") if "_static" not in path.parts)
LOADS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src")}


class Page(HTMLParser):
    """The parts of a page that the tests ask about."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.links, self.loaded, self.ids, self.images, self.modules = [], [], set(), [], []
        self.own_ids: list[str] = []
        self.scripts, self.headings, self.late = [], 0, []
        self.meta: dict[str, str] = {}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids |= {values[key] for key in ("id", "name") if values.get(key)}
        if values.get("id"):
            self.own_ids.append(values["id"])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "meta" and values.get("content"):
            self.meta[values.get("property") or values.get("name")] = values["content"]
        if tag == "link" and values.get("rel") == "canonical":
            self.meta["canonical"] = values["href"]
        self.headings += tag == "h2"
        if tag == "script" and values.get("src"):
            self.scripts.append(values)
        if tag == "img":
            self.images.append(values)
            if self.headings:
                self.late.append(values)
        if "book-widget" in (values.get("class") or "").split():
            self.modules.append(values.get("data-module"))
        for key, value in attributes:
            if (tag, key) in LOADS and value:
                self.loaded.append(value)
        if tag == "link" and values.get("rel") in ("stylesheet", "preload", "icon"):
            self.loaded.append(values["href"])


@cache
def read(path):
    """A page, parsed once."""
    return Page(path)


@pytest.fixture(scope="module", params=PAGES, ids=lambda path: str(path.relative_to(HTML)))
def page(request):
    return read(request.param)


def test_the_book_is_built():
    built = {path.stem for path in PAGES}
    assert {path.stem for path in BOOK.glob("[0-9]*.ipynb")} <= built


def test_nothing_is_loaded_from_elsewhere(page):
    foreign = [url for url in page.loaded if urlsplit(url).netloc]
    assert not foreign


def test_styles_load_nothing_from_elsewhere():
    for path in HTML.rglob("*.css"):
        found = re.findall(r"url\(['\"]?(?:https?:)?//[^)]*|@import[^;]*//[^;]*", path.read_text())
        assert not found, path


@pytest.mark.parametrize("name", ["text", "text-bold", "text-italic", "math"])
def test_glyphs_have_the_widths_of_their_table(name):
    """One made of others can ask for the width of one of them: WebKit on Linux follows it."""
    font = TTFont(HTML / "_static" / "fonts" / f"{name}.woff2")
    glyphs = [font["glyf"][one] for one in font.getGlyphOrder()] if "glyf" in font else []
    parts = [part for glyph in glyphs if glyph.isComposite() for part in glyph.components]
    assert not any(part.flags & USE_MY_METRICS for part in parts)


def test_links_within_the_book_lead_somewhere(page):
    dead = []
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
        if not target.exists():
            dead.append(link)
        elif parts.fragment and target.suffix == ".html":
            ids = page.ids if target == page.path else read(target).ids
            if unquote(parts.fragment) not in ids:
                dead.append(link)
    assert not dead


def test_no_identifier_stands_twice(page):
    assert [one for one, count in Counter(page.own_ids).items() if count > 1] == []


def test_checks_of_exercises_show_no_error(page):
    """Nobody has answered yet; the errors of mistakes, which teach, stay."""
    text = page.path.read_text(encoding="utf-8")
    for part in re.split(r'<div class="cell (?=tag_exercise)', text)[1:]:
        stub, check, *_ = part.split('<div class="cell ')
        assert "tag_raises-exception" in check
        assert "traceback" not in stub + check


def test_images_have_alt_text(page):
    assert all((image.get("alt") or "").strip() for image in page.images)


def test_images_keep_their_place_and_load_when_needed(page):
    """A size each, so that the text does not jump; below the first part they load late."""
    assert [i["src"] for i in page.images if not (i.get("width") and i.get("height"))] == []
    assert [i["src"] for i in page.late if i.get("loading") != "lazy"] == []


def test_no_script_holds_up_the_text(page):
    holding = [s["src"] for s in page.scripts if "defer" not in s and "async" not in s]
    assert holding == []


def test_formulas_are_set(page):
    text = page.path.read_text(encoding="utf-8")
    assert 'class="math notranslate' not in text
    visible = re.sub(r"<(script|style|pre|code|math).*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r"\$\$|\\frac|\\mathrm", re.sub(r"<[^>]*>", "", visible))


def test_widgets_find_their_scripts(page):
    for module in page.modules:
        assert (HTML / "_static" / "widgets" / f"{module}.js").exists()


TEXTS = [path for path in PAGES if path.parent.name == "book"]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_a_shared_link_shows_what_the_page_is(path):
    meta = read(path).meta
    assert meta["canonical"] == meta["og:url"]
    assert meta["og:url"].endswith(f"/book/{path.name}")
    assert meta["og:title"]
    card = HTML / "_static" / "card.png"
    assert meta["og:image"].endswith("/_static/card.png")
    assert card.exists()
    if path.stem[:2].isdigit():
        assert meta["og:description"] == meta["description"]
        assert 60 <= len(meta["description"]) <= 202


def test_descriptions_differ():
    found = [read(path).meta.get("description") for path in TEXTS if path.stem[:2].isdigit()]
    assert len(set(found)) == len(found)


def test_the_map_of_the_site_lists_every_text():
    text = (HTML / "sitemap.xml").read_text(encoding="utf-8")
    listed = re.findall(r"<loc>([^<]*)</loc>", text)
    assert sorted(listed) == sorted(read(path).meta["canonical"] for path in TEXTS)


def section(path, name):
    """The part of a page from the element with this id to the end of its article."""
    text = path.read_text(encoding="utf-8")
    return text[text.index(f'id="{name}"') : text.index("</article>")]


def test_the_first_page_leads_to_every_chapter_in_its_part():
    """The path repeats the plan of the book: the same parts, the same chapters, in one order."""
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))["parts"]
    plan = [
        item
        for part in parts
        if "numbered" in part
        for item in (part["caption"], *(entry["file"][5:] for entry in part["chapters"]))
    ]
    path = section(HTML / "book" / "intro.html", "the-path-through-the-chapters")
    path = path[: path.index('id="how-the-book-works"')]
    found = re.findall(r'<h3>([^<]*)|<li><p><a[^>]*href="([^"]*)\.html"', path)
    assert [caption or chapter for caption, chapter in found] == plan


def test_the_page_of_runs_lists_every_chapter_and_says_what_is_missing():
    text = (HTML / "book" / "what_was_run.html").read_text(encoding="utf-8")
    body = [re.sub(r"<[^>]*>", "", row) for row in re.findall(r"<tr.*?</tr>", text, re.DOTALL)]
    records = {chapter: runs.read_runs(chapter.folder) for chapter in rooms(ROOT)}
    for chapter, record in records.items():
        name = f"{chapter.number}. {runs.title(chapter.notebook)}"
        assert len([row for row in body if name in row]) == len(record or [""])
    unmeasured = not any("gpu" in record for record in records.values())
    assert ("No chapter has been timed on a GPU yet." in text) == unmeasured

"""The marks of tests in a browser: opened in place by any means, a link where no script runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from build.doctree.outputs import hang_lines
from scripts import form, make_epub
from tests import question_book
from tests.browser import axe

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return question_book.build(tmp_path_factory.mktemp("book") / "small")


@pytest.fixture
def reader(browser: Browser, book: Path) -> Iterator[Page]:
    """The chapter as a file, without a server."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    problems: list[str] = []
    context.on("weberror", lambda error: problems.append(str(error.error)))
    page = context.new_page()
    page.goto((book / "book" / "03_layer.html").as_uri())
    yield page
    context.close()
    assert problems == []


def marks(page: Page):
    return page.get_by_role("button", name="Check ")


def test_a_mark_opens_its_test_below_its_paragraph_and_closes_it(reader: Page):
    first, second = marks(reader).all()
    expect(first).to_have_accessible_name("Check 1: Equal to naive, within 10^-10")
    first.click()
    expect(first).to_have_attribute("aria-expanded", "true")
    panel = reader.get_by_role("group", name="Equal to naive")
    expect(panel.get_by_text("assert 1 == 1")).to_be_visible()
    assert panel.evaluate(
        "(node) => node.previousElementSibling.contains(document.querySelector('#check-1-mark'))"
    )
    assert "#" not in reader.url
    second.click()
    expect(reader.get_by_text("assert 2 == 2")).to_be_visible()
    expect(panel).to_be_visible()
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_have_count(0)
    expect(first).to_be_focused()
    expect(first).to_have_attribute("aria-expanded", "false")


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_by_keyboard(key: str, reader: Page):
    mark = marks(reader).first
    mark.focus()
    reader.keyboard.press(key)
    expect(reader.get_by_text("assert 1 == 1")).to_be_visible()
    reader.keyboard.press("Escape")
    expect(reader.locator(".check-open")).to_have_count(0)
    expect(mark).to_be_focused()


def test_an_entry_leads_back_and_takes_its_test_back(reader: Page):
    marks(reader).first.click()
    entry = reader.locator("#check-1")
    entry.locator("summary").click()
    expect(reader.locator(".check-open")).to_have_count(0)
    expect(entry.get_by_text("assert 1 == 1")).to_be_visible()
    entry.get_by_role("link", name="Back to the text of check 1").click()
    expect(marks(reader).first).to_be_in_viewport()
    assert reader.url.endswith("#check-1-mark")
    reader.go_back()
    expect(entry).to_be_in_viewport()


@pytest.mark.parametrize("anchor", ["check-2", "set-up", "shown-1"])
def test_a_link_to_an_entry_opens_it(anchor: str, reader: Page):
    reader.evaluate(f"location.hash = '{anchor}'")
    entry = reader.locator(f"#{anchor}")
    expect(entry.locator(".cell_input").first).to_be_visible()
    expect(entry).to_be_in_viewport()


def test_contents_name_the_section_and_no_test_stands_in_the_text(reader: Page):
    contents = reader.locator(".bd-toc-nav, .bd-sidebar-secondary").first
    assert "Checked in this chapter" in contents.inner_text()
    assert reader.locator(".bd-article .fold:not(.checked *)").count() == 0
    assert reader.locator("h2").last.inner_text().startswith("Checked in this chapter")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_open_tests_are_accessible(theme: str, reader: Page):
    for mark in reader.locator("a.check").all():
        mark.click()
    for summary in reader.locator(".fold > summary").all():
        summary.click()
    reader.locator("a.check").first.click()
    reader.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    assert axe.violations(reader) == []


def test_a_finger_finds_the_mark(browser: Browser, book: Path):
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto((book / "book" / "03_layer.html").as_uri())
    for mark in page.locator("a.check").all():
        width, height = mark.evaluate(
            """(node) => {
              const style = getComputedStyle(node, "::after");
              return [parseFloat(style.width), parseFloat(style.height)];
            }"""
        )
        assert min(width, height) >= 24
    marks(page).first.tap()
    expect(page.get_by_text("assert 1 == 1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_in_high_contrast_the_mark_is_seen(reader: Page):
    reader.emulate_media(forced_colors="active")
    border = "(node) => getComputedStyle(node).borderTopColor"
    ground = "getComputedStyle(document.body).backgroundColor"
    assert marks(reader).first.evaluate(border) != reader.evaluate(ground)


def test_without_a_script_and_on_paper_a_mark_is_a_link(browser: Browser, book: Path):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((book / "book" / "03_layer.html").as_uri())
    page.get_by_role("link", name="Check 2:").click()
    assert page.url.endswith("#check-2")
    expect(page.locator("#check-2")).to_be_in_viewport()
    page.emulate_media(media="print")
    expect(page.locator("#check-2-mark span")).to_have_text("2")
    expect(page.locator(".fold:visible > summary:visible")).to_have_count(3)
    expect(page.locator(".checked .cell:visible, .set-up:visible")).to_have_count(0)
    context.close()


def test_the_epub_has_the_lines_with_their_links(book: Path):
    page = make_epub.Page(book, "book/03_layer", "https://example.org/")
    make_epub.settle_folds(page)
    for mark in page.section.xpath(".//a[starts-with(@class, 'check ')]"):
        (entry,) = page.section.xpath(f".//*[@id='{mark.get('href')[1:]}']")
        (back,) = entry.xpath(".//*[@class='check-back']/a")
        assert back.get("href") == f"#{mark.get('id')}"
        assert not entry.xpath(".//pre")
    assert not page.section.xpath(".//*[contains(@class, 'set-up')]")


def test_what_is_copied_from_broken_lines_is_the_code(browser: Browser, book: Path):
    """Long lines of code break on a phone, and are whole again where they are pasted."""
    line = "value = first_function(another_one(1, 2), third=3)  # a comment"
    code = f"<span>if</span> x:\n    {line}\n    pass\n"
    html = '<div class="highlight-python notranslate"><div class="highlight"><pre>'
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((book / "book" / "03_layer.html").as_uri())
    page.locator(".bd-article > section").evaluate(
        "(node, html) => { node.innerHTML = html; }", hang_lines(f"{html}{code}</pre></div></div>")
    )
    block = page.locator("pre")
    assert block.locator(".line-1").count() == 1
    assert block.evaluate("(pre) => pre.scrollWidth <= pre.clientWidth")
    assert block.evaluate("(pre) => pre.offsetHeight > 4 * 16")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('pre'))")
    copied = page.evaluate("getSelection().toString()")
    assert copied.strip() == f"if x:\n    {line}\n    pass"
    page.close()


def test_the_form_of_the_small_chapter(browser: Browser, book: Path):
    """Two questions whose outcomes are hidden, no code before Recall, no fold in the text."""
    page = browser.new_page()
    counted = form.measure_page(page, book / "book" / "03_layer.html")
    assert (counted.tests, counted.predictions, counted.unasked) == (0, 2, 0)
    assert (counted.cells, counted.scroll, counted.formulas) == (0, 0, 0)
    assert (counted.words, counted.folded) == (101, 82)
    spoilt = (book / "book" / "03_layer.html").read_text(encoding="utf-8")
    spoilt = spoilt.replace('class="evidence"', 'class="open"').replace("checked", "unchecked")
    (book / "book" / "spoilt.html").write_text(spoilt, encoding="utf-8")
    counted = form.measure_page(page, book / "book" / "spoilt.html")
    assert (counted.tests, counted.unasked) == (7, 2)
    page.close()

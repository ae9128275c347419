"""The first page: one screen says what the book is, and its widget runs."""

import pytest
from playwright.sync_api import Page, expect

from build.pages.pages import DOWNLOADS, link_downloads
from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
ALWAYS = ["h1", ".landing-text li:last-child", "text=Start with chapter 1"]
SCREENS = [
    (1440, 900, [*ALWAYS, ".landing-path li:last-child", ".landing-widget .bw"]),
    (390, 844, ALWAYS),
]


def landing(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto((HTML / "book" / "intro.html").as_uri())
    page.wait_for_selector(".landing-widget .bw")
    page.evaluate("document.fonts.ready")  # the text moves when they come


@pytest.mark.parametrize(("width", "height", "parts"), SCREENS)
@pytest.mark.parametrize("sizes", [{}, dict.fromkeys(DOWNLOADS, 10**7)])
def test_one_screen_says_what_the_book_is(page, width, height, parts, sizes):
    """As built, and as published beside the book in other formats."""
    text = (HTML / "book" / "intro.html").read_text(encoding="utf-8")
    page.route("**/intro.html", lambda route: route.fulfill(
        body=link_downloads(text, sizes), content_type="text/html"))  # fmt: skip
    landing(page, width, height)
    expect(page.locator(".landing-start .book-download")).to_have_count(len(sizes))
    for part in parts:
        box = page.locator(f".bd-article >> {part}").first.bounding_box()
        assert box["y"] >= 0, part
        assert box["y"] + box["height"] <= height, part
        assert box["x"] + box["width"] <= width, part


def test_the_widget_of_the_first_page_moves(page):
    landing(page, 1440, 900)
    widget = page.locator(".landing-widget")
    before = widget.locator(".ap-now").inner_text()
    widget.get_by_role("button", name="Next").click()
    expect(widget.locator(".bw-value").first).to_contain_text("2 of")
    expect(widget.locator(".ap-now")).not_to_have_text(before)


def test_the_start_leads_to_chapter_one(page):
    landing(page, 390, 844)
    page.get_by_role("link", name="Start with chapter 1").click()
    page.wait_for_url("**/01_seq2seq.html")

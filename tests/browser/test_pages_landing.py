"""The first page: one screen says what the book is, and its widget runs."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
ALWAYS = ["h1", ".landing-text li:last-child", "text=Start with chapter 1"]
SCREENS = [
    (1440, 900, [*ALWAYS, ".landing-path li:last-child", ".landing-widget .bw"]),
    (390, 844, ALWAYS),
]


def landing(browser: Browser, width: int, height: int) -> Page:
    page = browser.new_page(viewport={"width": width, "height": height})
    page.goto((HTML / "book" / "intro.html").as_uri())
    page.wait_for_selector(".landing-widget .bw")
    return page


@pytest.mark.parametrize(("width", "height", "parts"), SCREENS)
def test_one_screen_says_what_the_book_is(browser, width, height, parts):
    page = landing(browser, width, height)
    try:
        for part in parts:
            box = page.locator(f".bd-article >> {part}").first.bounding_box()
            assert box["y"] >= 0, part
            assert box["y"] + box["height"] <= height, part
            assert box["x"] + box["width"] <= width, part
    finally:
        page.close()


def test_the_widget_of_the_first_page_moves(browser):
    page = landing(browser, 1440, 900)
    try:
        widget = page.locator(".landing-widget")
        before = widget.locator(".ap-now").inner_text()
        widget.get_by_role("button", name="Next").click()
        expect(widget.locator(".bw-value").first).to_contain_text("2 of")
        expect(widget.locator(".ap-now")).not_to_have_text(before)
    finally:
        page.close()


def test_the_start_leads_to_chapter_one(browser):
    page = landing(browser, 390, 844)
    try:
        page.get_by_role("link", name="Start with chapter 1").click()
        page.wait_for_url("**/01_seq2seq.html")
    finally:
        page.close()

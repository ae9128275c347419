"""The first page: one screen says what the book is, and one press trains a Transformer on it."""

import re
from collections.abc import Callable
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

from build.pages.pages import DOWNLOADS, link_downloads
from tests.browser.weigh import visit
from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
PANEL = ".landing-widget .bw"
ALWAYS = ["h1", ".landing-text p", "text=Start with chapter 1", f"{PANEL} .bw-primary"]
SCREENS = [
    (1440, 900, [*ALWAYS, ".landing-points li:last-child", ".landing-path li:last-child", PANEL]),
    (1280, 800, [*ALWAYS, PANEL]),
    (390, 844, [*ALWAYS, ".now-said"]),
]
HEADER = ".bd-header-article"  # of the page, which stays at its top
STATUS = f"document.querySelector('{PANEL} .lab-status').textContent"
BEFORE_THE_PRESS = 140_000  # bytes over the wire


def landing(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto((HTML / "book" / "intro.html").as_uri())
    page.wait_for_selector(PANEL)
    page.evaluate("document.fonts.ready")  # the text moves when they come


def trained(page: Page, press: Callable[[], None]) -> str:
    press()
    page.wait_for_function(f"() => / done:|✗/.test({STATUS})", timeout=60_000)
    return page.locator(f"{PANEL} .lab-status").inner_text()


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


def test_one_press_trains_a_transformer(page):
    """From a file, too; and each of its links leads to where it says."""
    landing(page, 1440, 900)
    status = trained(page, page.get_by_role("button", name="Train", exact=True).click)
    assert int(re.search(r"right: (\d+)%", status)[1]) >= 90
    box = page.locator(PANEL).bounding_box()
    assert box["y"] + box["height"] <= 900
    addresses = page.locator(f"{PANEL} .now-about a").evaluate_all(
        "(all) => all.map((link) => link.href)"
    )
    assert len(addresses) == 2
    for address in addresses:
        page.goto(address)
        assert page.locator(".bd-article h1").count() == 1, address
        if place := address.partition("#")[2]:
            expect(page.locator(f"[id='{place}'] [data-module=take_out]")).to_have_count(1)


def test_on_a_telephone_the_panel_is_one_screen_after_the_press(browser):
    page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    landing(page, 390, 844)
    trained(page, page.get_by_role("button", name="Train", exact=True).tap)
    page.wait_for_function(
        "(panel) => document.querySelector(panel).getBoundingClientRect().bottom <= innerHeight",
        arg=PANEL,
    )
    box = page.locator(PANEL).bounding_box()
    header = page.locator(HEADER).bounding_box()
    assert box["y"] >= header["y"] + header["height"]
    assert box["y"] + box["height"] <= 844
    page.close()


def test_the_start_leads_to_chapter_one(page):
    landing(page, 390, 844)
    page.get_by_role("link", name="Start with chapter 1").click()
    page.wait_for_url("**/01_seq2seq.html")


def test_the_laboratories_are_one_press_away(page):
    landing(page, 1440, 900)
    page.locator(".landing-points").get_by_role("link", name="laboratories").click()
    page.wait_for_url("**/laboratories.html")


def test_little_comes_before_the_press(browser, site):
    """Neither the engine, nor the theme's menus, nor letters that no page shows."""
    parts = visit(browser, urljoin(site, "book/intro.html")).parts
    assert any("train_now.js" in address for address in parts)
    late = re.compile(r"/(?:engine|bootstrap)\.js|-rest\.woff2")
    assert not [address for address in parts if late.search(address)]
    assert sum(parts.values()) <= BEFORE_THE_PRESS, parts

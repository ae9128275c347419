"""What is wider than its place: nothing on a desktop; on a phone code, tables and formulas."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
PAGES = sorted((HTML / "book").glob("*.html"))
# Deliberately wide, in a frame of their own that scrolls.
TABLES = ".pst-scrollable-table-container, .aligned"
ON_A_PHONE = f"{TABLES}, .math-block, .bw, [class*=highlight-]:not(.printed)"
UNFOLD = """() => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  const hidden = "toggle-hidden";
  for (const one of document.querySelectorAll(`.${hidden}`)) one.classList.remove(hidden);
}"""
WIDE = """(allowed) => [...document.querySelectorAll(".bd-article *")]
  .filter((node) => node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0
    && ["auto", "scroll"].includes(getComputedStyle(node).overflowX)
    && !(allowed && node.closest(allowed)))
  .map((node) => [node.scrollWidth - node.clientWidth, node.textContent.trim().slice(0, 60)])"""


@pytest.fixture(scope="module")
def tab(browser: Browser):
    page = browser.new_page()
    yield page
    page.close()


def open_at(page: Page, width: int, path) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(path.as_uri())
    page.evaluate(UNFOLD)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_nothing_scrolls_sideways_on_a_desktop(tab, path):
    open_at(tab, 1440, path)
    assert tab.evaluate(WIDE, "") == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_printed_lines_break_on_a_phone(tab, path):
    open_at(tab, 390, path)
    assert tab.evaluate(WIDE, ON_A_PHONE) == []


def test_the_numbers_of_the_ablations_are_seen_on_a_phone(tab):
    open_at(tab, 390, HTML / "book" / "10_transformer.html")
    printed = tab.locator("#which-parts-does-it-need .printed pre").first
    assert "cross_attention" in printed.inner_text()
    assert printed.evaluate("(node) => node.scrollWidth <= node.clientWidth")


def test_a_solution_opens_where_it_stands(tab):
    open_at(tab, 1440, HTML / "book" / "03_attention_layer.html")
    tab.reload()
    title = tab.locator(".solution > .admonition-title").first
    body = tab.locator(".solution > section").first
    expect(body).to_be_hidden()
    title.scroll_into_view_if_needed()
    before = title.bounding_box()["y"]
    title.click(position={"x": 60, "y": 15})  # on its words
    expect(body).to_be_visible()
    assert "#" not in tab.url
    assert abs(title.bounding_box()["y"] - before) < 2

"""What a reader opens or looks at closely: printed numbers on a phone, a solution in its place."""

import pytest
from playwright.sync_api import Page, expect

from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]


def open_at(page: Page, width: int, name: str) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((HTML / "book" / name).as_uri())


def test_the_numbers_of_the_ablations_are_seen_on_a_phone(page):
    open_at(page, 390, "10_transformer.html")
    section = page.locator("#appendix-the-books-translator")
    printed = section.locator(".printed pre", has_text="without decoder.layers.1.cross_attention")
    assert printed.evaluate("(node) => node.scrollWidth <= node.clientWidth")


def test_a_solution_opens_where_it_stands(page):
    open_at(page, 1440, "03_attention_layer.html")
    page.reload()
    title = page.locator(".solution > .admonition-title").first
    body = page.locator(".solution > section").first
    expect(body).to_be_hidden()
    title.scroll_into_view_if_needed()
    before = title.bounding_box()["y"]
    title.click(position={"x": 60, "y": 15})  # on its words
    expect(body).to_be_visible()
    assert "#" not in page.url
    assert abs(title.bounding_box()["y"] - before) < 2

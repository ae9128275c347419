"""The map in a browser: by key, by finger, without scripts, on paper, in forced colours."""

import pytest
from playwright.sync_api import expect

from tests.browser.axe import violations
from tests.gate import each_look
from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
CHAPTER = (HTML / "book" / "03_attention_layer.html").as_uri()
FIRST = (HTML / "book" / "intro.html").as_uri()


def test_it_opens_and_leads_on_by_key(page):
    page.goto(CHAPTER)
    summary = page.locator(".chapter-map > summary")
    expect(page.locator(".chapter-map a").first).to_be_hidden()
    summary.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    link = page.locator(".chapter-map a").first
    expect(link).to_be_focused()
    expect(link).to_be_visible()
    assert link.evaluate("(node) => getComputedStyle(node).outlineStyle") == "solid"
    address = link.get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{address}")


def test_a_screen_reader_hears_a_name_for_each_part(page):
    page.goto(FIRST)
    shown = page.get_by_role("group", name="The translator of this book")
    names = [link.get_attribute("aria-label") for link in shown.get_by_role("link").all()]
    assert "Cross-attention 2: Attention over encoder states" in names
    assert len(names) == page.locator(".book-map a").count() > 15


@each_look
@pytest.mark.parametrize("address", [FIRST, CHAPTER], ids=["first", "chapter"])
def test_axe_finds_nothing_when_it_is_open(page, address, theme, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    page.goto(address)
    page.evaluate("document.querySelector('.chapter-map')?.setAttribute('open', '')")
    assert violations(page, whole=theme == "light") == []


@pytest.mark.parametrize("address", [FIRST, CHAPTER], ids=["first", "chapter"])
def test_on_a_phone_each_part_can_be_tapped_and_nothing_is_too_wide(page, address):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(address)
    page.evaluate("document.querySelector('.chapter-map')?.setAttribute('open', '')")
    for box in page.locator("svg.sch a rect").all():
        size = box.evaluate("(node) => node.getBoundingClientRect().toJSON()")
        assert min(size["width"], size["height"]) >= 24
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    letters = page.locator("svg.sch[role=group]").evaluate(
        "(svg) => 13 * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width"
    )
    assert letters >= 10.5


def test_without_scripts_it_opens_and_has_its_colours(browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(CHAPTER)
    page.locator(".chapter-map > summary").click()
    lit = page.locator(".chapter-map .lit .box").first
    expect(lit).to_be_visible()
    assert lit.evaluate("(node) => getComputedStyle(node).fill") == "rgb(20, 80, 127)"
    context.close()


def test_on_paper_a_closed_map_is_a_line_and_an_open_one_light(page):
    page.emulate_media(color_scheme="dark")
    page.goto(CHAPTER)
    page.emulate_media(media="print")
    fold = page.locator(".chapter-map")
    assert fold.bounding_box()["height"] < 120
    fold.locator("summary").click()
    words = fold.locator(".plain text").first
    assert words.evaluate("(node) => getComputedStyle(node).fill") == "rgb(34, 38, 43)"


def test_in_forced_colours_the_lit_part_differs(page):
    page.emulate_media(forced_colors="active")
    page.goto(CHAPTER)
    page.locator(".chapter-map > summary").click()
    fill = "(node) => getComputedStyle(node).fill"
    box, word = (page.locator(f".chapter-map .lit {part}").first for part in (".box", "text"))
    plain = page.locator(".chapter-map .plain .box").first
    assert box.evaluate(fill) != plain.evaluate(fill)
    assert box.evaluate(fill) != word.evaluate(fill)

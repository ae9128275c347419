"""A word of the glossary in a chapter: explained on hover and on focus, closed by Escape."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.axe import violations
from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
ADDRESS = (HTML / "book" / "09_embeddings.html").as_uri()


@pytest.fixture(params=[1200, 390])
def page(request, browser: Browser):
    page = browser.new_page(viewport={"width": request.param, "height": 900})
    page.goto(ADDRESS)
    yield page
    page.close()


def test_a_word_is_explained_by_pointer_and_by_keyboard(page):
    term = page.locator(".term").first
    link, tip = term.locator("a"), term.get_by_role("tooltip", include_hidden=True)
    expect(tip).to_be_hidden()
    assert link.get_attribute("aria-describedby") == tip.get_attribute("id")

    link.hover()
    expect(tip).to_be_visible()
    tip.hover()  # the pointer may go to the explanation itself
    expect(tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.mouse.move(0, 0)

    link.focus()
    expect(tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    expect(link).to_be_focused()
    link.blur()
    link.focus()
    expect(tip).to_be_visible()
    assert violations(page, whole=False) == []


def test_every_explanation_fits_the_page(page):
    for term in page.locator(".term").all():
        term.locator("a").focus()
        box = term.get_by_role("tooltip").bounding_box()
        width = page.viewport_size["width"]
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_word_leads_to_its_entry(page):
    link = page.locator(".term a").first
    word = link.inner_text()
    link.click()
    page.wait_for_url("**/glossary.html#term-*")
    entry = page.locator("dt:target")
    assert entry.inner_text().strip(" #") == word


def test_a_finger_gets_the_explanation_first_and_the_glossary_by_its_link(browser: Browser):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    page.goto(ADDRESS)
    first, second = page.locator(".term").first, page.locator(".term").nth(1)
    tip, more = first.locator(".term-tip"), page.get_by_role("link", name="In the glossary")

    first.locator("a").first.tap()
    expect(tip).to_be_visible()
    expect(more).to_have_count(1)
    assert page.url == ADDRESS
    assert violations(page, whole=False) == []
    first.locator("a").first.tap()  # a second tap takes it away
    expect(tip).to_be_hidden()
    expect(more).to_have_count(0)

    first.locator("a").first.tap()
    second.locator("a").first.tap()  # one explanation at a time
    expect(tip).to_be_hidden()
    expect(second.locator(".term-tip")).to_be_visible()
    page.locator(".bd-article h1").tap()
    expect(more).to_have_count(0)

    first.locator("a").first.tap()
    more.tap()
    page.wait_for_url("**/glossary.html#term-*")
    context.close()

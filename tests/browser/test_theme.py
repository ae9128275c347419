"""The theme on a page whose sheets were cut, and whose menus come when they are wanted."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect
from tinycss2 import parse_rule_list, serialize
from tinycss2.ast import Node

from build.pages.fonts import THEME, package
from build.pages.styles import HOLD_RULES, selectors
from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
STATIC = HTML / "_static"
WHOLE = {  # of each cut sheet the one that was installed
    "styles/pydata-sphinx-theme.css": THEME / "styles" / "pydata-sphinx-theme.css",
    "styles/sphinx-book-theme.css": package("sphinx_book_theme").joinpath(
        "theme", "sphinx_book_theme", "static", "styles", "sphinx-book-theme.css"
    ),
    "sphinx-design.min.css": package("sphinx_design") / "static" / "sphinx-design.min.css",
}
STATE = re.compile(r"::?[a-z-]+")  # of an element, in or behind which brackets may stand
# Which selectors match an element of the page, whatever its state
MATCH = """(all) => all.filter((selector) => {
  try { return document.querySelector(selector); } catch { return false; }
})"""
OPEN = """() => {
  document.querySelectorAll("details").forEach((node) => { node.open = true; });
  document.querySelectorAll(".toggle-hidden .toggle-button").forEach((node) => node.click());
}"""
MENU = ".dropdown-download-buttons"
BUTTON = f"{MENU} .dropdown-toggle"


def selectors_of(sheet: str | Iterable[Node]) -> Iterator[str]:
    for rule in parse_rule_list(sheet, skip_comments=True, skip_whitespace=True):
        if rule.type == "qualified-rule":
            yield from (serialize(one).strip() for one in selectors(rule.prelude))
        elif rule.lower_at_keyword in HOLD_RULES and rule.content is not None:
            yield from selectors_of(rule.content)


def stateless(selector: str) -> str:
    """A selector that matches at least what the given one may match."""
    before = ""
    while before != selector:
        before, selector = selector, re.sub(r"(:[a-z-]+)\([^()]*\)", r"\1", selector)
    parts = re.split(r"(\s*[\s>+~]\s*)", STATE.sub("", selector).strip())
    return "".join(part or "*" for part in parts)


def reached(page: Page, name: str, width: int = 1280) -> list[str]:
    """Open the page, and note what it asks for."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_viewport_size({"width": width, "height": 800})
    page.goto((HTML / name).as_uri(), wait_until="networkidle")
    return asked


def bootstraps(asked: list[str]) -> int:
    return sum("/bootstrap.js" in address for address in asked)


@pytest.mark.parametrize(
    "name",
    ["intro", "03_attention_layer", "10_transformer", "glossary", "train_your_own", "../search"],
)
def test_no_rule_that_was_cut_would_have_matched(page, name):
    reached(page, f"book/{name}.html")
    page.evaluate(OPEN)
    for cut, whole in WHOLE.items():
        kept = {*selectors_of((STATIC / cut).read_text(encoding="utf-8"))}
        gone = {*selectors_of(Path(whole).read_text(encoding="utf-8"))} - kept
        assert len(gone) > 10, cut
        assert page.evaluate(MATCH, [stateless(one) for one in gone]) == [], cut


def test_a_menu_opens_at_the_first_press_on_a_slow_line(page):
    waiting: list[Route] = []
    page.route("**/bootstrap.js*", lambda route: waiting.append(route))
    asked = reached(page, "book/10_transformer.html")
    assert bootstraps(asked) == 0
    button = page.locator(BUTTON)
    with page.expect_request("**/bootstrap.js*"):
        button.click()
    expect(button).to_have_attribute("aria-expanded", "false")
    waiting[0].continue_()
    expect(button).to_have_attribute("aria-expanded", "true")
    button.click()
    expect(button).to_have_attribute("aria-expanded", "false")
    assert bootstraps(asked) == 1


def test_a_menu_opens_from_the_keyboard(page):
    reached(page, "book/10_transformer.html")
    button = page.locator(BUTTON)
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(button).to_have_attribute("aria-expanded", "false")


@pytest.mark.parametrize("reach", ["hover", "tab"])
def test_a_button_tells_what_it_does(page, reach):
    reached(page, "book/10_transformer.html")
    button = page.locator(".bd-header-article .theme-switch-button")
    if reach == "hover":
        button.hover()
    else:
        page.locator(BUTTON).focus()
        for _ in range(20):
            page.keyboard.press("Tab")
            if button.evaluate("(node) => node === document.activeElement"):
                break
    expect(page.get_by_role("tooltip")).to_have_text("Color mode")


def test_the_way_back_to_the_top_shows_while_one_scrolls_up(page):
    asked = reached(page, "book/10_transformer.html", width=1000)  # the theme has none on more
    back = page.locator("#pst-back-to-top")
    for place, shown in ((3000, False), (2000, True), (2500, False), (2400, True)):
        page.evaluate("(top) => scrollTo({ top, behavior: 'instant' })", place)
        expect(back).to_be_visible(visible=shown)
    back.click()
    page.wait_for_function("scrollY === 0")
    expect(back).to_be_hidden()
    assert bootstraps(asked) == 0

"""The built book in a real browser: quiet, self-contained, accessible, light, fit for a phone."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.browser.weigh import LIMIT, serve_packed, visit
from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
NOT_PAGES = ("_static/", "_sources/", "index.html")  # the last only leads to the first page
PAGES = sorted(str(path.relative_to(HTML)) for path in HTML.rglob("*.html"))
PAGES = [name for name in PAGES if not name.startswith(NOT_PAGES)]
DESKTOP, PHONE = 1300, 390


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server, address = serve_packed(HTML)
    yield address
    server.shutdown()
    server.server_close()


class Visit:
    """A page that has been opened, what it asked for, and what it complained of."""

    def __init__(self, page: Page, url: str):
        self.page, self.problems, self.responses = page, [], []
        page.on("console", lambda m: m.type == "error" and self.problems.append(m.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("response", lambda response: self.responses.append(response))
        page.on("requestfailed", lambda request: self.problems.append(f"failed: {request.url}"))
        page.goto(url, wait_until="networkidle")

    def scroll_through(self) -> None:
        """Reach the bottom, so that whatever loads late has loaded."""
        self.page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
        self.page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("name", PAGES)
def test_page_is_quiet_and_self_contained(browser: Browser, site: str, name: str):
    page = browser.new_page(viewport={"width": DESKTOP, "height": 900})
    try:
        visit = Visit(page, f"{site}/{name}")
        visit.scroll_through()
        assert visit.problems == []
        foreign = [r.url for r in visit.responses if urlsplit(r.url).hostname != "127.0.0.1"]
        assert foreign == []
        assert [r.url for r in visit.responses if r.status >= 400] == []
    finally:
        page.close()


@pytest.mark.parametrize("name", PAGES)
def test_page_is_light(browser: Browser, site: str, name: str):
    """With its pictures further down, which a reader loads by scrolling, it stays in the limit."""
    seen = visit(browser, f"{site}/{name}")
    assert 0 < seen.first[1] <= seen.whole[1]
    assert seen.whole[1] <= LIMIT, seen.parts


def test_search_finds_a_page(browser: Browser, site: str):
    page = browser.new_page()
    try:
        visit = Visit(page, f"{site}/search.html?q=rotary")
        page.wait_for_selector("#search-results li a[href*='08_positions']")
        assert visit.problems == []
    finally:
        page.close()


def test_what_is_folded_opens_by_a_click(browser: Browser, site: str):
    """The theme's own scripts still do their work, though they wait until the text stands."""
    page = browser.new_page(viewport={"width": DESKTOP, "height": 900})
    try:
        visit = Visit(page, f"{site}/book/05_multi_head.html")
        folded = page.locator(".admonition.toggle-hidden")
        before = folded.count()
        assert before > 0
        folded.first.locator(".toggle-button").click()
        assert folded.count() == before - 1
        page.locator(".copybtn").first.wait_for(state="attached")
        assert visit.problems == []
    finally:
        page.close()


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible_and_fits(
    browser: Browser, site: str, name: str, theme: str, width: int
):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
    try:
        visit = Visit(page, f"{site}/{name}")
        assert page.evaluate("document.documentElement.dataset.theme") in (theme, None)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.problems == []  # before axe, which fetches style sheets on its own account
        found = Axe().run(page).response["violations"]
        assert [f"{v['id']}: {n['html'][:160]}" for v in found for n in v["nodes"]] == []
    finally:
        page.close()


@pytest.mark.parametrize("name", [name for name in PAGES if "book/" in name])
def test_every_widget_reacts_to_the_keyboard(browser: Browser, site: str, name: str):
    """Each widget mounts, and a key on one of its controls changes what it shows."""
    page = browser.new_page(viewport={"width": DESKTOP, "height": 900})
    try:
        visit = Visit(page, f"{site}/{name}")
        for widget in page.locator("div.book-widget").all():
            assert widget.locator(".book-widget-error").count() == 0
            controls = widget.locator("input[type=range], select, button:not([disabled])")
            control = controls.locator("visible=true").first
            before = widget.inner_html()
            control.focus()
            kind = control.evaluate("e => e.type ?? e.tagName")
            for key in {"button": ["Enter"], "range": ["ArrowRight", "ArrowLeft"]}.get(
                kind, ["ArrowDown"]
            ):
                control.press(key)
                page.wait_for_timeout(50)
                if widget.inner_html() != before:
                    break
            assert widget.inner_html() != before, "nothing changed"
        assert visit.problems == []
    finally:
        page.close()

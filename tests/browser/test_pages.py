"""The built book in a real browser: quiet, self-contained, accessible, light, fit for a phone."""

import gzip
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Response

from tests.browser.conftest import serve
from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
NOT_PAGES = ("_static/", "_sources/", "index.html")  # the last only leads to the first page
PAGES = sorted(str(path.relative_to(HTML)) for path in HTML.rglob("*.html"))
PAGES = [name for name in PAGES if not name.startswith(NOT_PAGES)]
DESKTOP, PHONE = 1300, 390
KILOBYTES = 600  # over the wire, gzip
PACKED = {".woff2", ".png", ".jpg"}  # compressed already


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server, address = serve(HTML)
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


def wire_bytes(response: Response) -> int:
    body = response.body()
    packed = any(urlsplit(response.url).path.endswith(end) for end in PACKED)
    return len(body if packed else gzip.compress(body))


@pytest.mark.parametrize("name", PAGES)
def test_page_is_quiet_light_and_self_contained(browser: Browser, site: str, name: str):
    page = browser.new_page(viewport={"width": DESKTOP, "height": 900})
    try:
        visit = Visit(page, f"{site}/{name}")
        visit.scroll_through()
        assert visit.problems == []
        foreign = [r.url for r in visit.responses if urlsplit(r.url).hostname != "127.0.0.1"]
        assert foreign == []
        assert [r.url for r in visit.responses if r.status >= 400] == []
        assert sum(map(wire_bytes, visit.responses)) <= KILOBYTES * 1000
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
            control = widget.locator("input[type=range], select, button:not([disabled])").first
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

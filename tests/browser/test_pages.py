"""The built book in a real browser: quiet, self-contained, accessible, light, fit for a phone."""

import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Request

from tests.browser.axe import violations
from tests.browser.fixtures import watch
from tests.browser.weigh import LIMIT, SCROLL, Weight
from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
NOT_PAGES = ("_static/", "_sources/", "index.html")  # the last only leads to the first page
PAGES = sorted(str(path.relative_to(HTML)) for path in HTML.rglob("*.html"))
PAGES = [name for name in PAGES if not name.startswith(NOT_PAGES)]
DESKTOP, PHONE = 1300, 390


class Visit:
    """A page that has been opened, what it asked for, and what it complained of."""

    def __init__(self, page: Page, url: str):
        self.page, self.problems, self.responses = page, [], []
        watch(page, self.problems)
        page.on("response", lambda response: self.responses.append(response))
        page.on("requestfailed", self.failed)
        page.goto(url, wait_until="networkidle")

    def failed(self, request: Request) -> None:
        """Noted, unless the browser gave it up: a picture under way when the page opens again."""
        if request.failure != "net::ERR_ABORTED":
            self.problems.append(f"failed: {request.url} ({request.failure})")


class Opened(Visit):
    """A page opened with an empty cache and read to its end, for all the tests that ask of it."""

    def __init__(self, page: Page, url: str):
        weight = Weight()
        weight.watch(page)
        super().__init__(page, url)
        self.first = weight.bytes
        page.evaluate(SCROLL)
        page.wait_for_load_state("networkidle")
        self.whole, self.parts = weight.bytes, weight.largest
        self.complaints, self.seen = list(self.problems), list(self.responses)
        self.width = DESKTOP

    def show(self, theme: str, width: int) -> None:
        """The theme is switched in place, as by a reader; another width opens the page again."""
        self.problems.clear()
        self.page.emulate_media(color_scheme=theme)
        if width != self.width:
            self.page.set_viewport_size({"width": width, "height": 900})
            self.page.reload(wait_until="networkidle")
        self.width = width
        self.page.evaluate("window.scrollTo({ top: 0, behavior: 'instant' })")
        self.page.wait_for_function(
            "(theme) => document.documentElement.dataset.theme === theme", arg=theme
        )


@pytest.fixture(scope="module")
def opened(request: pytest.FixtureRequest, browser: Browser, site: str) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": DESKTOP, "height": 900})
    yield Opened(context.new_page(), f"{site}/{request.param}")
    context.close()


def each(names: list[str]) -> pytest.MarkDecorator:
    """Each page is opened once; its tests follow one another."""
    return pytest.mark.parametrize("opened", names, indirect=True, scope="module")


@each(PAGES)
def test_page_is_quiet_and_self_contained(opened: Opened):
    assert opened.complaints == []
    foreign = [r.url for r in opened.seen if urlsplit(r.url).hostname != "127.0.0.1"]
    assert foreign == []
    assert [r.url for r in opened.seen if r.status >= 400] == []


@each(PAGES)
def test_page_is_light(opened: Opened):
    """With its pictures further down, which a reader loads by scrolling, it stays in the limit."""
    assert 0 < opened.first <= opened.whole
    assert opened.whole <= LIMIT, opened.parts


@each(PAGES)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_page_is_accessible_and_fits(opened: Opened, width: int, theme: str):
    opened.show(theme, width)
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page, whole=theme == "light") == []
    assert opened.problems == []


@each(PAGES)
def test_page_fits_when_enlarged(opened: Opened):
    """320 pixels: a window of 1280 enlarged four times (WCAG 2.2, 1.4.10)."""
    opened.show("light", PHONE)
    opened.page.set_viewport_size({"width": 320, "height": 640})
    opened.width = 320
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 320


@each([name for name in PAGES if "book/" in name])
def test_every_widget_reacts_to_the_keyboard(opened: Opened):
    """Each widget mounts, and a key on one of its controls changes what it shows."""
    opened.show("light", DESKTOP)
    page = opened.page
    for widget in page.locator("div.book-widget").all():
        assert widget.locator(".book-widget-error").count() == 0
        controls = widget.locator("input[type=range], select, button:not([disabled])")
        visible = controls.locator("visible=true").all()  # the first may be at its end
        assert any(changed_by_a_key(widget, control) for control in visible), "nothing changed"
    assert opened.problems == []


# A menu's choice is no attribute
SHOWN = (
    "(e) => [e.innerHTML, ...[...e.querySelectorAll('input, select')].map((c) => c.value)].join()"
)


def changed_by_a_key(widget: Locator, control: Locator) -> bool:
    control.focus()
    kind = control.evaluate("e => e.type ?? e.tagName")
    before = widget.evaluate(SHOWN)
    keys = {"button": ["Enter"], "range": ["ArrowRight", "ArrowLeft"]}.get(kind, ["ArrowDown"])
    for key in keys:
        control.press(key)
        if changes(widget, before):
            return True
    return False


def changes(widget: Locator, before: str, within: float = 1.0) -> bool:
    """Whether what a widget shows differs from `before`, now or within some seconds."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        if widget.evaluate(SHOWN) != before:
            return True
        widget.page.wait_for_timeout(20)
    return False


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

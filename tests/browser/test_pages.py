"""The built book in a real browser: quiet, self-contained, accessible, light, fit for a phone."""

import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Request

from tests.browser.axe import violations
from tests.browser.fixtures import watch
from tests.browser.weigh import LIMIT, SCROLL, Weight
from tests.gate import some
from tests.paths import HTML

pytestmark = [pytest.mark.browser, pytest.mark.built]
NOT_PAGES = ("_static/", "_sources/", "index.html")  # the last only leads to the first page
PAGES = sorted(str(path.relative_to(HTML)) for path in HTML.rglob("*.html"))
PAGES = [name for name in PAGES if not name.startswith(NOT_PAGES)]
IN_BOOK = [name for name in PAGES if name.startswith("book/")]
CHAPTERS = [name for name in IN_BOOK if name.removeprefix("book/")[0].isdigit()]
DESKTOP, PHONE, ENLARGED = 1300, 390, 320
# Of each margin note what it covers, how far below its own top the next part of the text begins,
# and its right end.
NOTES = """() => {
  const box = (part) => part.getBoundingClientRect();
  const meet = (a, b) => a.left < b.right - 1 && a.right > b.left + 1
    && a.top < b.bottom - 1 && a.bottom > b.top + 1;
  const parts = [...document.querySelectorAll(
    ".bd-article :is(p, pre, img, table, .bw, .math-block, aside.margin)")]
    .filter((part) => part.checkVisibility());  // what a closed fold holds has a box all the same
  // A note may end its section: then it stands beside what comes before it.
  const next = (note) => note.nextElementSibling ?? note.previousElementSibling;
  return [...document.querySelectorAll("aside.margin")].map((note) => ({
    text: note.innerText.slice(0, 40),
    covers: parts.filter((part) => part !== note && !note.contains(part)
      && box(part).width && meet(box(note), box(part))).map((part) => part.outerHTML.slice(0, 80)),
    beside: box(note).left >= box(next(note)).right,
    lower: note.nextElementSibling ? box(note).top - box(next(note)).top : 0,
    right: box(note).right,
    inside: note.scrollWidth <= note.clientWidth,
  }));
}"""
# A picture that waits for a prediction, or in a fold, comes when it is opened: here it comes now.
HURRY = "() => { for (const image of document.images) image.loading = 'eager'; }"
UNFOLD = """() => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  const hidden = "toggle-hidden";
  for (const one of document.querySelectorAll(`.${hidden}`)) one.classList.remove(hidden);
}"""
# What scrolls sideways: nothing on a desktop; on a phone what is deliberately wide, in a frame of
# its own that scrolls.
TABLES = ".pst-scrollable-table-container, .aligned"
ON_A_PHONE = f"{TABLES}, .bw"
# What answers a prediction is looked at too, as by a reader who has asked for it.
SHOW_EVIDENCE = """() => {
  for (const one of document.querySelectorAll(".evidence")) one.removeAttribute("hidden");
  window.dispatchEvent(new Event("resize"));
}"""
WIDE = """(allowed) => [...document.querySelectorAll(".bd-article *")]
  .filter((node) => node.scrollWidth > node.clientWidth + 1 && node.clientWidth > 0
    && ["auto", "scroll"].includes(getComputedStyle(node).overflowX)
    && !(allowed && node.closest(allowed)))
  .map((node) => [node.scrollWidth - node.clientWidth, node.textContent.trim().slice(0, 60)])"""


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
        page.evaluate(SHOW_EVIDENCE)
        page.evaluate(SCROLL)
        page.evaluate(HURRY)
        page.wait_for_function("() => [...document.images].every((image) => image.complete)")
        self.whole, self.parts = weight.bytes, weight.largest
        self.complaints, self.seen = list(self.problems), list(self.responses)

    def show(self, theme: str, width: int) -> Page:
        """The theme is switched in place, as by a reader; a telephone opens the page again."""
        self.problems.clear()
        self.page.emulate_media(color_scheme=theme)
        before = self.page.viewport_size["width"]
        if width != before:
            self.page.set_viewport_size({"width": width, "height": 900})
            if (width <= PHONE) != (before <= PHONE):
                self.page.reload(wait_until="networkidle")
                self.page.evaluate(SHOW_EVIDENCE)
        self.page.evaluate("window.scrollTo({ top: 0, behavior: 'instant' })")
        self.page.wait_for_function(
            "(theme) => document.documentElement.dataset.theme === theme", arg=theme
        )
        return self.page


@pytest.fixture(scope="module")
def opened(request: pytest.FixtureRequest, browser: Browser, site: str) -> Iterator[Opened]:
    context = browser.new_context(viewport={"width": DESKTOP, "height": 900})
    yield Opened(context.new_page(), f"{site}/{request.param}")
    context.close()


def each(names: list[str]) -> pytest.MarkDecorator:
    """Each page is opened once; its tests follow one another, those on a telephone last."""
    return pytest.mark.parametrize("opened", names, indirect=True, scope="module")


def themes(now: str) -> pytest.MarkDecorator:
    """`make test` looks at one theme; both are looked at thoroughly at night."""
    cases = [pytest.param(theme, True, marks=pytest.mark.slow) for theme in ("light", "dark")]
    return pytest.mark.parametrize(("theme", "thorough"), [(now, False), *cases])


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
@themes("light")
def test_page_is_accessible_on_a_desktop(opened: Opened, theme: str, thorough: bool):
    assert_accessible(opened, theme, DESKTOP, thorough)


@each(CHAPTERS)
def test_a_note_stands_beside_its_paragraph(opened: Opened):
    notes = opened.show("light", 1200).evaluate(NOTES)
    assert notes
    for note in notes:
        assert note["covers"] == []
        assert note["beside"], note
        assert -26 <= note["lower"] <= 30, note  # at most a line above what it stands beside
        assert note["right"] <= 1200
        assert note["inside"], note


@each(IN_BOOK)
def test_every_widget_reacts_to_the_keyboard(opened: Opened):
    """Each widget mounts, and a key on one of its controls changes what it shows."""
    page = opened.show("light", DESKTOP)
    for widget in page.locator("div.book-widget").all():
        assert widget.locator(".book-widget-error").count() == 0
        values, buttons = widget.locator("input[type=range], select"), widget.locator("button")
        # A button may choose what is chosen already, and the first value be the only one.
        enabled = [*values.all(), *buttons.locator(":scope:not([disabled])").all()]
        controls = [control for control in enabled if control.is_visible()]
        assert any(changed_by_a_key(widget, control) for control in controls), "nothing changed"
    assert opened.problems == []


@each(IN_BOOK)
def test_nothing_scrolls_sideways_on_a_desktop(opened: Opened):
    page = opened.show("light", 1440)
    page.evaluate(UNFOLD)
    assert page.evaluate(WIDE, "") == []


@each(some(PAGES, 4))
@themes("dark")
def test_page_is_accessible_on_a_phone(opened: Opened, theme: str, thorough: bool):
    assert_accessible(opened, theme, PHONE, thorough)


@each(CHAPTERS)
def test_a_note_stands_in_the_text_of_a_narrow_page(opened: Opened):
    for note in opened.show("light", PHONE).evaluate(NOTES):
        assert note["covers"] == []
        assert not note["beside"]
        assert note["right"] <= PHONE


@each(IN_BOOK)
def test_printed_lines_break_on_a_phone(opened: Opened):
    page = opened.show("light", PHONE)
    page.evaluate(UNFOLD)
    assert page.evaluate(WIDE, ON_A_PHONE) == []


@each(PAGES)
def test_page_fits_when_enlarged(opened: Opened):
    """320 pixels: a window of 1280 enlarged four times (WCAG 2.2, 1.4.10)."""
    page = opened.show("light", ENLARGED)
    assert page.evaluate("document.documentElement.scrollWidth") <= ENLARGED


def assert_accessible(opened: Opened, theme: str, width: int, thorough: bool) -> None:
    page = opened.show(theme, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page, whole=theme == "light", thorough=thorough) == []
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

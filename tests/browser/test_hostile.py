"""Links and lines that were written to do harm: no widget gives way to them."""

import re
from urllib.parse import quote_plus

import pytest
from playwright.sync_api import Page, expect
from traitlets import TraitError

from scripts.hostile import LONGEST, TEXTS, USE, WATCH
from tests.browser.fixtures import Tabs
from tests.gate import some_widgets
from tests.widget_domains import state_of, traits
from tests.widget_samples import SAMPLES
from widgets import domain

pytestmark = pytest.mark.browser
# Keeps each widget of the page where the test can ask it.
LISTEN = """<script>document.addEventListener("DOMContentLoaded", () => {
  const frame = bookWidgets.shared.$ui.Widget.prototype;
  const declare = frame.state;
  window.held = [];
  frame.state = function state(keys) {
    window.held.push(this);
    declare.call(this, keys);
  };
});</script>"""
STATES = """() => held.map((w) => ({
  ...Object.fromEntries(Object.keys(w.keys).map((key) => [key, w.get(key)])) }))"""
SHOWN = """() => held.map(({ alert, body, ignored }) => [alert.hidden, body.hidden,
  body.childElementCount > 0, ignored.textContent, ignored.checkVisibility()])"""
SAID = re.compile(r"settings? in the link (?:was|were) ignored")


def follows(widget, name: str, text: str):
    """What a link sets a trait to with this text: the value, or None if it is to be ignored."""
    trait = traits(widget)[name]
    if domain.exported(trait, widget) or isinstance(trait, domain.Place):
        return None  # no text of the corpus is one of these
    if name == "own":  # a sentence that the model does not know is refused in its line, with words
        return text if len(text) <= 400 else None
    before = getattr(widget, name)
    try:
        setattr(widget, name, text)
    except TraitError:
        return None
    setattr(widget, name, before)
    return text


def unharmed(page: Page) -> bool:
    return page.evaluate("[window.harmed === undefined, touched()]") == [True, []]


@pytest.mark.parametrize("module", some_widgets(SAMPLES))
def test_a_hostile_link_is_ignored_and_said(stage, module):
    """One copy of the widget for each text, with all its settings set to that text by the link."""
    widget = SAMPLES[module]()
    copies = [module, *(f"{module}-{number}" for number in range(2, len(TEXTS) + 1))]
    names = state_of(widget)
    query = "&".join(
        f"{copy}.{name}={quote_plus(text)}"
        for copy, text in zip(copies, TEXTS, strict=True)
        for name in names
    )
    html = widget._repr_mimebundle_()[0]["text/html"]
    text = f"<script>{WATCH}</script>" + LISTEN + html * len(TEXTS)
    page = stage.show(widget, html=text, query=f"?{query}")
    page.wait_for_function("() => held.some(({ ignored }) => ignored.textContent)")
    kept = widget.data()
    for text, state, shown in zip(TEXTS, page.evaluate(STATES), page.evaluate(SHOWN), strict=True):
        wanted = {name: follows(widget, name, text) for name in names}
        settled = {name: kept[name] if wanted[name] is None else wanted[name] for name in names}
        assert state == settled, text
        *works, said, visible = shown
        assert works == [True, False, True], (text, "an error, or nothing to see")
        ignored = any(value is None for value in wanted.values())
        assert bool(SAID.search(said)) is visible is ignored, (text, said)
    assert unharmed(page)


@pytest.mark.parametrize("module", some_widgets(SAMPLES))
def test_every_control_and_line_withstands_hostile_texts(stage, module):
    """Used up to its ends, and typed into: nothing runs, nothing is asked, the policy holds."""
    page = stage.show(SAMPLES[module](), html=None)
    page.evaluate(WATCH)
    page.evaluate(f"(texts) => ({USE})([document.querySelector('.bw')], texts)", list(TEXTS))
    expect(page.locator(".bw-error")).to_be_hidden()
    assert unharmed(page)


def test_the_line_about_the_link_is_announced_and_goes_with_reset(stage):
    widget = SAMPLES["mask_builder"]()
    page = stage.show(widget, query="?mask_builder.causal=constructor&mask_builder.radius=3")
    line = page.locator(".bw-ignored")
    expect(line).to_have_text("A setting in the link was ignored: it is not one of this widget's.")
    expect(line).to_have_attribute("role", "status")
    assert stage.violations(page) == []
    assert page.evaluate("document.querySelectorAll('.bw-ignored').length") == 1
    page.get_by_role("button", name="Reset").click()
    expect(line).to_have_count(0)


def test_a_setting_that_no_widget_has_is_said_and_not_copied(stage):
    query = "?mask_builder.__proto__=1&mask_builder.gone=2&other.x=3"
    page = stage.show(SAMPLES["mask_builder"](), html=None, query=query)
    expect(page.locator(".bw-ignored")).to_contain_text("2 settings in the link were ignored")
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', { value: { writeText() { throw 1; } } })"
    )
    page.get_by_role("button", name="Copy link").click()
    link = page.get_by_label("Link to this state").input_value()
    assert link.endswith("?other.x=3#mask_builder")


@pytest.mark.built
def test_the_search_page_withstands_hostile_questions(tabs: Tabs, site: str):
    tab = tabs.take(1280, 720)
    page = tab.page
    for text in ("__proto__", "constructor", TEXTS[-8], LONGEST):
        page.goto(f"{site}/search.html?q={quote_plus(text)}#{quote_plus(text)}")
        expect(page.locator(".search-status")).not_to_be_empty()
    page.evaluate(WATCH)
    page.evaluate(
        """(texts) => {
          const field = document.querySelector(".book-search input");
          for (const text of texts) {
            field.value = text;
            field.form.dispatchEvent(new Event("submit", { cancelable: true }));
          }
        }""",
        list(TEXTS),
    )
    assert unharmed(page)
    assert tab.problems == []
    tabs.give(tab)

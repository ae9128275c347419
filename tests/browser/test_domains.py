"""The page and the kernel agree on what a widget may hold, and the page shows all of it."""

import pytest
from playwright.sync_api import expect
from traitlets import Enum

from tests.gate import some_widgets
from tests.widget_domains import inside, outside, state_of, traits
from tests.widget_samples import SAMPLES
from widgets import domain

pytestmark = pytest.mark.browser
# Keeps what each key of the state may be, where the test can ask it.
LISTEN = """<script>document.addEventListener("DOMContentLoaded", () => {
  const frame = bookWidgets.shared.$ui.Widget.prototype;
  const declare = frame.state;
  window.keys = {};
  frame.state = function state(keys) {
    declare.call(this, keys);
    Object.assign(window.keys, this.keys);
  };
});</script>"""


@pytest.mark.parametrize("module", some_widgets(SAMPLES))
def test_page_and_kernel_agree_on_the_domain(stage, module):
    """A list or a range comes from the trait itself; this holds that the page reads it alike.

    Text and places within the data, which the page reads past their end, may be wider there.
    """
    widget = SAMPLES[module]()
    page = stage.show(widget, html=LISTEN + widget._repr_mimebundle_()[0]["text/html"])
    assert sorted(page.evaluate("Object.keys(window.keys)")) == sorted(state_of(widget))
    for name in state_of(widget):
        ask = "([name, value]) => window.keys[name](value) ?? null"
        for value in inside(widget, name):
            assert page.evaluate(ask, [name, value]) == value, (name, value)
        trait = traits(widget)[name]
        if domain.exported(trait, widget):
            beyond = [v for v in outside(widget, name) if type(v) in (int, float) and v == v]
            held = inside(widget, name)
            for value in beyond:
                if value not in held and abs(value) < 1e9:
                    assert page.evaluate(ask, [name, value]) is None, (name, value)
        if isinstance(trait, Enum):
            assert page.evaluate(ask, [name, "no such"]) is None, name


@pytest.mark.parametrize("module", some_widgets(SAMPLES))
def test_the_page_shows_what_the_kernel_assigns(stage, module):
    """Every value within the domain, as the kernel then holds it, drawn without an error."""
    widget = SAMPLES[module]()
    page = stage.show(widget, via="module")
    sent = widget.data()
    for name in state_of(widget):
        for value in inside(widget, name):
            setattr(widget, name, value)
            changed = {key: v for key, v in widget.data().items() if v != sent[key]}
            sent |= changed
            page.evaluate(
                "(all) => { for (const [k, v] of Object.entries(all)) window.model.set(k, v); }",
                changed,
            )
            expect(page.locator(".bw-error")).to_be_hidden()
    page = stage.show(widget, via="module")  # and from the start
    expect(page.locator(".bw-error")).to_be_hidden()
    expect(page.locator(".bw-body")).to_be_visible()


def test_a_slider_moves_to_what_the_kernel_assigns(stage):
    widget = SAMPLES["softmax_scale"]()
    page = stage.show(widget, via="module")
    widget.d_k = 256
    page.evaluate("(value) => window.model.set('d_k', value)", widget.data()["d_k"])
    expect(page.get_by_label("Dimension d_k")).to_have_attribute("aria-valuetext", "256")

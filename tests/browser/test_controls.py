"""The shared parts of the widgets, on a widget that has each of them once."""

from pathlib import Path

import pytest
import traitlets
from playwright.sync_api import expect

from tests.gate import each_look
from widgets.base import BookWidget

pytestmark = pytest.mark.browser


class Gallery(BookWidget):
    _module = "gallery"
    _folder = Path(__file__).parent
    size = traitlets.Int(3).tag(sync=True)
    kind = traitlets.Unicode("plain").tag(sync=True)
    numbers = traitlets.Bool(False).tag(sync=True)
    row = traitlets.Unicode("1, 2").tag(sync=True)


@each_look
def test_shared_parts_are_accessible_and_fit(stage, theme, width):
    page = stage.show(Gallery(kind="causal", numbers=True, size=8), theme=theme, width=width)
    assert stage.violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("textbox", name="Scores").fill("1, x")
    expect(page.locator(".bw-problem")).to_be_visible()
    assert stage.violations(page) == []


def test_choice_and_list_share_a_state(stage):
    page = stage.show(Gallery())
    expect(page.locator(".bw-masked")).to_have_count(0)
    page.get_by_role("radio", name="None").press("ArrowRight")
    expect(page.get_by_role("radio", name="Causal")).to_be_checked()
    expect(page.get_by_label("Mask again")).to_have_value("causal")
    expect(page.locator(".bw-masked")).to_have_count(3)
    page.get_by_label("Mask again").select_option("None")
    expect(page.get_by_role("radio", name="None")).to_be_checked()
    expect(page.locator(".bw-masked")).to_have_count(0)


def test_map_tells_a_mask_apart_from_zero(stage):
    page = stage.show(Gallery(kind="causal", size=2))
    rows = page.locator(".bw-map tbody tr")
    assert rows.nth(0).locator("td").all_inner_texts() == ["1.00", "masked"]
    assert rows.nth(1).locator("td").all_inner_texts() == ["0.73", "0.27"]
    expect(rows.nth(0).locator("td").nth(1)).to_have_attribute("title", "t0 → t1: masked")
    expect(page.locator(".bw-current-column")).to_have_count(2)


def test_toggle_by_keyboard(stage):
    page = stage.show(Gallery())
    series = page.locator(".bw-lines .bw-series")
    expect(series).to_have_count(1)
    page.get_by_role("checkbox", name="Second line").press("Space")
    expect(series).to_have_count(4)
    expect(page.locator(".bw-legend-item")).to_have_text(["sine", "cosine", "half", "flat"])


def test_keys_are_kept_from_the_notebook_program(stage):
    """JupyterLab runs its shortcuts, arrows among them, unless the focused element says no."""
    page = stage.show(Gallery())
    slider = page.get_by_role("slider").first
    assert slider.evaluate("node => !node.closest('[data-lm-suppress-shortcuts]')")
    slider.focus()
    assert slider.evaluate("node => node.hasAttribute('data-lm-suppress-shortcuts')")


def test_lines_choose_round_ticks(stage):
    page = stage.show(Gallery(), width=700)
    words = page.locator(".bw-lines text").all_text_contents()
    assert words[:5] == ["−1", "−0.5", "0", "0.5", "1"]
    assert words[5:] == ["0", "10", "20", "30", "40", "50", "position"]


def test_typed_mistake_is_said_in_place_and_the_last_good_value_stays(stage):
    page = stage.show(Gallery())
    field, note = page.get_by_role("textbox", name="Scores"), page.locator(".bw-note")
    expect(note).to_have_text("Numbers with commas between them.")
    field.fill("1, 2, 3")
    expect(page.locator(".sum")).to_have_text("3")
    field.fill("1, <b>, 3")
    expect(note).to_have_text('✗ expected numbers, got "<b>"')
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".sum")).to_have_text("3")
    expect(field).to_have_value("1, <b>, 3")
    field.fill("1," * 50 + "1")
    expect(note).to_have_text("✗ this value is out of range")
    field.fill("4")
    expect(note).not_to_have_class("bw-problem")
    expect(page.locator(".sum")).to_have_text("1")
    page.get_by_role("button", name="Reset").click()
    expect(field).to_have_value("1, 2")


def test_error_while_drawing_is_said_and_goes_away(stage):
    page = stage.show(Gallery(size=6))
    slider = page.get_by_role("slider", name="Size")
    slider.press("ArrowRight")
    expect(page.get_by_role("alert")).to_have_text(
        "This cannot be shown: seven is not to be drawn."
    )
    slider.press("ArrowRight")
    expect(page.locator(".bw-error")).to_be_hidden()
    expect(page.locator(".bw-map tbody tr")).to_have_count(8)


def test_values_from_the_address_are_checked(stage):
    query = "?gallery.size=99&gallery.kind=causal&gallery.numbers=true&gallery.row=5,6,7,8"
    page = stage.show(Gallery(), query=query)
    expect(page.get_by_role("slider", name="Size")).to_have_value("3")
    expect(page.get_by_role("radio", name="Causal")).to_be_checked()
    expect(page.get_by_role("checkbox")).to_be_checked()
    expect(page.locator(".sum")).to_have_text("4")


def test_link_is_shown_where_the_clipboard_is_closed(stage):
    page = stage.show(Gallery())
    refuse = "navigator.clipboard.writeText = () => Promise.reject(new Error('closed'));"
    page.evaluate(f"() => {{ {refuse} }}")
    page.get_by_role("textbox", name="Scores").fill("1,2,3 ")
    page.get_by_role("button", name="Copy link").click()
    field = page.get_by_label("Link to this state")
    expect(field).to_be_visible()
    page.goto(field.input_value())
    expect(page.get_by_role("textbox", name="Scores")).to_have_value("1,2,3 ")
    expect(page.locator(".sum")).to_have_text("3")


def test_reader_who_wants_less_motion_gets_none(stage):
    page = stage.show(Gallery())
    bar = page.locator(".bw-bar").first
    duration = "(node) => getComputedStyle(node, '::before').transitionDuration"
    assert bar.evaluate(duration) == "0.12s"
    page.emulate_media(reduced_motion="reduce")
    assert bar.evaluate(duration) == "0s"


@pytest.mark.parametrize(
    ("mark", "dark"),
    [
        ("document.body.dataset.jpThemeLight = 'false'", True),
        ("document.body.dataset.jpThemeLight = 'true'", False),
        ("document.documentElement.setAttribute('theme', 'dark')", True),
        ("document.documentElement.setAttribute('theme', 'light')", False),
        ("document.body.className = 'vscode-dark'", True),
        ("document.body.className = 'vscode-light'", False),
        ("0", None),
    ],
)
@pytest.mark.parametrize("system", ["light", "dark"])
def test_notebooks_say_their_theme_in_other_ways(stage, mark, dark, system):
    page = stage.show(Gallery(), via="module")
    page.emulate_media(color_scheme=system)
    page.evaluate(f"delete document.documentElement.dataset.theme; {mark}")
    scheme = page.locator(".bw").evaluate("(node) => getComputedStyle(node).colorScheme")
    assert scheme == ("dark" if (system == "dark" if dark is None else dark) else "light")

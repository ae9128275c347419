"""The mask builder: its matrix, its code and its zero pattern, against lib and autograd."""

import random
from itertools import pairwise

import pytest
import torch
from playwright.sync_api import expect

import lib.masks
from chapters.masking.conversions import additive_mask, multihead_mask, sdpa_mask
from chapters.masking.mask_builder import MaskBuilder
from lib.attention import attention_weights
from lib.masks import causal_mask, padding_mask
from measure.observed import influence
from tests.gate import each_look

pytestmark = pytest.mark.browser
# Distinct sizes and rules of every kind; the last two have rows without any key.
STARTS = {
    "none": {"n_queries": 3},
    "causal": {"n_queries": 5, "causal": True},
    "window": {"n_queries": 7, "radius": 2},
    "padding": {"n_queries": 5, "lengths": 3},
    "stairs": {"n_queries": 4, "lengths": [4, 1, 2, 3]},
    "all": {"n_queries": 11, "lengths": 7, "causal": True, "radius": 3},
    "cross": {"n_queries": 3, "n_keys": 7, "lengths": 5},
    "cross each": {"n_queries": 3, "n_keys": 5, "lengths": [5, 0, 2]},
    "hand": {"n_queries": 5, "causal": True, "by_hand": {(1, 4): True, (3, 0): False}},
    "empty": {"n_queries": 5, "lengths": 0},
    "empty hand": {"n_queries": 2, "causal": True, "by_hand": {(0, 0): False, (1, 1): True}},
}


def cells(page, which: int) -> list[list[str]]:
    """What a screen reader hears of each cell: 0 the mask, 1 the Jacobian."""
    words = """(rows) => rows.map((row) => [...row.querySelectorAll("td")].map((td) =>
      td.ariaLabel ?? td.querySelector(".bw-hidden").textContent))"""
    return page.locator(".bw-cells").nth(which).locator("tbody tr").evaluate_all(words)


def mask_of(page) -> list[list[bool]]:
    return [[text.startswith("True") for text in row] for row in cells(page, 0)]


def felt(page) -> list[list[bool]]:
    return [[text != "exactly 0" for text in row] for row in cells(page, 1)]


def slide(page, name: str, value: int) -> None:
    slider = page.get_by_role("slider", name=name)
    slider.evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value
    )


@pytest.mark.parametrize("name", sorted(STARTS))
def test_matrix_is_the_mask_of_the_library(stage, name):
    widget = MaskBuilder(**STARTS[name])
    page = stage.show(widget)
    assert mask_of(page) == widget.mask().tolist()
    expect(page.locator(".mb-problems")).to_be_hidden()


@pytest.mark.parametrize("name", sorted(STARTS))
def test_shown_code_makes_the_shown_mask(stage, name):
    widget = MaskBuilder(**STARTS[name])
    page = stage.show(widget)
    names = {"torch": torch, **vars(lib.masks)}
    exec(page.locator(".mb-code").inner_text(), names)
    made = names["mask"]
    full = made.expand(1, *widget.mask().shape)  # padding alone is one row for all
    assert full[0].tolist() == mask_of(page)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("name", [name for name in STARTS if "cross" not in name])
def test_zero_pattern_is_that_of_autograd(stage, name, layers):
    widget = MaskBuilder(**STARTS[name], n_layers=layers)
    mask = widget.mask()
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(layers, 3, 5, 5, generator=generator, dtype=torch.float64) / 2

    def stack(x):
        for w_q, w_k, w_v in maps:
            x = attention_weights(x @ w_q, x @ w_k, mask) @ x @ w_v
        return x

    x = torch.randn(len(mask), 5, generator=generator, dtype=torch.float64)
    assert felt(stage.show(widget)) == influence(stack, x).tolist()


@pytest.mark.parametrize("name", ["cross", "cross each"])
def test_zero_pattern_of_cross_attention_is_that_of_autograd(stage, name):
    widget = MaskBuilder(**STARTS[name], n_layers=3)
    page = stage.show(widget)
    query = torch.randn(3, 5, dtype=torch.float64)
    key = torch.randn(widget.n_keys, 5, dtype=torch.float64)
    pattern = influence(
        lambda memory: attention_weights(query, memory, widget.mask()) @ memory,
        key,
    )
    assert felt(page) == pattern.tolist() == mask_of(page)
    expect(page.locator(".mb-line", has_text="More layers change nothing")).to_be_visible()


@pytest.mark.parametrize("clicks", [8, pytest.param(40, marks=pytest.mark.slow)])
def test_random_clicks_agree_with_autograd(stage, clicks):
    """Whatever is clicked: the matrix, the code and the zero pattern stay true."""
    page = stage.show(MaskBuilder(6, causal=True))
    expected = causal_mask(6)
    choose = random.Random(0)
    grid = page.get_by_role("grid")
    for _ in range(clicks):
        i, j = choose.randrange(6), choose.randrange(6)
        grid.locator("tbody tr").nth(i).locator("td").nth(j).click()
        expected[i, j] = ~expected[i, j]
    assert mask_of(page) == expected.tolist()
    names = {"torch": torch, **vars(lib.masks)}
    exec(page.locator(".mb-code").inner_text(), names)
    assert names["mask"][0].tolist() == expected.tolist()
    x = torch.randn(6, 5, dtype=torch.float64)

    def attend(x):
        return attention_weights(x, x, expected) @ x

    assert felt(page) == influence(attend, x).tolist()
    changed = (expected != causal_mask(6)).sum().item()
    expect(page.locator(".mb-set")).to_have_count(changed)
    page.get_by_role("button", name="Undo the cells set by hand").click()
    assert mask_of(page) == causal_mask(6).tolist()


def test_keyboard_walks_and_flips(stage):
    page = stage.show(MaskBuilder(4, causal=True))
    expect(page.locator("td[tabindex='0']")).to_have_count(1)
    page.get_by_role("checkbox").focus()
    page.keyboard.press("Tab")  # the window's slider
    page.keyboard.press("Tab")  # one stop for the whole grid
    for key in (
        "Control+Home",
        "End",
        "ArrowLeft",
        "ArrowDown",
        "ArrowRight",
        "ArrowRight",
        "Space",
    ):
        page.keyboard.press(key)
    expected = causal_mask(4)
    expected[1, 3] = True
    assert mask_of(page) == expected.tolist()
    assert cells(page, 0)[1][3] == "True, by hand"
    expect(page.locator("td:focus")).to_have_attribute(
        "title", "1 deux → 3 canadiens: True, by hand"
    )
    page.keyboard.press("Enter")
    assert mask_of(page) == causal_mask(4).tolist()
    page.keyboard.press("Control+End")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".bw-current").first.locator("th")).to_have_text("3 canadiens")
    page.keyboard.press("Control+Home")
    page.keyboard.press("Home")
    expect(page.locator(".bw-current").first.locator("th")).to_have_text("0 <bos>")
    expect(page.locator(".mb-form code").nth(1)).to_have_text("[True, False, False, False]")
    page.keyboard.press("Tab")
    expect(page.get_by_role("slider", name="Layers")).to_be_focused()


@pytest.mark.parametrize("name", ["all", "cross each", "hand"])
def test_conventions_are_those_of_the_library(stage, name):
    widget = MaskBuilder(**STARTS[name])
    page = stage.show(widget)
    mask = widget.mask()
    heads = multihead_mask(mask, (1, 1, *mask.shape))[0]
    for i in range(len(mask)):
        page.get_by_role("grid").locator("tbody tr").nth(i).locator("td").first.focus()
        shown = [
            form.locator("code").nth(1).inner_text() for form in page.locator(".mb-form").all()
        ]
        added = ["-inf" if value < 0 else "0." for value in additive_mask(mask)[i].tolist()]
        assert shown == [
            str(sdpa_mask(mask)[i].tolist()),
            str(heads[i].tolist()),
            f"[{', '.join(added)}]",
        ]
        expect(page.locator(".mb-form .mb-note:not(:empty)")).to_have_count(
            0 if mask[i].any() else 3
        )


def test_sliders_and_choices_make_every_rule(stage):
    page = stage.show(MaskBuilder(7))
    slide(page, "Tokens", 9)
    page.get_by_role("checkbox", name="Causal").press("Space")
    slide(page, "Window radius", 2)
    page.get_by_role("radio", name="One", exact=True).check()
    slide(page, "Valid keys", 6)
    widget = MaskBuilder(9, causal=True, radius=2, lengths=6)
    assert mask_of(page) == widget.mask().tolist()
    heads = page.locator(".bw-cells").first.locator("thead th").all_inner_texts()
    assert heads[5:] == ["5 six", "6 <pad>", "7 <pad>", "8 <pad>"]
    expect(page.locator(".mb-line", has_text="Fully masked")).to_contain_text(
        "<pad> All its weights are 0"
    )
    slide(page, "Window radius", 9)
    expect(page.get_by_role("slider", name="Window")).to_have_attribute("aria-valuetext", "off")
    slide(page, "Tokens", 12)  # off stays off
    expect(page.get_by_role("slider", name="Window")).to_have_attribute("aria-valuetext", "off")
    page.get_by_role("radio", name="Per query").check()
    field = page.get_by_role("textbox")
    expect(field).to_have_value("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12")
    page.get_by_role("checkbox", name="Causal").press("Space")
    assert mask_of(page) == causal_mask(12).tolist(), "lengths that grow are a causal mask"
    page.get_by_role("radio", name="Cross").check()
    slide(page, "Keys", 5)
    field.fill("5, 4, 3")
    slide(page, "Queries", 3)
    assert mask_of(page) == padding_mask(torch.tensor([[5, 4, 3]]), 5)[0].tolist()
    expect(page.get_by_role("status")).to_contain_text("12 of 15 pairs are True")


def test_what_cannot_be_is_explained_and_left_out(stage):
    page = stage.show(MaskBuilder(3, lengths=[1, 2, 3]))
    problems, field = page.locator(".mb-problems"), page.get_by_role("textbox")
    slide(page, "Tokens", 5)
    expect(problems).to_have_text(
        "✗ Left out: valid lengths. Expected 5, one for each query, got 3."
    )
    assert mask_of(page) == torch.ones(5, 5, dtype=torch.bool).tolist()
    field.fill("1, 2, 3, 4, 6")
    expect(problems).to_have_text(
        "✗ Left out: valid lengths. Expected at most 5, the number of keys, got 6."
    )
    field.fill("1, 2, 3, 4, x")
    expect(page.locator(".bw-problem")).to_have_text(
        '✗ expected whole numbers with commas between them, got "x"'
    )
    field.fill("1, 2, 3, 4, 5")
    expect(problems).to_be_hidden()
    page.get_by_role("checkbox").press("Space")
    slide(page, "Window radius", 1)
    page.get_by_role("radio", name="Cross").check()
    expect(problems).to_contain_text("✗ Left out: causal and window. Expected positions of one")
    expect(page.get_by_role("status")).to_contain_text("Left out: causal and window")
    assert stage.violations(page) == []


def test_leak_is_found_and_spreads_with_the_layers(stage):
    page = stage.show(MaskBuilder(7, causal=True))
    leak = page.locator(".mb-line", has_text="A leak")
    expect(leak).to_have_count(0)
    page.get_by_role("grid").locator("tbody tr").nth(1).locator("td").nth(5).click()
    expect(leak).to_have_text("✗ A leak: output 1 deux depends on 5 six, which comes after it.")
    before = felt(page)
    assert not before[2][5]
    page.get_by_role("slider", name="Layers").press("ArrowRight")
    assert felt(page)[2][5], "every later token reads the leak"
    assert cells(page, 1)[2][5] == "depends, though masked"


def test_window_reaches_further_with_each_layer(stage):
    page = stage.show(MaskBuilder(12, radius=2))
    for layer in range(1, 7):
        reach = [max(j for j, on in enumerate(row) if on) - i for i, row in enumerate(felt(page))]
        assert reach[0] == min(2 * layer, 11)
        page.get_by_role("slider", name="Layers").press("ArrowRight")
    assert all(all(row) for row in felt(page))


@pytest.mark.parametrize("theme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
@pytest.mark.parametrize("name", ["all", "cross each"])
def test_largest_fits_a_phone(stage, theme, name):
    start = {"n_queries": 12, "radius": 1, "n_layers": 3} if name == "all" else STARTS[name]
    page = stage.show(MaskBuilder(**start), theme=theme, width=390)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert stage.violations(page) == []
    boxes = [cell.bounding_box() for cell in page.locator("[role=gridcell]").all()[:3]]
    assert all(min(box["width"], box["height"]) >= 24 for box in boxes)
    assert all(b["x"] > a["x"] for a, b in pairwise(boxes))


def test_bad_state_in_the_address_is_ignored(stage):
    query = "?mask_builder.lengths=a,b&mask_builder.by_hand=9&mask_builder.n_layers=0"
    page = stage.show(MaskBuilder(3, causal=True), query=query)
    assert mask_of(page) == causal_mask(3).tolist()
    query = "?mask_builder.by_hand=0.2t_40.0t&mask_builder.row=64&mask_builder.length=64"
    page = stage.show(MaskBuilder(3, causal=True), query=query)
    assert mask_of(page)[0] == [True, False, True]


# --- up to 64 positions -----------------------------------------------------------------------


def picture(page, which: int) -> list[list[bool]]:
    """Which cells of a large map are dark: 0 the mask, 1 the Jacobian (by the mask)."""
    page.wait_for_timeout(100)
    side = 10
    dark = (
        page.locator(".bw-raster-body > canvas")
        .nth(which)
        .evaluate(
            f"""(canvas) => {{ const [n, m] = [canvas.height / {side}, canvas.width / {side}];
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          const at = (i, j) => 4 * (({side} * i + 7) * canvas.width + {side} * j + 3);
          return Array.from({{ length: n }}, (_, i) => Array.from({{ length: m }}, (__, j) =>
            data[at(i, j) + 3] === 255 && data[at(i, j)] === 0)); }}"""
        )
    )
    return dark


LARGE = {
    "all": {"n_queries": 64, "lengths": 57, "causal": True, "radius": 9},
    "cross": {"n_queries": 3, "n_keys": 61, "lengths": 59},
    "hand": {"n_queries": 37, "causal": True, "by_hand": {(5, 31): True, (30, 2): False}},
}


@pytest.mark.parametrize("name", sorted(LARGE))
def test_large_mask_is_that_of_the_library(stage, name):
    widget = MaskBuilder(**LARGE[name])
    page = stage.show(widget)
    assert picture(page, 0) == widget.mask().tolist()
    names = {"torch": torch, **vars(lib.masks)}
    exec(page.locator(".mb-code").inner_text(), names)
    assert names["mask"].expand(1, *widget.mask().shape)[0].tolist() == widget.mask().tolist()
    for k, convert in ((0, sdpa_mask), (2, additive_mask)):
        row = eval(
            page.locator(".mb-form")
            .nth(k)
            .locator("code")
            .nth(1)
            .inner_text()
            .replace("inf", "float('inf')")
        )
        assert [bool(v) if k == 0 else v == 0 for v in row] == widget.mask()[2].tolist()
        assert convert(widget.mask())[2].shape == (len(row),)


def test_large_mask_is_walked_and_flipped_by_the_keyboard(stage):
    page = stage.show(MaskBuilder(64, causal=True, n_layers=2))
    page.get_by_role("slider", name="Window").focus()
    page.keyboard.press("Tab")
    for key in ("Control+Home", "PageDown", "ArrowDown", "End", "ArrowLeft", "Space"):
        page.keyboard.press(key)
    expected = causal_mask(64)
    expected[9, 62] = True
    assert picture(page, 0) == expected.tolist()
    cell = page.locator("[role=gridcell]:focus")
    expect(cell).to_have_attribute("aria-label", "9 il → 62: True, by hand")
    leak = page.locator(".mb-line", has_text="A leak")
    expect(leak).to_have_text("✗ A leak: output 9 il depends on 62, which comes after it.")
    expect(page.locator(".mb-line", has_text="depends on 63 of 64")).to_contain_text("0 to 62")
    page.keyboard.press("Enter")
    assert picture(page, 0) == causal_mask(64).tolist()
    page.keyboard.press("Tab")
    expect(page.get_by_role("grid").nth(1).locator(":focus")).to_have_attribute(
        "aria-label", "9 il → 0 <bos>: depends"
    )
    assert stage.violations(page) == []


def test_small_and_large_change_places(stage):
    page = stage.show(MaskBuilder(7, causal=True))
    slide(page, "Tokens", 64)
    assert picture(page, 0) == causal_mask(64).tolist()
    slide(page, "Tokens", 12)
    assert mask_of(page) == causal_mask(12).tolist()


@each_look
def test_largest_is_accessible_and_fits(stage, theme, width):
    page = stage.show(MaskBuilder(64, lengths=57, radius=9), theme=theme, width=width)
    assert stage.violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

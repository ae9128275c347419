"""The families explorer: masks as the library makes them, who sees what, and whose guesses."""

import pytest
import torch
from playwright.sync_api import expect

from chapters.families.families import causal_prefix_mask
from chapters.families.families_explorer import FAMILIES, FamiliesExplorer
from chapters.families.tests.samples import rows_of_families
from lib.masks import causal_mask

pytestmark = pytest.mark.browser
TOKENS, PREFIX = rows_of_families()[0]["tokens"], 4


def mask_of(page) -> list[list[bool]]:
    rows = page.locator(".bw-cells tbody tr").all()
    return [
        row.locator("td").evaluate_all(
            "(all) => all.map((td) => td.textContent.includes('may attend'))"
        )
        for row in rows
    ]


def slide(page, name: str, value: int) -> None:
    page.get_by_role("slider", name=name).evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value
    )


def guesses(page) -> list[list[str]]:
    """The names of the bars of each card, without what stands beside them."""
    return [
        card.locator(".bw-bar-name > span:first-child").all_inner_texts()
        for card in page.locator(".fe-card").all()
    ]


def wanted_mask(family: str, shown: int) -> list[list[bool]]:
    n = len(TOKENS)
    if family == "encoder-only":
        return torch.ones(n, n, dtype=torch.bool).tolist()
    if family == "decoder-only":
        return (causal_prefix_mask(torch.tensor([shown]), n)[0]).tolist()
    source, decoder = list(range(1, PREFIX)), [0, *range(PREFIX, n)]
    mask = torch.zeros(n, n, dtype=torch.bool)
    mask[:, source] = True  # the encoder's own, and cross-attention to all of it
    mask[torch.tensor(decoder)[:, None], torch.tensor(decoder)] = causal_mask(len(decoder))
    return mask.tolist()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shown", [1, 2, 4])
def test_mask_is_that_of_the_library(stage, family, shown):
    page = stage.show(FamiliesExplorer(rows_of_families(), family=family, shown=shown))
    assert mask_of(page) == wanted_mask(family, shown)


def test_prefix_slider_turns_the_causal_mask_into_the_prefix_mask(stage):
    page = stage.show(FamiliesExplorer(rows_of_families(), position=5))
    cards = page.locator(".fe-card")
    expect(cards.nth(1).locator(".fe-name")).to_have_text("Decoder-only")
    for shown in (1, 2, 3, 4):
        slide(page, "Prefix", shown)
        name = "Decoder-only" if shown == 1 else "Prefix model"
        expect(cards.nth(1).locator(".fe-name")).to_have_text(name)
        assert mask_of(page) == wanted_mask("decoder-only", shown)
        assert guesses(page)[1][1] == ("d5" if shown == 1 else f"p{shown}-5")
    expect(page.get_by_role("radio", name="Decoder-only")).to_be_checked()


@pytest.mark.parametrize("position", range(1, 7))
def test_each_token_has_its_guesses_and_what_is_asked(stage, position):
    page = stage.show(FamiliesExplorer(rows_of_families()))
    row = page.get_by_role("group", name="The sequence of tokens")
    row.get_by_role("button").nth(position - 1).click()
    token, at_end = TOKENS[position], TOKENS[position] == "<eos>"
    expected = [
        [] if at_end else [token, f"e{position}"],
        [token, f"d{position}"],
        [token, f"t{position}"] if position >= PREFIX else [],
    ]
    assert guesses(page) == expected
    cards = page.locator(".fe-card")
    asks = cards.nth(0).locator(".fe-text").nth(1)
    expect(asks).to_contain_text("never hidden" if at_end else "was masked")
    asks = cards.nth(2).locator(".fe-text").nth(1)
    expect(asks).to_contain_text("Nothing" if position < PREFIX else "The token after")
    expect(page.locator(".fe-none:visible")).to_have_count(sum(not said for said in expected))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("position", [1, 5])
def test_what_is_seen_is_what_the_guess_depends_on(stage, family, position):
    widget = FamiliesExplorer(rows_of_families(), family=family, position=position)
    page = stage.show(widget)
    seen = page.locator(".fe-row > *").evaluate_all(
        "(all) => all.map((n, i) => n.classList.contains('fe-seen') ? i : -1).filter((i) => i >= 0)"
    )
    others = {
        "encoder-only": [t for t in range(7) if t != position],
        "decoder-only": list(range(position)),
        "encoder-decoder": [2, 3] if position == 1 else list(range(5)),
    }
    assert seen == others[family]
    labels = page.get_by_role("button", name=", not read")
    hidden = [t for t in range(1, 7) if t not in seen and t != position]
    expect(labels).to_have_count(len(hidden))


def test_a_prefix_asks_nothing_inside_and_the_source_was_never_asked(stage):
    page = stage.show(FamiliesExplorer(rows_of_families(), position=2, shown=4))
    loss = page.locator(".fe-card").nth(1).locator(".fe-text").nth(1)
    expect(loss).to_contain_text("inside the prefix all is given")
    slide(page, "Prefix", 2)
    expect(loss).to_contain_text("no target here")
    assert guesses(page)[1] == []
    page.get_by_role("radio", name="Decoder-only").check()
    expect(page.locator(".fe-note")).to_have_text("Row 1, two: nothing is guessed here.")
    slide(page, "Token", 4)
    expect(page.locator(".fe-note")).to_have_text("The guess is made in row 3, <eos>.")


def test_keyboard_alone_reaches_a_token_and_says_it(stage):
    page = stage.show(FamiliesExplorer(rows_of_families()))
    slider = page.get_by_role("slider", name="Token to guess")
    slider.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "6: <eos>")
    slider.press("ArrowLeft")
    expect(page.get_by_role("button", pressed=True)).to_have_text("<b>euros</b>")
    status = page.locator(".bw-hidden[role=status]")
    expect(status).to_have_text(
        "Token <b>euros</b>. Encoder-only: <b>euros</b>, 75 %. "
        "Decoder-only: <b>euros</b>, 75 %. Encoder-decoder: <b>euros</b>, 75 %"
    )
    page.get_by_role("button", name="two, read").press("Enter")
    expect(page.get_by_role("button", name="two, to guess")).to_be_focused()


def test_a_shorter_sentence_keeps_its_place_in_range(stage):
    page = stage.show(FamiliesExplorer(rows_of_families(), position=6, shown=4))
    page.get_by_role("combobox").select_option("1")
    expect(page.get_by_role("button", pressed=True)).to_have_text("<eos>")
    slider = page.get_by_role("slider", name="Prefix")
    expect(slider).to_have_attribute("aria-valuetext", "3 tokens")
    assert len(mask_of(page)) == 5


def test_right_guess_is_marked_by_a_sign(stage):
    page = stage.show(FamiliesExplorer(rows_of_families(), position=5))
    expect(page.locator(".bw-bar-note")).to_have_text(["✓ right"] * 3)


def test_inside_a_prefix_all_of_it_is_seen_and_the_key_names_the_prefix_model(stage):
    page = stage.show(FamiliesExplorer(rows_of_families(), family="decoder-only", position=2))
    key = page.locator(".fe-key")
    expect(key).to_contain_text("what the decoder-only model may")
    assert page.locator(".fe-row > .fe-seen").all_inner_texts() == TOKENS[:2]
    slide(page, "Prefix, decoder-only", PREFIX)
    expect(key).to_contain_text("what the prefix model may")
    assert page.locator(".fe-row > .fe-seen").all_inner_texts() == [TOKENS[0], TOKENS[1], TOKENS[3]]
    expect(page.locator(".fe-card").nth(1)).to_contain_text(f"All {PREFIX} tokens of the prefix.")

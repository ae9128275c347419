"""The reader's own sentence, composed: words taken away and added, shuffled, and asked at once."""

import re

import pytest
from playwright.sync_api import Page, expect

from engine.laboratory import Laboratory
from tests.browser.test_laboratory import press, trained

pytestmark = pytest.mark.browser
COMPOSED = ("senses", "senses_masked", "senses_ordered")


def sentence(page: Page) -> str:
    return page.get_by_label("Your own sentence", exact=True).input_value()


def chips(page: Page) -> list[str]:
    return page.locator(".lab-word > span:first-child").all_inner_texts()


def meanings(page: Page) -> dict[str, str]:
    """What stands below the words of the sentence."""
    found = zip(chips(page), page.locator(".lab-meaning > span:first-child").all(), strict=True)
    return {word: node.inner_text() for word, node in found if node.inner_text()}


def take(page: Page, word: str) -> None:
    page.locator(".lab-word").filter(has_text=re.compile(f"^{word}:")).first.click()


def add(page: Page, word: str) -> None:
    vocabulary = page.locator(".lab-vocabulary")
    if vocabulary.get_attribute("open") is None:
        vocabulary.locator("summary").click()
    page.get_by_role("button", name=f"Add {word}", exact=True).click()


def test_a_sentence_is_composed_before_anything_is_trained(stage):
    page = stage.show(Laboratory("senses"))
    assert chips(page) == ["bat", "bites", "man", "in", "cave"]
    take(page, "man")
    assert sentence(page) == "bat bites in cave"
    press(page, "Without clues")
    assert sentence(page) == "bat bites in"
    clues = page.get_by_role("button", name="Without clues")
    expect(clues).to_have_attribute("aria-disabled", "true")
    clues.dispatch_event("click")
    assert sentence(page) == "bat bites in"
    add(page, "river")
    add(page, "bank")
    assert chips(page) == ["bat", "bites", "in", "river", "bank"] == sentence(page).split()
    expect(page.locator(".bw > [role=status]")).to_have_text(
        "bank is added: bat bites in river bank."
    )
    for before in (
        "bat bites in river",
        "bat bites in",
        "bat bites in cave",
        "bat bites man in cave",
    ):
        press(page, "Undo")
        assert sentence(page) == before
    expect(page.get_by_role("button", name="Undo")).to_have_attribute("aria-disabled", "true")
    assert page.evaluate("() => window.bookEngine === undefined"), "nothing is loaded for it"
    assert stage.violations(page) == []


def test_shuffling_keeps_the_words_and_changes_their_order(stage):
    page = stage.show(Laboratory("senses"))
    for _ in range(5):
        before = chips(page)
        press(page, "Shuffle")
        assert chips(page) != before
        assert sorted(chips(page)) == sorted(before)
    page.get_by_label("Your own sentence", exact=True).fill("bat bat")
    expect(page.get_by_role("button", name="Shuffle")).to_have_attribute("aria-disabled", "true")


def test_what_is_typed_becomes_words_and_an_unknown_one_is_marked(stage):
    page = stage.show(Laboratory("senses"))
    line = page.get_by_label("Your own sentence", exact=True)
    line.fill("The <b>bat</b> in my gorilla.")
    assert chips(page) == ["the", "<b>bat</b>", "in", "my", "gorilla"]
    expect(page.locator(".lab-unknown")).to_have_count(2)
    take(page, "gorilla")
    assert sentence(page) == "the <b>bat</b> in my"
    line.fill("")
    expect(page.locator(".lab-words")).to_be_hidden()
    press(page, "Reset")
    assert chips(page) == ["bat", "bites", "man", "in", "cave"]


@pytest.mark.slow
def test_the_model_answers_each_change_at_once(stage):
    page = stage.show(Laboratory("senses", n_heads=1, seed=3))
    trained(page)
    bat = page.locator(".lab-word").filter(has_text=re.compile("^bat:")).locator(".lab-meaning")
    expect(bat).to_have_text("Fledermaus")
    for _ in range(3):  # without positions and mask, no order makes a difference
        press(page, "Shuffle")
        expect(page.locator(".lab-answers > li")).to_have_text([re.compile("bat: Fledermaus")])
        assert meanings(page) == {"bat": "Fledermaus"}
    take(page, "cave")
    expect(page.locator(".lab-answers > li")).to_have_text([re.compile(r"bat: \?.*right")])
    assert meanings(page) == {"bat": "?"}
    expect(page.locator(".bw > [role=status]")).to_have_text(
        re.compile(r"^Without cave: .*\. bat: \?\.$")
    )
    add(page, "ball")
    expect(bat).to_have_text("Schläger")
    expect(page.locator(".lab-maps thead")).to_contain_text("ball")
    add(page, "cave")  # what both clues together mean, nobody says
    expect(page.locator(".lab-maps thead")).to_contain_text("cave")
    expect(page.locator(".lab-answers > li .lab-verdict")).to_have_count(0)
    page.get_by_label("Look back through the run").press("Home")
    expect(page.locator(".lab-after")).to_have_text("run 1, step 0")
    assert list(meanings(page)) == ["bat"]
    assert stage.violations(page) == []


def test_by_keyboard_alone_and_the_focus_stays_near(stage):
    page = stage.show(Laboratory("senses"))
    page.locator(".lab-word").nth(3).focus()
    page.keyboard.press("Enter")  # in
    assert sentence(page) == "bat bites man cave"
    expect(page.locator(".lab-word").nth(3)).to_be_focused()
    page.keyboard.press("Space")  # cave, the last one
    expect(page.locator(".lab-word").nth(2)).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Enter")
    expect(page.get_by_label("Your own sentence", exact=True)).to_be_focused()
    page.locator(".lab-vocabulary > summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert sentence(page) == "bank"


def test_by_touch_on_a_phone(phone):
    page = phone.show(Laboratory("senses"))
    page.locator(".lab-word").nth(4).tap()
    page.locator(".lab-vocabulary > summary").tap()
    page.get_by_role("button", name="Add ball", exact=True).tap()
    assert sentence(page) == "bat bites man in ball"
    page.get_by_role("button", name="Shuffle").tap()
    assert sorted(chips(page)) == ["ball", "bat", "bites", "in", "man"]
    heights = page.locator(".lab-compose button:visible").evaluate_all(
        "(all) => all.map((node) => node.getBoundingClientRect().height)"
    )
    assert len(heights) > 60
    assert min(heights) >= 40
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("task", COMPOSED)
def test_who_and_whom_are_exchanged_only_where_they_are_asked_for(stage, task):
    page = stage.show(Laboratory(task))
    exchange = page.get_by_role("button", name="Swap who and whom")
    expect(exchange).to_have_count(int(task == "senses_ordered"))
    if exchange.count():
        exchange.click()
        assert sentence(page) == "man bites bat in cave"
        take(page, "bites")
        expect(exchange).to_have_attribute("aria-disabled", "true")


def test_other_laboratories_have_no_words_to_press(stage):
    page = stage.show(Laboratory("order"))
    expect(page.locator(".lab-compose")).to_have_count(0)

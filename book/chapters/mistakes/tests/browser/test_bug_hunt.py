"""The bug hunt: tests that are run, guesses that are answered, the table that explains itself."""

import pytest
from playwright.sync_api import expect

from chapters.mistakes.bug_hunt import BugHunt
from chapters.mistakes.catalogue import find_mistake
from chapters.mistakes.tests.samples import hunted

pytestmark = pytest.mark.browser


def hunt(**changes) -> BugHunt:
    return BugHunt(*hunted(), **changes)


def ask(page, name: str) -> None:
    page.get_by_label("Property to test").select_option(name)
    page.get_by_role("button", name="Test it").click()


def name_it(page, name: str) -> None:
    page.get_by_label("Your diagnosis").select_option(name)
    page.get_by_role("button", name="Name it").click()


def test_symptoms_are_those_of_the_case(stage):
    page = stage.show(hunt())
    for text in ("two <b>euros</b> <eos>", "deux deux", "deux euros", "0.25; a right model 0.25"):
        expect(page.locator(".bh-sentence").get_by_text(text, exact=True)).to_be_visible()
    expect(page.get_by_text("5.25 to 0.12; a right model 5 to 1")).to_be_visible()
    expect(page.locator(".bw-map:visible td:not(.bw-corner)")).to_have_count(9)
    page.get_by_label("Model", exact=True).select_option("Model B")
    expect(page.locator(".bh-sentence").get_by_text("nothing", exact=True)).to_be_visible()
    expect(page.get_by_text("1.5; a right model 0.25")).to_be_visible()


def test_a_property_is_tested_once_and_says_what_it_found(stage):
    page = stage.show(hunt())
    expect(page.get_by_text("No property tested yet.")).to_be_visible()
    ask(page, "padding")
    ask(page, "future")
    lines = page.locator(".bh-results:visible li")
    expect(lines).to_have_count(2)
    expect(lines.first).to_have_text("✓padding holds (0): no logit moved.")
    wanted = "✗future fails (0.31): an earlier logit sees a later token."
    expect(lines.last).to_have_text(wanted)
    expect(page.get_by_role("button", name="Test it")).to_be_disabled()
    expect(page.locator(".bw [role=status]")).to_contain_text("future fails (0.31)")


def test_a_wrong_guess_is_answered_with_what_speaks_against_it(stage):
    page = stage.show(hunt())
    verdict = page.locator(".bh-verdict")
    expect(page.get_by_role("button", name="Name it")).to_be_disabled()
    name_it(page, "MinusBillion")
    expect(verdict).to_have_text(
        "✗ Not “Filled with -1e9”: it fits all that you have asked, but another test would tell "
        "them apart."
    )
    ask(page, "future")
    expect(verdict).to_contain_text("with it, “future” would hold, and here it fails.")
    name_it(page, "UsedBeforeAssigned")
    expect(verdict).to_contain_text("another test would tell")
    ask(page, "padding")
    expect(verdict).to_contain_text("with it, “padding” would fail, and here it holds.")
    expect(page.locator(".bh-code:visible")).to_have_count(0)


def test_the_right_name_shows_code_and_reason(stage):
    page = stage.show(hunt())
    ask(page, "future")
    name_it(page, "NoTargetMask")
    expect(page.locator(".bh-verdict")).to_have_text("✓ No target mask, found with one test.")
    mistake = find_mistake("NoTargetMask")
    expect(page.locator(".bh-code:visible")).to_have_text(mistake.code())
    expect(page.locator(".bh-about:visible")).to_contain_text(mistake.why)
    expect(page.get_by_role("button", name="Show the answer")).to_be_hidden()
    page.get_by_label("Model", exact=True).select_option("Model B")  # a new hunt
    expect(page.get_by_text("No property tested yet.")).to_be_visible()
    expect(page.locator(".bh-verdict")).to_be_hidden()
    expect(page.locator(".bh-code:visible")).to_have_count(0)


def test_a_hunt_by_keys_keeps_its_place(stage):
    page = stage.show(hunt())
    page.get_by_label("Property to test").select_option("future")
    page.get_by_role("button", name="Test it").press("Enter")
    expect(page.locator(".bh-results:visible li")).to_have_count(1)
    expect(page.get_by_label("Property to test")).to_be_focused()
    page.get_by_label("Your diagnosis").select_option("NoTargetMask")
    page.get_by_role("button", name="Name it").press("Enter")
    expect(page.locator(".bh-verdict")).to_contain_text("found with one test")
    expect(page.get_by_label("Your diagnosis")).to_be_focused()


def test_the_answer_can_be_had(stage):
    page = stage.show(hunt(case=1))
    page.get_by_role("button", name="Show the answer").click()
    expect(page.locator(".bh-code:visible")).to_have_text(find_mistake("MinusBillion").code())
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(".bh-code:visible")).to_have_count(0)


def test_the_score_counts_models_and_first_guesses(stage):
    page = stage.show(hunt())
    score = page.locator(".bh-score")
    expect(score).to_be_hidden()
    name_it(page, "MinusBillion")
    expect(score).to_have_text("Your score: 0 of 2 models named, 0 at the first guess.")
    name_it(page, "NoTargetMask")
    expect(score).to_have_text("Your score: 1 of 2 models named, 0 at the first guess.")
    page.get_by_label("Model", exact=True).select_option("Model B")
    expect(score).to_have_text("Your score: 1 of 2 models named, 0 at the first guess.")
    name_it(page, "MinusBillion")
    expect(score).to_have_text("Your score: 2 of 2 models named, 1 at the first guess.")
    expect(page.locator(".bw [role=status]")).to_contain_text("2 of 2 models named")


def test_a_model_whose_answer_was_shown_does_not_score(stage):
    page = stage.show(hunt())
    page.get_by_role("button", name="Show the answer").click()
    name_it(page, "NoTargetMask")
    score = page.locator(".bh-score")
    expect(score).to_have_text("Your score: 0 of 2 models named, 0 at the first guess.")


def test_every_cell_of_the_table_explains_itself(stage):
    page = stage.show(hunt(mode="matrix"))
    matrix, _, _ = hunted()
    cells = page.locator(".bh-matrix td:not(.bw-corner)")
    expect(cells).to_have_count(9)
    names = list(matrix["NoTargetMask"])
    line = page.locator(".bh-results:visible li")
    for i, (name, row) in enumerate(matrix.items()):
        for j, finding in enumerate(row.values()):
            cell = cells.nth(3 * i + j)
            cell.click()
            state = "holds" if finding.held else "stops" if finding.number is None else "fails"
            title = f"{find_mistake(name).title}, {names[j]}: {state}"
            assert cell.get_attribute("title").startswith(title)
            expect(line).to_contain_text(f"{names[j]} {state}")
            expect(line).to_contain_text(finding.message)
    expect(page.get_by_label("Mistake", exact=True)).to_have_value("2")
    expect(page.locator(".bh-about:visible")).to_contain_text(find_mistake(name).why)


def test_the_table_is_walked_by_keys_and_by_lists(stage):
    page = stage.show(hunt(mode="matrix"))
    page.locator(".bh-matrix td[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("Mistake", exact=True)).to_have_value("1")
    expect(page.get_by_label("Property", exact=True)).to_have_value("1")
    page.get_by_label("Mistake", exact=True).select_option("No target mask")
    expect(page.locator(".bh-matrix tr.bw-current th")).to_have_text("No target mask")
    page.get_by_label("Hunt", exact=True).check()
    expect(page.locator(".bh-matrix")).to_be_hidden()
    expect(page.get_by_label("Property to test")).to_be_visible()


def test_an_address_brings_a_hunt_back(stage):
    query = "?bug_hunt.case=0&bug_hunt.asked=0.2&bug_hunt.named=NoTargetMask"
    page = stage.show(hunt(case=1), query=query)
    expect(page.locator(".bh-results:visible li")).to_have_count(2)
    expect(page.locator(".bh-verdict")).to_have_text("✓ No target mask, found with 2 tests.")


@pytest.mark.parametrize("query", ["asked=7", "asked=x", "asked=0.9", "named=Nobody", "case=4"])
def test_an_address_that_does_not_fit_is_left_out(stage, query):
    page = stage.show(hunt(), query=f"?bug_hunt.{query}")
    expect(page.get_by_text("No property tested yet.")).to_be_visible()
    expect(page.get_by_label("Model", exact=True)).to_have_value("0")
    expect(page.locator(".bh-verdict")).to_be_hidden()

"""The questions of a small book in a browser: what is kept, what comes back, what may go wrong."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from scripts import make_epub, make_pdf
from tests import question_book
from tests.browser import axe
from tests.browser.fixtures import serve_packed

pytestmark = pytest.mark.browser
KEY = "transformer-piece-by-piece.answers"
# A day that a test can move: each tab's name says by how many.
CLOCK = "const now = Date.now; Date.now = () => now() + (Number(window.name) || 0) * 86400000;"
NAMES = ["rc-layer-variance", "rc-layer-softmax", "rc-self-order"]


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return question_book.build(tmp_path_factory.mktemp("book") / "small")


@pytest.fixture(scope="module")
def address(book: Path) -> Iterator[str]:
    server, address = serve_packed(book)
    yield f"{address}/book"
    server.shutdown()
    server.server_close()


@contextmanager
def watched(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that has kept nothing; it is an error if our script throws on its pages."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    context.add_init_script(CLOCK)
    problems: list[str] = []
    context.on("weberror", lambda error: problems.append(error.error.stack or ""))
    yield context
    context.close()
    # The theme has scripts of its own, which do not expect a storage that throws.
    assert [problem for problem in problems if "questions.js" in problem] == []


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with watched(browser) as context:
        yield context


@pytest.fixture(scope="module")
def one_reader(browser: Browser, address: str) -> Iterator[Page]:
    """A page for tests that fill the storage themselves."""
    with watched(browser) as context:
        page = context.new_page()
        page.goto(f"{address}/03_layer.html")
        yield page


@pytest.fixture
def reader(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(f"{address}/03_layer.html")
    return page


def kept(page: Page) -> dict | None:
    return json.loads(page.evaluate(f"localStorage.getItem('{KEY}')") or "null")


def later(page: Page, days: int) -> None:
    """The same page, so many days after the real one."""
    page.evaluate(f"window.name = '{days}'")
    page.reload()


def button(page: Page, name: str):
    return page.get_by_role("button", name=name, exact=True)


def answer(page: Page, question: str, knew: bool) -> None:
    block = page.locator(f".recall[data-name={question}]")
    if block.get_attribute("open") is None:
        block.locator("summary").click()
    block.get_by_role("button", name="I knew it" if knew else "Not yet").click()


def predict(page: Page, option: int) -> None:
    page.locator(".predict label").nth(option - 1).click()
    button(page, "Commit to it").first.click()


# --- predictions ------------------------------------------------------------------------------


def test_a_prediction_is_made_by_keyboard_and_kept(reader: Page):
    block = reader.locator("#pr-layer-largest")
    group = reader.get_by_role("group", name="How much weight")
    expect(group.get_by_role("radio")).to_have_count(3)
    group.get_by_role("radio").first.focus()
    reader.keyboard.press("ArrowDown")
    reader.keyboard.press("Tab")
    expect(button(reader, "Commit to it").first).to_be_focused()
    reader.keyboard.press("Enter")
    change = block.get_by_role("button", name="Change my answer")
    expect(change).to_be_focused()
    expect(block.get_by_role("status")).to_have_text(
        "Kept. The page comes back to it further down."
    )
    for radio in group.get_by_role("radio").all():
        expect(radio).to_be_disabled()
    outcome = reader.locator("#pr-layer-largest-outcome")
    expect(outcome).to_contain_text("You predicted: about 1/2 – it turned out differently.")
    expect(outcome.locator(".ask-right")).to_have_text("Answer: about 0.95")
    reader.reload()
    expect(group.get_by_role("radio").nth(1)).to_be_checked()
    expect(group.get_by_role("radio").nth(1)).to_be_disabled()
    expect(outcome).to_contain_text("You predicted: about 1/2")
    assert kept(reader)["predictions"] == {"pr-layer-largest": 2}


def test_an_answer_is_changed_only_on_purpose(reader: Page):
    predict(reader, 1)
    reader.locator(".predict label").nth(2).click(force=True)
    assert kept(reader)["predictions"] == {"pr-layer-largest": 1}
    button(reader, "Change my answer").click()
    expect(reader.get_by_role("radio").first).to_be_focused()
    predict(reader, 3)
    outcome = reader.locator("#pr-layer-largest-outcome")
    expect(outcome).to_contain_text("You predicted: about 0.95 – that is right.")
    expect(outcome.locator(".ask-right")).to_be_hidden()


def test_without_an_answer_nothing_is_kept(reader: Page):
    button(reader, "Commit to it").first.click()
    expect(reader.locator("#pr-layer-largest .ask-note")).to_have_text("Choose an answer first.")
    waiting = reader.locator(".waiting:visible")
    waiting.get_by_role("link", name="the prediction further up").click()
    assert reader.url.endswith("#pr-layer-largest")
    assert kept(reader) is None


# --- what answers a prediction -----------------------------------------------------------------


def test_an_outcome_is_hidden_until_the_prediction_is_made(reader: Page):
    """The first stands apart from its question, under another heading; the second follows it."""
    largest, entropy = (reader.locator(f"#pr-layer-{n}-outcome") for n in ("largest", "entropy"))
    expect(largest).to_be_hidden()
    expect(entropy).to_be_hidden()
    expect(reader.get_by_text("Some text stands between")).to_be_visible()
    expect(button(reader, "Show me")).to_have_count(2)
    predict(reader, 1)
    expect(largest).to_be_visible()
    expect(entropy).to_be_hidden()
    expect(reader.locator(".waiting:visible")).to_have_count(0)
    button(reader, "Change my answer").click()
    expect(largest).to_be_visible()
    reader.reload()
    expect(largest).to_be_visible()
    expect(entropy).to_be_hidden()


def test_show_me_opens_without_a_verdict_and_stays_open(reader: Page):
    outcome = reader.locator("#pr-layer-entropy-outcome")
    show = reader.locator("#pr-layer-entropy").get_by_role("button", name="Show me")
    top = "(node) => node.getBoundingClientRect().top"
    show.scroll_into_view_if_needed()
    question = reader.locator("#pr-layer-entropy-question")
    before = question.evaluate(top)
    show.press("Enter")
    expect(outcome).to_be_visible()
    expect(outcome.locator(".ask-yours")).to_be_hidden()
    expect(outcome.locator(".ask-right")).to_have_text("Answer: 0.69")
    expect(show).to_be_hidden()
    assert question.evaluate(top) == pytest.approx(before, abs=1)
    assert reader.evaluate("document.activeElement.dataset.name") == "pr-layer-entropy"
    assert kept(reader) == {
        **{"version": 1, "predictions": {}, "shown": ["pr-layer-entropy"], "recalls": {}}
    }
    reader.reload()
    expect(outcome).to_be_visible()
    field = reader.get_by_role("textbox", name="What is the entropy")
    expect(field).to_be_enabled()
    field.fill("0.7")
    field.press("Enter")
    expect(outcome).to_contain_text("You predicted: 0.7 – that is close.")
    told = reader.locator("#pr-layer-entropy").get_by_role("status")
    expect(told).to_have_text("Kept. Now see what happens.")


def test_what_opens_further_up_moves_nothing(reader: Page):
    reader.set_viewport_size({"width": 1300, "height": 300})
    waiting = reader.locator(".waiting:visible")
    waiting.scroll_into_view_if_needed()
    top = reader.locator("#pr-layer-largest-outcome")
    place = waiting.evaluate("(node) => node.getBoundingClientRect().top")
    waiting.get_by_role("button", name="Show me").click()
    expect(top).to_be_visible()
    assert top.evaluate("(node) => node.getBoundingClientRect().top") == pytest.approx(
        place, abs=60
    )


@pytest.mark.parametrize("way", ["address", "link"])
def test_a_link_into_what_is_hidden_opens_it(way: str, reader: Page, address: str):
    anchor = "pr-layer-entropy-outcome"
    if way == "address":
        reader.goto("about:blank")
        reader.goto(f"{address}/03_layer.html#{anchor}")
    else:
        reader.evaluate(f"location.hash = '{anchor}'")
    expect(reader.locator(f"#{anchor}")).to_be_in_viewport()
    expect(reader.locator("#pr-layer-largest-outcome")).to_be_hidden()
    reader.go_back()


@pytest.mark.parametrize(
    ("text", "number", "verdict"),
    [
        ("0.69", 0.69, "that is right."),
        ("0,6", 0.6, "that is close."),
        (" 0.79", 0.79, "that is close."),
        ("-2", -2, "it turned out differently."),
        ("\u22122e1", -20, "it turned out differently."),
    ],
)
def test_a_number_is_judged(text: str, number: float, verdict: str, reader: Page):
    field = reader.get_by_role("textbox", name="What is the entropy")
    field.fill(text)
    field.press("Enter")
    outcome = reader.locator("#pr-layer-entropy-outcome")
    expect(outcome).to_contain_text(f"You predicted: {number:g} – {verdict}")
    assert kept(reader)["predictions"] == {"pr-layer-entropy": number}
    reader.reload()
    expect(field).to_have_value(f"{number:g}")
    expect(field).to_be_disabled()


@pytest.mark.parametrize("text", ["", "much", "1/2", "0x10", "Infinity", "1e999", "<b>1</b>"])
def test_what_is_no_number_is_not_kept(text: str, reader: Page):
    field = reader.get_by_role("textbox", name="What is the entropy")
    field.fill(text)
    field.press("Enter")
    expect(reader.locator("#pr-layer-entropy .ask-note")).to_contain_text("Type a number first")
    assert kept(reader) is None


# --- recall and review ------------------------------------------------------------------------


def test_a_question_moves_from_box_to_box(reader: Page):
    line = reader.locator(f"#{NAMES[0]} .ask-note")
    day, boxes = 0, []
    for wait in (1, 3, 7, 21, 60, 60):
        answer(reader, NAMES[0], knew=True)
        tomorrow = "tomorrow" if wait == 1 else f"in {wait} days"
        expect(line).to_have_text(f"It comes back {tomorrow}.")
        answer(reader, NAMES[0], knew=True)  # once more on the same day changes nothing
        boxes.append(kept(reader)["recalls"][NAMES[0]]["box"])
        day += wait
        later(reader, day)
    assert boxes == [1, 2, 3, 4, 5, 5]
    answer(reader, NAMES[0], knew=False)
    expect(line).to_have_text("It comes back in the review.")
    assert kept(reader)["recalls"][NAMES[0]]["box"] == 0
    expect(reader.locator(f"#{NAMES[0]}").get_by_role("button", name="Not yet")).to_have_attribute(
        "aria-pressed", "true"
    )


def test_the_review_shows_what_is_due_first(reader: Page, address: str):
    predict(reader, 1)
    answer(reader, NAMES[0], knew=True)
    answer(reader, NAMES[1], knew=False)
    reader.goto(f"{address}/review.html")
    expect(reader.locator(".review-count")).to_have_text("1 question is due today.")
    assert shown(reader) == [NAMES[1]]
    missed = reader.locator(".missed:visible")
    expect(missed).to_have_count(1)
    missed.get_by_role("link").click()
    assert reader.url.endswith("03_layer.html#pr-layer-largest-outcome")
    reader.go_back()
    later(reader, 1)
    expect(reader.locator(".review-count")).to_have_text("2 questions are due today.")
    assert shown(reader) == NAMES[:2]
    button(reader, "All 3 questions").click()
    assert shown(reader) == NAMES
    answer(reader, NAMES[0], knew=True)
    answer(reader, NAMES[1], knew=True)
    expect(reader.locator(".review-count")).to_have_text(
        "Nothing is due today. 2 questions come back later."
    )


def shown(page: Page) -> list[str]:
    blocks = page.locator(".recall:visible")
    return blocks.evaluate_all("(all) => all.map((block) => block.dataset.name)")


def test_the_review_goes_through_questions_one_by_one(reader: Page, address: str):
    answer(reader, NAMES[0], knew=True)
    answer(reader, NAMES[1], knew=False)
    reader.goto(f"{address}/review.html")
    later(reader, 2)
    button(reader, "One at a time").press("Enter")
    assert shown(reader) == [NAMES[1]], "the one that was not known comes first"
    expect(button(reader, "Previous")).to_be_disabled()
    reader.locator(".recall:visible summary").press("Enter")
    button(reader, "I knew it").press("Enter")
    expect(button(reader, "Next")).to_be_focused()
    reader.keyboard.press("Enter")
    assert shown(reader) == [NAMES[0]]
    expect(reader.locator(".recall:visible summary")).to_be_focused()
    expect(reader.locator(".review [role=status]").nth(1)).to_have_text("2 of 2")
    answer(reader, NAMES[0], knew=True)
    expect(reader.locator(".review")).to_contain_text("2 of 2: that was the last one")
    button(reader, "All 3 questions").click()
    assert shown(reader) == [NAMES[0]], "one at a time, from the first"
    button(reader, "One at a time").click()
    assert shown(reader) == NAMES


def test_everything_is_forgotten_after_a_question(reader: Page, address: str):
    predict(reader, 1)
    answer(reader, NAMES[1], knew=False)
    reader.goto(f"{address}/review.html")
    button(reader, "Forget all my answers").press("Enter")
    expect(button(reader, "Forget them")).to_be_focused()
    button(reader, "Keep them").click()
    expect(button(reader, "Forget all my answers")).to_be_focused()
    assert kept(reader) is not None
    button(reader, "Forget all my answers").click()
    button(reader, "Forget them").click()
    expect(reader.locator(".review-foot [role=status]")).to_have_text("All answers are forgotten.")
    assert reader.evaluate("localStorage.length") == 0 or kept(reader) is None
    expect(reader.locator(".missed:visible")).to_have_count(0)
    expect(reader.locator(".review-count")).to_contain_text("You have not answered a question yet.")


def test_two_tabs_keep_what_each_was_told(context: BrowserContext, reader: Page, address: str):
    other = context.new_page()
    other.goto(f"{address}/review.html")
    answer(other, NAMES[2], knew=True)
    answer(reader, NAMES[0], knew=False)
    predict(reader, 1)
    expect(other.locator(".review-count")).to_have_text("1 question is due today.")
    expect(other.locator(".missed:visible")).to_have_count(1)
    assert {*kept(reader)["recalls"]} == {NAMES[0], NAMES[2]}
    button(other, "Forget all my answers").click()
    button(other, "Forget them").click()
    expect(button(reader, "Commit to it").first).to_be_visible()
    expect(reader.get_by_role("radio").first).not_to_be_checked()


def test_a_choice_that_is_being_made_is_not_undone_by_another_tab(
    context: BrowserContext, reader: Page, address: str
):
    reader.locator(".predict label").nth(1).click()
    other = context.new_page()
    other.goto(f"{address}/review.html")
    answer(other, NAMES[0], knew=False)
    expect(reader.locator(f"#{NAMES[0]} .ask-note")).to_have_text("It comes back in the review.")
    expect(reader.get_by_role("radio").nth(1)).to_be_checked()


# --- a storage that fails ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (
            "Object.defineProperty(window, 'localStorage', "
            "{ get() { throw new DOMException('no', 'SecurityError'); } });",
            "This browser keeps no answers for this page",
        ),
        (
            "Storage.prototype.setItem = () => { "
            "throw new DOMException('full', 'QuotaExceededError'); };",
            "This browser has no room for answers",
        ),
    ],
)
def test_a_storage_that_is_blocked_or_full_is_no_error(
    broken: str, told: str, context: BrowserContext, reader: Page, address: str
):
    context.add_init_script(broken)
    for name in ("03_layer", "review"):
        reader.goto(f"{address}/{name}.html")
        answer(reader, NAMES[0], knew=False)
        expect(reader.locator(f".recall[data-name={NAMES[0]}] .ask-note")).to_contain_text(told)
    expect(reader.locator(".review-count")).to_have_text("1 question is due today.")
    expect(reader.locator(".review > .ask-note")).to_contain_text(told)
    button(reader, "Forget all my answers").click()
    button(reader, "Forget them").click()
    expect(reader.locator(".review-count")).to_contain_text("You have not answered")
    reader.goto(f"{address}/03_layer.html")
    predict(reader, 2)
    expect(reader.locator("#pr-layer-largest .ask-note")).to_contain_text(told)
    expect(reader.locator("#pr-layer-largest-outcome")).to_contain_text("You predicted: about 1/2")


ENTRIES = '{{"version": 1, "predictions": {0}, "recalls": {1}}}'


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[]",
        "null",
        '"text"',
        "7",
        '{"version": 2, "predictions": {"pr-layer-largest": 2}}',
        "[" * 150_000,
        '{"version": 1, "more": "' + "x" * 300_000 + '"}',
        ENTRIES.format("[1]", '"text"'),
        ENTRIES.format("null", "3"),
        ENTRIES.format('{"__proto__": 1, "constructor": 2}', '{"__proto__": {"box": 1, "day": 1}}'),
        ENTRIES.format('{"pr-layer-largest": 9, "pr-layer-entropy": "0.5"}', "{}"),
        ENTRIES.format('{"pr-layer-largest": 1.5, "pr-layer-entropy": null}', "{}"),
        ENTRIES.format("{}", '{"rc-self-order": null, "rc-layer-variance": [1, 2]}'),
        ENTRIES.format("{}", '{"rc-self-order": {"box": 6, "day": 2}}'),
        ENTRIES.format("{}", '{"rc-self-order": {"box": "length", "day": 2}}'),
        ENTRIES.format("{}", '{"rc-self-order": {"box": 1, "day": "x"}}'),
        ENTRIES.format('{"pr-gone-one": 1}', '{"rc-gone-one": {"box": 0, "day": 1}}'),
    ],
)
def test_what_cannot_be_read_is_left_out(text: str, one_reader: Page, address: str):
    reader = one_reader
    reader.evaluate("localStorage.clear()")
    reader.evaluate(f"(text) => localStorage.setItem('{KEY}', text)", text)
    reader.goto(f"{address}/review.html")
    expect(reader.locator(".missed:visible")).to_have_count(0)
    expect(reader.locator(".review-count")).to_contain_text("You have not answered a question yet.")
    reader.goto(f"{address}/03_layer.html")
    expect(button(reader, "Commit to it")).to_have_count(2)
    predict(reader, 1)
    answer(reader, NAMES[0], knew=True)
    state = kept(reader)
    assert state["predictions"]["pr-layer-largest"] == 1
    assert state["recalls"][NAMES[0]]["box"] == 1
    assert (
        reader.evaluate("({}).box === undefined && Object.prototype.toString.call({}).length") == 15
    )


def test_a_day_in_the_future_counts_as_today(reader: Page, address: str):
    mark = {"version": 1, "recalls": {NAMES[0]: {"box": 1, "day": 9_999_999}}}
    reader.evaluate(f"(text) => localStorage.setItem('{KEY}', text)", json.dumps(mark))
    reader.reload()
    expect(reader.locator(f"#{NAMES[0]} .ask-note")).to_have_text("It comes back tomorrow.")


# --- how it looks, without scripts, on paper and elsewhere ------------------------------------


@pytest.mark.parametrize("width", [1300, 390])
def test_questions_are_accessible_and_fit(width: int, reader: Page, address: str):
    reader.set_viewport_size({"width": width, "height": 900})
    predict(reader, 1)
    answer(reader, NAMES[1], knew=False)
    for name in ("03_layer", "review"):
        reader.goto(f"{address}/{name}.html")
        for summary in reader.locator("summary:visible").all():
            summary.click()
        if name == "review":
            button(reader, "One at a time").click()
            button(reader, "Forget all my answers").click()
        for theme in ("light", "dark"):
            reader.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
            assert axe.violations(reader, whole=theme == "light") == []
        assert reader.evaluate("document.documentElement.scrollWidth") <= width


def test_questions_need_no_script(browser: Browser, address: str):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/03_layer.html")
    expect(page.locator(".ask-options > li:visible")).to_have_count(3)
    expect(page.locator(".ask :is(button, input)")).to_have_count(0)
    expect(page.locator(".outcome:visible .ask-right:visible")).to_have_count(2)
    page.locator(f"#{NAMES[0]} summary").click()
    expect(page.locator(f"#{NAMES[0]} .ask-inside")).to_be_visible()
    page.goto(f"{address}/review.html")
    assert shown(page) == NAMES
    expect(page.locator(".review, .review-missed")).to_have_count(2)
    for part in (".review", ".review-missed"):
        expect(page.locator(part)).to_be_hidden()
    context.close()


def test_the_page_does_not_jump(reader: Page):
    """The page keeps room for what the script adds."""
    height = "(block) => block.offsetHeight"
    blocks = reader.locator(".ask.predict").all()
    with_script = [block.evaluate(height) for block in blocks]
    reader.route("**/questions.js*", lambda route: route.fulfill(body=""))
    reader.reload()
    without = [block.evaluate(height) for block in blocks]
    assert without == pytest.approx(with_script, abs=6)


def test_only_pages_that_ask_load_the_script(book: Path):
    for name, asks in (("03_layer", True), ("review", True), ("intro", False)):
        text = (book / "book" / f"{name}.html").read_text(encoding="utf-8")
        assert ("questions.js" in text) is asks
        assert ("questions.css" in text) is asks


def test_paper_has_the_question_and_the_line_of_a_fold(reader: Page, address: str):
    predict(reader, 1)
    reader.emulate_media(media="print")
    expect(reader.locator(".ask button:visible, .waiting:visible")).to_have_count(0)
    expect(reader.locator(".outcome:visible")).to_have_count(2)
    expect(reader.locator(".ask-options:visible, .ask-choice:visible")).to_have_count(3)
    reader.evaluate(make_pdf.OPEN)
    expect(reader.locator(".seen .ask-inside:visible")).to_have_count(2)
    expect(reader.locator(".recall summary:visible")).to_have_count(2)
    expect(reader.locator(".recall .ask-inside:visible")).to_have_count(0)
    expect(reader.locator(".fold summary:visible")).to_have_count(3)
    expect(reader.locator(".fold .ask-inside:visible")).to_have_count(0)
    reader.goto(f"{address}/review.html")
    reader.evaluate(make_pdf.OPEN)
    expect(reader.locator(".recall .ask-inside:visible")).to_have_count(3)
    expect(reader.locator(".review:visible, .review-foot:visible")).to_have_count(0)


def test_the_epub_keeps_questions_and_of_a_fold_its_line(book: Path):
    page = make_epub.Page(book, "book/03_layer", "https://example.org/")
    make_epub.settle_folds(page)
    make_epub.settle_form(page)
    folds = page.section.xpath(".//*[contains(@class, 'ask fold')]")
    assert [" ".join(fold.text_content().split()[:2]) for fold in folds] == [
        *("Equal to", "And once", "The attention")
    ]
    assert not [node for fold in folds for node in fold.iter("pre", "details", "summary")]
    assert len(page.section.xpath(".//details[contains(@class, 'recall')]//math")) == 2
    review = make_epub.Page(book, "book/review", "https://example.org/")
    assert len(review.section.xpath(".//details")) == 3
    assert not review.section.xpath(".//*[contains(@class, 'review-missed')]")


def test_a_small_book_shows_no_error_of_an_empty_answer(book: Path):
    text = (book / "book" / "03_layer.html").read_text(encoding="utf-8")
    assert "my_layer" in text
    assert "CheckFailed" not in text

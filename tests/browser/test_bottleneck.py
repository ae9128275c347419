"""The laboratory "Bottleneck" in a browser: models with one vector, alone or beside attention."""

import gzip
import re

import pytest
from playwright.sync_api import Page, expect

from engine.bottleneck import Bottleneck
from measure.records import read_results
from tests.browser.laboratory_page import LaboratoryPage
from tests.browser.test_laboratory import tasks_of

pytestmark = pytest.mark.browser
PATIENCE = 90_000
UNDER_WAY = "() => /step [1-9]\\d* of/.test(document.querySelector('.lab-status').textContent)"


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def trained(page: Page, models: int) -> str:
    """Train these models to the end; return what the panel says then."""
    press(page, "Train")
    page.wait_for_function(
        """(n) => [...document.querySelector(".lab-status").textContent
          .matchAll(/, done:|✗/g)].length === n""",
        arg=models,
        timeout=PATIENCE,
    )
    return page.locator(".lab-status").inner_text()


def rows(page: Page) -> dict[str, list[int]]:
    """The table: of each model its numbers, by length."""
    found = {}
    for row in page.locator(".neck-table tbody tr").all():
        name, *cells = row.locator("th, td").all_inner_texts()
        found[name] = [int(cell) for cell in cells if cell]
    return found


def test_attention_copies_what_one_vector_does_not_hold(stage):
    page = stage.show(Bottleneck(True))
    assert page.locator(".neck-results").is_hidden()
    assert page.evaluate("() => window.bookEngine === undefined"), "nothing is loaded before"
    status = trained(page, 2)
    assert "One vector, state 16, done: step 1000 of 1000, loss" in status
    assert "WebAssembly." in status
    expect(page.locator(".neck-table td:not(:empty)")).to_have_count(22)
    found = rows(page)
    assert list(found) == ["One vector, state 16, seed 0", "Attention, state 16, seed 0"]
    vector, attention = found.values()
    assert min(attention) == 100
    assert vector[0] > 90 > 10 > vector[-1]
    ends = page.locator(".neck-top .bw-end").all_text_contents()
    assert ends == ["one vector", "attention"]
    described = page.locator(".neck-top .bw-lines desc").text_content()
    assert re.search(r"Attention, state 16: 2 digits 100%.* 12 digits 100%\.", described)
    answers = page.locator(".neck-answer")
    expect(answers).to_have_count(3)
    expect(answers.nth(1)).to_contain_text("wrong")
    expect(answers.nth(2)).to_contain_text("✓ right")
    sums = page.locator(".neck-map .bw-map").evaluate(
        """(map) => [...map.tBodies[0].rows].map((row) =>
          [...row.cells].slice(1).reduce((sum, cell) => sum + Number(cell.textContent), 0))"""
    )
    assert len(sums) == 13
    assert all(abs(total - 1) < 0.08 for total in sums), "each row of a softmax, two digits"
    assert stage.violations(page) == []


def test_in_chapter_1_each_state_adds_a_curve(stage):
    page = stage.show(Bottleneck(longest=4))
    assert page.locator(".neck-map").count() == 0
    for state in ("8", "32"):
        dimension = page.get_by_role("group", name="State dimension")
        dimension.get_by_label(state, exact=True).check()
        trained(page, 1)
    found = rows(page)
    assert list(found) == ["State 8, seed 0", "State 32, seed 0"]
    legend = page.locator(".neck-top .bw-legend-item").all_inner_texts()
    assert legend == ["state 8", "state 32"]
    first, second = page.locator(".neck-top .bw-lines .bw-series").all()
    assert first.locator("circle").count() == second.locator("rect").count() == 3
    lists = found["State 8, seed 0"]
    page.get_by_role("radio", name="digits", exact=True).check()
    expect(page.locator(".bw-axis-y")).to_have_text("Digits right")
    digits = rows(page)["State 8, seed 0"]
    assert all(one >= other for one, other in zip(digits, lists, strict=True))
    assert digits[-1] > lists[-1], "a list is right if all of its digits are"
    button = page.locator(".neck-table button").first
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(button).to_be_focused()
    expect(page.locator(".lab-status")).to_contain_text("State 8, done")
    expect(page.locator(".lab-status")).to_contain_text("The settings have changed since")


def test_both_copy_the_readers_own_digits(stage):
    page = stage.show(Bottleneck(True, longest=4))
    trained(page, 2)
    line = page.get_by_label("Your own digits")
    expect(line).to_have_value("7369")
    line.fill("2 0 7")
    line.press("Enter")
    answers = page.locator(".neck-answer .lab-tokens")
    expect(answers.nth(0)).to_have_text(re.compile(r"^\s*2\s+0\s+7\s*$"))
    expect(answers.nth(2)).to_have_text(re.compile(r"^\s*2\s+0\s+7\s*$"))
    columns = page.locator(".neck-map thead th:not(.bw-corner)")
    expect(columns.filter(has_text=re.compile(r"\S"))).to_have_text(["2", "0", "7", "end"])
    for text in ("1" * 17, "-3", "<b>no", ""):
        line.fill(text)
        press(page, "Ask")
        expect(line).to_have_attribute("aria-invalid", "true")
        expect(page.locator(".neck-ask > .bw-note")).to_contain_text("One to 16 digits")
    line.fill("123456")
    press(page, "Ask")
    expect(line).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator(".neck-answers")).to_contain_text("Longer than any list in training")
    assert stage.violations(page) == []


def test_stop_reset_and_settings_by_keyboard_alone(stage):
    page = stage.show(Bottleneck(True, state=32))
    reached: list[str] = []

    def tab_to(wanted: str) -> None:
        for _ in range(25):
            page.keyboard.press("Tab")
            reached.append(
                page.evaluate("""() => document.activeElement.closest("label")
              ?.textContent ?? document.activeElement.textContent""")
            )
            if reached[-1] == wanted:
                return
        raise AssertionError(reached)

    tab_to("32")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("radio", name="16", exact=True)).to_be_checked()
    tab_to("Train")
    page.keyboard.press("Enter")
    page.wait_for_function(UNDER_WAY, timeout=PATIENCE)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # Stop, but for a short run that has ended meanwhile
    expect(page.locator(".lab-status")).to_contain_text(
        re.compile("Attention, state 16, (stopped|done):")
    )
    press(page, "Reset")
    expect(page.locator(".neck-results")).to_be_hidden()
    expect(page.get_by_role("radio", name="32", exact=True)).to_be_checked()
    for _ in range(100):
        if not page.workers:
            return
        page.wait_for_timeout(100)
    raise AssertionError("the workers are still there")


def test_a_laboratory_that_begins_elsewhere_stops_both(stage):
    page = stage.show(Bottleneck(True))
    press(page, "Train")
    page.wait_for_function(UNDER_WAY, timeout=PATIENCE)
    page.evaluate("() => document.dispatchEvent(new CustomEvent('book-laboratory-starts'))")
    status = page.locator(".lab-status")
    expect(status).to_contain_text(re.compile("Another laboratory of this page|, done:"))
    expect(status).to_contain_text(re.compile(", stopped:|, done:"))


def test_a_link_sets_what_is_trained(stage):
    query = "?bottleneck.state=8&bottleneck.longest=4&bottleneck.seed=12&bottleneck.count=words"
    page = stage.show(Bottleneck(), query=query)
    expect(page.locator(".bw-ignored")).to_contain_text("A setting in the link was ignored")
    checked = page.locator("input[type=radio]:checked")
    values = checked.evaluate_all("(all) => all.map(({ value }) => value)")
    assert values == ["8", "4", "lists"]
    expect(page.get_by_label("Seed")).to_have_value("12")


def test_buttons_curve_and_map_stand_on_one_screen(stage):
    """As wide as in a chapter at 1280 x 800, where the page's own header takes 48 pixels."""
    page = stage.show(Bottleneck(True, longest=12), width=800)
    trained(page, 2)
    expect(page.locator(".neck-map .bw-map")).to_be_visible()
    top = page.locator(".neck-top").bounding_box()["y"]
    map_box = page.locator(".neck-map .bw-map").bounding_box()
    assert map_box["y"] + map_box["height"] - top <= 800 - 48


@pytest.mark.slow
def test_on_a_telephone(phone):
    page = phone.show(Bottleneck(True))
    page.get_by_role("button", name="Train", exact=True).tap()
    page.wait_for_function(
        "() => /Attention.*done:/.test(document.querySelector('.lab-status').textContent)",
        timeout=PATIENCE,
    )
    expect(page.locator(".neck-map .bw-map")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    buttons = page.locator(".lab-run .bw-buttons").bounding_box()
    curve = page.locator(".neck-top .bw-lines").bounding_box()
    assert curve["y"] + curve["height"] - buttons["y"] <= 844, "on one screen"
    box = page.locator(".neck-map .bw-map").bounding_box()
    assert box["x"] + box["width"] <= 390
    targets = page.locator(".lab-run .bw-button, .lab-line > *")
    for height in targets.evaluate_all("(all) => all.map((n) => n.getBoundingClientRect().height)"):
        assert height >= 44
    assert phone.violations(page) == []


@pytest.mark.slow
def test_an_engine_that_does_not_load_is_said_and_asked_for_again(stage):
    page = stage.show(Bottleneck(longest=4))
    page.route("**/engine.js?v=*", lambda route: route.abort())
    assert "The engine did not load. Try again when you are online." in trained(page, 1)
    page.unroute("**/engine.js?v=*")
    assert "done" in trained(page, 1)
    stage.used[-1].problems.clear()  # the console names the file that failed


def test_a_notebook_without_its_kernel_says_so(stage):
    page = stage.show(Bottleneck(), via="module")
    assert "There is no kernel to ask for the engine" in trained(page, 1)


@pytest.mark.slow
def test_without_webassembly_it_trains_and_says_so(stage):
    page = stage.show(Bottleneck(state=8, longest=4))
    page.add_init_script("delete window.WebAssembly")
    page.route(
        "**/engine.js?v=*",
        lambda route: route.fulfill(
            body=(stage.folder / "widgets" / "engine.js").read_text(encoding="utf-8")
            + 'window.bookEngine.text = "delete self.WebAssembly;\\n" + window.bookEngine.text;',
            content_type="text/javascript",
        ),
    )
    assert "plain JavaScript" in trained(page, 1)


def test_the_engine_and_the_panel_are_light(stage):
    stage.show(Bottleneck())
    files = ("engine.js", "bottleneck.js", "bottleneck.css")
    sizes = {n: len(gzip.compress((stage.folder / "widgets" / n).read_bytes())) for n in files}
    assert sum(sizes.values()) <= 60_000, sizes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "state", "longest", "seed"),
    [("vector", 8, 4, 5), ("vector", 16, 12, 8), ("attention", 16, 12, 2), ("attention", 8, 8, 1)],
)
def test_a_reader_sees_what_was_recorded(browser, model, state, longest, seed):
    page = LaboratoryPage(browser)
    body = """const run = await start("copying", settings, seed);
      while (!run.done) run.step();
      return run.probe().lengths;"""
    recorded = read_results("copying")["models"][model][str(state)][str(longest)]
    settings = {"attention": model == "attention", "state": state, "longest": longest}
    for one in page.run(body, settings=settings, seed=seed):
        for what in ("lists", "digits"):
            by_seed = recorded[what][str(one["length"])]
            assert one[what] == pytest.approx(by_seed[seed], abs=1e-4)
    page.page.close()


@pytest.mark.slow
def test_the_page_stays_free_while_two_models_train(stage):
    """No task takes the page's thread for 50 ms; of three runs one within the bar is enough."""
    longest: list[float] = []
    while not longest or (len(longest) < 3 and longest[-1] >= 50):
        page = stage.show(Bottleneck(True))
        browser = page.context.browser
        browser.start_tracing(page=page, categories=["toplevel"])
        trained(page, 2)
        longest.append(max(tasks_of(browser.stop_tracing())))
    assert min(longest) < 50, longest

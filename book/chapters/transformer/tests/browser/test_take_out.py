"""The laboratory "Take a part out" in a browser: two models trained beside each other."""

import gzip
import re
from collections.abc import Sequence

import pytest
from playwright.sync_api import Locator, Page, expect

from chapters.transformer.take_out import PARTS, TakeOut
from measure.records import read_results
from tests.browser.laboratory_page import SMALL, LaboratoryPage
from tests.browser.test_laboratory import tasks_of

pytestmark = pytest.mark.browser
PATIENCE = 90_000
ENDED = "() => / done:| stopped:|✗/.test(document.querySelector('.lab-status').textContent)"
UNDER_WAY = "() => /step [1-9]\\d* of/.test(document.querySelector('.lab-status').textContent)"
RIGHT = "seventy three thousand six hundred and ninety one"


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def wait(page: Page, script: str = ENDED) -> str:
    page.wait_for_function(script, timeout=PATIENCE)
    return page.locator(".lab-status").inner_text()


def trained(page: Page) -> str:
    """Train; wait until the maps are those of the end."""
    press(page, "Train")
    page.wait_for_function("() => !/ done:|✗/.test(document.querySelector('.lab-status')"
                           ".textContent)")  # fmt: skip
    status = wait(page)
    expect(page.locator(".take-results")).to_have_attribute("aria-busy", "false", timeout=PATIENCE)
    return status


def shares(page: Page) -> list[list[int]]:
    """Of each model: numbers right and next words right, in percent."""
    return [
        [int(share) for share in re.findall(r"(\d+)%", text)]
        for text in page.locator(".take-figures:visible").all_inner_texts()
    ]


def names(page: Page) -> Locator:
    return page.locator(".take-name:visible")


def test_the_switches_are_those_of_the_task():
    assert list(SMALL["parts"]) == list(PARTS)


def test_the_model_without_a_part_stands_beside_the_whole_one(stage):
    page = stage.show(TakeOut("positions"))
    assert page.locator(".take-results").is_hidden()
    assert page.evaluate("() => window.bookEngine === undefined"), "nothing is loaded before"
    status = trained(page)
    assert "Without positions, done: step 600 of 600, loss" in status
    assert "WebAssembly." in status
    expect(names(page)).to_have_text(["the whole model", "without positions"])
    (whole, _), (right, words) = shares(page)
    assert whole > 90 > 50 > right
    assert words > right
    said = page.locator(".take-said:visible").all_inner_texts()
    assert said[0].split("\n") == [f"73691: {RIGHT} ✓ right"]
    assert said[1].endswith("✗ wrong")
    maps = page.locator(".take-side .bw-map:visible")
    expect(maps).to_have_count(2)
    for one in maps.all():
        sums = one.evaluate("""(map) => [...map.tBodies[0].rows].map((row) =>
          [...row.cells].slice(1).reduce((sum, cell) => sum + Number(cell.textContent), 0))""")
        assert len(sums) >= 3
        assert all(abs(total - 1) < 0.05 for total in sums), "each row of a softmax, two digits"
    columns = [one.locator("thead th").all_inner_texts() for one in maps.all()]
    assert columns == [["7", "3", "6", "9", "1", "<eos>"]] * 2
    legend = page.locator(".take-top .bw-legend-item").all_inner_texts()
    assert legend == ["the whole model", "without positions"]
    assert stage.violations(page) == []


@pytest.mark.slow
def test_the_whole_model_is_kept_and_each_run_stays_in_the_list(stage):
    page = stage.show(TakeOut("cross_attention"))
    trained(page)
    assert shares(page)[1][0] == 0
    other = page.locator(".take-side").nth(1)
    expect(other.locator(".bw-map")).to_be_hidden()
    expect(other).to_contain_text("This attention is taken out")
    page.get_by_label("Attention", exact=True).select_option(label="decoder, self-attention")
    expect(other.locator(".bw-map")).to_be_visible()
    press(page, "Put all back")
    for part in ("decoder's self-attention", "norms"):
        page.get_by_label(part, exact=True).uncheck()
    expect(page.locator(".lab-status")).to_contain_text("The switches have changed since")
    status = trained(page)
    assert "Without the decoder's self-attention and the norms, done:" in status
    rows = page.locator(".take-models > li")
    expect(rows).to_have_count(3)  # the whole model was not trained again
    expect(rows.nth(0)).to_contain_text("the whole model")
    rows.nth(1).get_by_role("button").click()
    expect(rows.nth(1).get_by_role("button")).to_have_attribute("aria-pressed", "true")
    expect(rows.nth(1).get_by_role("button")).to_be_focused()
    expect(names(page)).to_have_text(["the whole model", "without cross-attention"])
    rows.nth(0).get_by_role("button").click()
    expect(names(page)).to_have_text(["the whole model"])
    expect(page.locator(".take-sides")).to_contain_text("will stand here")


@pytest.mark.slow
def test_another_seed_has_its_own_whole_model(stage):
    page = stage.show(TakeOut("root"))
    trained(page)
    page.get_by_label("Seed").fill("1")
    trained(page)
    seeds = page.locator(".take-models .take-seed").all_inner_texts()
    assert seeds == ["seed 0", "seed 0", "seed 1", "seed 1"]
    page.locator(".take-models button").nth(1).click()
    expect(names(page)).to_have_text(["the whole model", "without the division by √d_k"])


@pytest.mark.slow
def test_without_the_mask_the_next_words_are_right_and_the_numbers_wrong(stage):
    page = stage.show(TakeOut("causal_mask"))
    trained(page)
    [_, [right, words]] = shares(page)
    assert right < 10 < 95 < words


@pytest.mark.slow
def test_both_write_the_readers_own_number(stage):
    page = stage.show(TakeOut("positions"))
    trained(page)
    said = page.locator(".take-said:visible")
    before = said.nth(1).inner_text()
    line = page.get_by_label("Your own number")
    line.fill("19637")  # the same digits: a set, for a model without positions
    line.press("Enter")
    expect(said.nth(0)).to_contain_text("nineteen thousand six hundred and thirty seven")
    expect(said.nth(1)).to_contain_text(before.removeprefix("73691: ").removesuffix(" ✗ wrong"))
    expect(page.locator(".take-side .bw-map thead th").first).to_have_text("1")
    for text in ("123456", "-3", "<b>no", ""):
        line.fill(text)
        press(page, "Ask")
        expect(line).to_have_attribute("aria-invalid", "true")
        expect(page.locator(".take-own .bw-note")).to_contain_text("one to five digits")
    line.fill("4217")
    press(page, "Ask")
    expect(line).not_to_have_attribute("aria-invalid", "true")
    expect(said.nth(0)).to_contain_text("four thousand two hundred and seventeen")
    assert stage.violations(page) == []


@pytest.mark.slow
def test_each_head_has_its_map_and_the_mean_is_theirs(stage):
    page = stage.show(TakeOut("heads"))
    trained(page)
    choice = page.get_by_label("Head", exact=True)
    options = choice.locator("option").all_inner_texts()
    assert options == [f"head {n}" for n in range(1, 5)] + ["mean of the heads"]

    def cells(place: int) -> list[float]:
        expect(page.locator(".take-results")).to_have_attribute("aria-busy", "false")
        return page.locator(".take-side").nth(place).locator("td:not(.bw-corner)").evaluate_all(
            "(all) => all.map((n) => Number(n.textContent))"
        )  # fmt: skip

    mean, alone = cells(0), cells(1)
    each = []
    for n in range(1, 5):
        choice.select_option(str(n))
        each.append(cells(0))
        assert cells(1) == alone, "of one head, whichever is chosen"
    for got, *wanted in zip(mean, *each, strict=True):
        assert abs(got - sum(wanted) / 4) < 0.011


def test_stop_reset_and_switches_by_keyboard_alone(stage):
    page = stage.show(TakeOut())
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

    tab_to("residual path")
    page.keyboard.press("Space")
    expect(page.get_by_label("residual path")).not_to_be_checked()
    tab_to("Train")
    page.keyboard.press("Enter")
    wait(page, UNDER_WAY)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # Stop, but for a short run that has ended meanwhile
    expect(page.locator(".lab-status")).to_contain_text(
        re.compile("Without the residual path, (stopped|done):")
    )
    tab_to("Put all back")
    page.keyboard.press("Enter")
    expect(page.get_by_label("residual path")).to_be_checked()
    expect(page.get_by_role("button", name="Put all back")).to_have_attribute(
        "aria-disabled", "true"
    )
    press(page, "Reset")
    expect(page.locator(".take-results")).to_be_hidden()
    for _ in range(100):
        if not page.workers:
            return
        page.wait_for_timeout(100)
    raise AssertionError("the workers are still there")


def test_a_laboratory_that_begins_elsewhere_stops_both(stage):
    page = stage.show(TakeOut("norms"))
    press(page, "Train")
    wait(page, UNDER_WAY)
    page.evaluate("() => document.dispatchEvent(new CustomEvent('book-laboratory-starts'))")
    expect(page.locator(".lab-status")).to_contain_text("Another laboratory of this page has begun")
    assert re.search(" stopped:| done:", wait(page)), "a short run may have ended meanwhile"


def test_a_link_sets_the_switches(stage):
    query = "?take_out.norms=false&take_out.heads=false&take_out.seed=12&take_out.relu=2"
    page = stage.show(TakeOut(), query=query)
    expect(page.locator(".bw-ignored")).to_contain_text("A setting in the link was ignored")
    off = page.locator(".take-parts label", has=page.locator("input:not(:checked)"))
    assert off.all_inner_texts() == ["more than one head", "norms"]
    expect(page.get_by_label("Seed")).to_have_value("12")


def tops(page: Page, selectors: Sequence[str]) -> list[float]:
    return [
        page.locator(one).first.evaluate("(n) => n.getBoundingClientRect()")[side]
        for one, side in zip(selectors, ("top", "bottom"), strict=True)
    ]


def test_buttons_curves_and_maps_stand_on_one_screen(stage):
    """As wide as in a chapter at 1280 x 800, where the page's own header takes 48 pixels."""
    page = stage.show(TakeOut("encoder_self_attention"), width=800)
    trained(page)
    first, last = tops(page, (".take-parts", ".take-side .bw-map"))
    assert last - first <= 800 - 48
    curves = page.locator(".take-top .bw-lines").last.bounding_box()
    assert curves["y"] + curves["height"] < page.locator(".take-sides").bounding_box()["y"]


@pytest.mark.slow
def test_on_a_telephone(phone):
    page = phone.show(TakeOut("encoder_self_attention"))
    page.get_by_role("button", name="Train", exact=True).tap()
    wait(page)
    expect(page.locator(".take-results")).to_have_attribute("aria-busy", "false", timeout=PATIENCE)
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    maps = page.locator(".take-side .bw-map:visible").evaluate_all(
        "(all) => all.map((n) => n.getBoundingClientRect())"
    )
    assert maps[0]["right"] < maps[1]["left"], "beside each other"
    assert maps[1]["right"] <= 390
    targets = page.locator(".lab-run .bw-button, .take-parts .bw-toggle, .lab-line > *")
    for height in targets.evaluate_all("(all) => all.map((n) => n.getBoundingClientRect().height)"):
        assert height >= 44
    cell = page.locator(".take-side .bw-map td:not(.bw-corner)").nth(3)
    cell.tap()
    expect(page.locator(".take-side .bw-reading").first).to_have_text(cell.get_attribute("title"))
    assert phone.violations(page) == []


@pytest.mark.slow
def test_an_engine_that_does_not_load_is_said_and_asked_for_again(stage):
    page = stage.show(TakeOut("norms"))
    page.route("**/engine.js?v=*", lambda route: route.abort())
    press(page, "Train")
    assert "The engine did not load. Try again when you are online." in wait(page)
    page.unroute("**/engine.js?v=*")
    assert "done" in trained(page)
    stage.used[-1].problems.clear()  # the console names the file that failed


def test_a_notebook_without_its_kernel_says_so(stage):
    page = stage.show(TakeOut("norms"), via="module")
    press(page, "Train")
    assert "There is no kernel to ask for the engine" in wait(page)


def test_the_engine_and_the_panel_are_light(stage):
    stage.show(TakeOut())
    files = ("engine.js", "take_out.js", "take_out.css")
    sizes = {n: len(gzip.compress((stage.folder / "widgets" / n).read_bytes())) for n in files}
    assert sum(sizes.values()) <= 60_000, sizes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("without", "seed"),
    [("encoder_self_attention", 5), ("encoder_self_attention", 8), ("positions", 0),
     ("causal_mask", 2), ("cross_attention", 0)],
)  # fmt: skip
def test_a_reader_sees_what_was_recorded(browser, without, seed):
    page = LaboratoryPage(browser)
    body = """const run = await start("parts", settings, seed);
      while (!run.done) run.step();
      return { accuracy: run.probe().accuracy,
        writes: Object.fromEntries(numbers.map((n) => [n, run.ask(n).output.join(" ")])) };"""
    recorded = read_results("take_out")["without"][without][seed]
    settings = {part: part != without for part in PARTS}
    numbers = list(recorded["writes"])
    found = page.run(body, settings=settings, seed=seed, numbers=numbers)
    assert found["writes"] == recorded["writes"]
    assert found["accuracy"] == pytest.approx(recorded["accuracy"], abs=1e-4)
    page.page.close()


@pytest.mark.slow
def test_the_page_stays_free_while_two_models_train(stage):
    """No task takes the page's thread for 50 ms; of three runs one within the bar is enough."""
    longest: list[float] = []
    while not longest or (len(longest) < 3 and longest[-1] >= 50):
        page = stage.show(TakeOut("positions"))
        browser = page.context.browser
        browser.start_tracing(page=page, categories=["toplevel"])
        trained(page)
        longest.append(max(tasks_of(browser.stop_tracing())))
    assert min(longest) < 50, longest

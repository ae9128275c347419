"""The runs of a laboratory: asked at any step, compared, linked, kept and thrown away."""

import json
import re
from urllib.parse import quote_plus

import pytest
from playwright.sync_api import Page, expect

from engine.laboratory import TASKS, Laboratory
from scripts.hostile import TEXTS, WATCH
from tests.browser.test_laboratory import PATIENCE, drawn, fast, press, step_of, trained, wait

pytestmark = pytest.mark.browser
KEY = "transformer-piece-by-piece.runs"
QUESTION = "goat sees cow"
WHERE = "Look back through the run"
REFUSE = """() => Object.defineProperty(navigator, "clipboard",
  { value: { writeText() { throw 1; } } })"""


def order(**more) -> Laboratory:
    """A run of less than a second."""
    return Laboratory("order", n_layers=1, n_heads=2, positions="learned", **more)


def ask(page: Page, text: str) -> None:
    page.locator(".lab-own input").fill(text)
    press(page, "Ask")


def looked(page: Page) -> dict[str, str]:
    """What is seen of the model that is looked at: its step, answer and map."""
    drawn(page)
    return {
        "maps": page.locator(".lab-maps").inner_text(),
        "answer": page.locator(".lab-answers > li").first.inner_text(),
        "heading": page.locator(".lab-map-head .bw-label").first.inner_text(),
    }


def stored(page: Page) -> dict:
    return json.loads(page.evaluate("(key) => localStorage.getItem(key)", KEY) or "{}")


def kept(page: Page, name: str, number: int = 1) -> None:
    """Keep a run under a name."""
    press(page, f"Keep run {number}")
    page.get_by_label(f"A name for run {number}, if you like").fill(name)
    page.get_by_role("button", name="Keep it in this browser", exact=True).locator(
        "visible=true"
    ).click()


def halted(page: Page) -> str:
    return wait(page, "() => /paused/.test(document.querySelector('.lab-status').textContent)")


@pytest.fixture
def forgetful(stage):
    """A stage whose browser forgets, after the test, what the pages kept."""
    yield stage
    for tab in stage.used:
        tab.page.evaluate("() => localStorage.clear()")


def test_an_earlier_run_can_be_asked_what_was_not_asked_then(stage):
    page = stage.show(order())
    trained(page)
    ask(page, QUESTION)
    expect(page.locator(".lab-answers > li")).to_have_count(1)
    first = looked(page)
    ask(page, "dog bites man")
    page.get_by_label("Seed").fill("1")
    trained(page)
    ask(page, QUESTION)
    expect(page.locator(".lab-maps thead th").last).to_have_text("cow")
    second = looked(page)
    assert second["maps"] != first["maps"]
    assert second["heading"] == "Attention maps of run 2, step 150"
    page.get_by_label("Look at").select_option(label="Run 1")  # its maps were of another sentence
    expect(page.locator(".lab-maps thead th").last).to_have_text("cow")
    expect(page.locator(".lab-answers > li").first).to_contain_text("run 1, step 150")
    assert looked(page) == first
    expect(page.locator(".lab-runs > li").first).to_have_class("lab-shown")
    page.get_by_label(WHERE).press("Home")
    expect(page.locator(".lab-answers > li").first).to_contain_text("run 1, step 0")
    untrained = looked(page)
    assert untrained["heading"] == "Attention maps of run 1, step 0"
    assert untrained["maps"] != first["maps"]
    ask(page, "cat likes cat")  # now of this step alone
    expect(page.locator(".lab-maps thead th").last).to_have_text("cat")
    expect(page.locator(".lab-answers > li")).to_have_count(1)
    expect(page.locator(".lab-answers > li")).to_contain_text("run 1, step 0")
    ask(page, "cat likes wolf")
    expect(page.locator(".lab-own .bw-problem")).to_contain_text("“wolf”")
    assert stage.violations(page) == []


@pytest.mark.slow
def test_a_step_that_is_looked_back_at_is_that_of_a_run_that_stopped_there(stage):
    page = stage.show(order(seed=3))
    trained(page)
    slider = page.get_by_label(WHERE)
    for _ in range(60):
        slider.press("ArrowLeft")
    step = int(re.search(r"step (\d+):", slider.get_attribute("aria-valuetext"))[1])
    assert 0 < step < 100
    ask(page, QUESTION)
    expect(page.locator(".lab-maps thead th").last).to_have_text("cow")
    expect(page.locator(".lab-answers > li").first).to_contain_text(f"step {step}")
    back = looked(page)
    page = stage.show(order(seed=3), query=f"?laboratory.step={step}")
    assert step_of(halted(page)) == step
    ask(page, QUESTION)
    expect(page.locator(".lab-maps thead th").last).to_have_text("cow")
    assert looked(page) == back
    press(page, "Go on")
    assert "Step 150 of 150" in wait(page)


@pytest.mark.slow
def test_a_click_on_a_curve_chooses_run_and_step(stage):
    page = stage.show(fast())
    trained(page)
    page.get_by_label("Seed").fill("1")
    trained(page)
    press(page, "1 head")
    trained(page)
    chart = page.locator(".lab-accuracy svg")
    box = chart.bounding_box()
    right = 46 + 0.5 * (box["width"] - 60)  # the middle of its steps
    chart.click(position={"x": right, "y": 12})  # at the top: one of those that learned
    slider = page.get_by_label(WHERE)
    text = slider.get_attribute("aria-valuetext")
    assert re.match(r"run [12], step (19|20)\d: 100%", text), text
    chart.click(position={"x": right, "y": 100})
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^run 3, step (19|20)\d: "))
    expect(page.locator(".lab-head:visible")).to_have_count(1)
    page.locator(".lab-loss svg").click(position={"x": box["width"] - 14, "y": 20})
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^run 3, step 400: "))


@pytest.mark.slow
def test_an_interrupted_run_looks_interrupted(stage):
    page = stage.show(Laboratory("neighbours", n_heads=8, d_model=64, d_k=32))
    press(page, "Train")
    wait(page, "() => /Step [1-9]\\d/.test(document.querySelector('.lab-status').textContent)")
    press(page, "Train")  # the second takes the place of the first, which then reports once more
    wait(page, "() => /Run 2: Step [1-9]/.test(document.querySelector('.lab-status').textContent)")
    press(page, "Stop")
    page.wait_for_timeout(500)
    drawn(page)
    results = page.locator(".lab-result").all_inner_texts()
    steps = [int(re.fullmatch(r"\d+%, stopped at step (\d+)", text)[1]) for text in results]
    assert all(0 < step < 400 for step in steps)
    assert step_of(page.locator(".lab-status").inner_text()) == steps[1]
    for chart in (".lab-accuracy", ".lab-loss"):
        expect(page.locator(f"{chart} .bw-cut")).to_have_count(2)
        told = page.locator(f"{chart} desc").text_content()
        assert all(f"stopped at step {step}" in told for step in steps)
    page.get_by_label("Look at").select_option(label="Run 1")
    expect(page.get_by_label(WHERE)).to_have_attribute(
        "aria-valuetext", re.compile(f"^run 1, step {steps[0]}: ")
    )


@pytest.mark.slow
def test_five_seeds_are_a_band(stage):
    page = stage.show(order(seed=9998))
    press(page, "Train 5 seeds")
    page.wait_for_function(
        "() => / \\(5 of 5\\), done/.test(document.querySelector('.lab-status').textContent)",
        timeout=PATIENCE,
    )
    expect(page.locator(".lab-runs > li")).to_have_count(1)
    expect(page.locator(".lab-settings")).to_contain_text("Seed 9995 to 9999")
    assert re.match(r"\d+% to 100%, median 100%", page.locator(".lab-result").inner_text())
    for chart in (".lab-accuracy", ".lab-loss"):
        expect(page.locator(f"{chart} .bw-band")).to_have_count(1)
        expect(page.locator(f"{chart} .bw-series")).to_have_count(1)
    options = page.get_by_label("Look at").locator("option").all_inner_texts()
    assert options == [f"Run 1, seed {seed}" for seed in range(9995, 10_000)]
    maps = set()
    for name in (options[0], options[3]):
        page.get_by_label("Look at").select_option(label=name)
        page.wait_for_timeout(200)
        found = looked(page)
        assert found["heading"] == f"Attention maps of r{name[1:]}, step 150"
        maps.add(found["maps"])
    assert len(maps) == 2
    assert stage.violations(page) == []
    page.get_by_label("Seed").fill("0")
    for name, value in (("n_layers", 3), ("d_model", 64)):  # slower
        page.locator(f"[data-key={name}][value='{value}']").dispatch_event("click")
    press(page, "Train 5 seeds")
    wait(
        page,
        "() => /Run 2.*\\(2 of 5\\): Step [1-9]/.test("
        "document.querySelector('.lab-status').textContent)",
    )
    press(page, "Stop")  # those that have not begun go
    expect(page.locator(".lab-result").nth(1)).to_contain_text(
        re.compile(r"seed \d stopped at step")
    )
    assert page.get_by_label("Look at").locator("option").count() < 10


def test_a_link_opens_the_same_run_at_the_same_step(stage):
    page = stage.show(order())
    page.get_by_label("Seed").fill("7")
    for step in range(1, 5):
        press(page, "One step")
        wait(page, f"() => /Step {step} /.test(document.querySelector('.lab-status').textContent)")
    ask(page, QUESTION)
    expect(page.locator(".lab-answers > li").first).to_contain_text("step 4")
    before, loss = looked(page), re.compile(r"Step .*?%")
    status = page.locator(".lab-status").inner_text()
    page.evaluate(REFUSE)
    press(page, "Copy link to run 1")
    link = page.get_by_label("Link to run 1", exact=True).input_value()
    query = link.partition("?")[2].removesuffix("#laboratory")
    assert f"laboratory.step={step_of(status)}" in query.split("&")
    page = stage.show(order(), query=f"?{query}")
    again = halted(page)
    ask(page, QUESTION)
    expect(page.locator(".lab-answers > li").first).to_contain_text("step 4")
    assert loss.search(again)[0] == loss.search(status)[0]
    assert looked(page) == before
    press(page, "Train")  # of the reader's own: to the end
    assert "Step 150 of 150" in wait(page)
    page.evaluate(REFUSE)
    press(page, "Copy link to this state")
    assert "step" not in page.get_by_label("Link to this state").input_value()


@pytest.mark.parametrize("step", ["-1", "1201", "7.5", "constructor", "<b>1</b>", "1e999", ""])
def test_a_step_that_is_none_trains_nothing(stage, step):
    page = stage.show(order(), query=f"?laboratory.step={quote_plus(step)}")
    expect(page.locator(".bw-ignored")).to_contain_text("A setting in the link was ignored")
    page.wait_for_timeout(300)
    expect(page.locator(".lab-status")).to_contain_text("Nothing is trained yet")
    assert page.evaluate("() => window.bookEngine === undefined")


@pytest.mark.slow
def test_a_step_beyond_the_end_is_the_end(stage):
    page = stage.show(order(), query="?laboratory.step=1200")
    assert "done: Step 150 of 150" in wait(page)


def test_a_run_is_named_kept_found_after_a_reload_and_thrown_away(forgetful):
    page = forgetful.show(order())
    trained(page)
    ask(page, QUESTION)
    expect(page.locator(".lab-answers > li")).to_have_count(1)
    before = looked(page)
    kept(page, "with positions")
    expect(page.locator(".bw > [role=status]")).to_have_text(
        "Run 1, with positions is kept in this browser."
    )
    expect(page.get_by_role("button", name="Rename run 1")).to_be_focused()
    share = page.locator(".lab-result").inner_text()
    size = len(json.dumps(stored(page)))
    assert size < 10_000, "curves, no models"
    page.reload()
    expect(page.locator(".lab-name")).to_contain_text("Run 1, with positions")
    expect(page.locator(".lab-result")).to_have_text(share)
    assert page.locator(".lab-accuracy .bw-line").get_attribute("d").count("L") > 20
    expect(page.locator(".lab-mapping > .bw-note")).to_contain_text("Train again")
    assert page.evaluate("() => window.bookEngine === undefined"), "nothing is loaded for that"
    assert forgetful.violations(page) == []
    press(page, "Train again: run 1")
    assert "Run 1, done" in wait(page)
    ask(page, QUESTION)
    expect(page.locator(".lab-answers > li")).to_have_count(1)
    after = looked(page)
    assert after["maps"] == before["maps"]
    page.get_by_label("Seed").fill("5")
    trained(page)  # beside the kept one
    expect(page.locator(".lab-accuracy .bw-series")).to_have_count(2)
    press(page, "Reset")  # forgets what was not kept
    expect(page.locator(".lab-runs > li")).to_have_count(1)
    press(page, "Remove run 1")
    expect(page.locator(".lab-results")).to_be_hidden()
    page.reload()
    expect(page.locator(".lab-results")).to_be_hidden()
    assert stored(page)["tasks"] == {"order": []}


def test_other_laboratories_do_not_show_what_one_keeps(forgetful):
    page = forgetful.show(order())
    press(page, "One step")
    halted(page)
    kept(page, "")
    page = forgetful.show(Laboratory("neighbours"))
    expect(page.locator(".lab-results")).to_be_hidden()
    page = forgetful.show(order())
    expect(page.locator(".lab-result")).to_contain_text("stopped at step 1")
    expect(page.locator(".lab-accuracy .bw-cut")).to_have_count(1)


@pytest.mark.parametrize("where", ["getItem", "setItem"])
def test_a_browser_that_keeps_nothing_says_so(forgetful, where):
    page = forgetful.show(order(), locale="en")  # a page of its own, whose storage refuses
    page.add_init_script(f"Storage.prototype.{where} = () => {{ throw new Error('full'); }};")
    page.reload()
    press(page, "One step")
    halted(page)
    kept(page, "mine")
    expect(page.locator(".lab-results > .bw-problem")).to_contain_text("lasts until you leave")
    expect(page.locator(".lab-name")).to_contain_text("Run 1, mine")
    press(page, "Remove run 1")
    expect(page.locator(".lab-results")).to_be_hidden()


@pytest.mark.slow
def test_more_than_eight_are_not_kept(forgetful):
    page = forgetful.show(order())
    for number in range(1, 10):
        press(page, "One step")
        halted(page)
        press(page, "Stop")
        kept(page, f"name {number}", number)
    expect(page.locator(".lab-results > .bw-problem")).to_contain_text("8 runs are kept already")
    assert len(stored(page)["tasks"]["order"]) == 8
    press(page, "Remove run 3")
    kept(page, "the ninth", 9)
    expect(page.locator(".lab-results > .bw-problem")).to_be_empty()
    assert [one["label"] for one in stored(page)["tasks"]["order"]][-1] == "the ninth"


ENTRY = {
    "key": "bw-1",
    "label": "x",
    "runs": [
        {
            "settings": dict(TASKS["order"].start) | {"seed": 1},
            "state": "done",
            "step": 150,
            "steps": 150,
            "losses": [[1, 2.5], [150, 0.1]],
            "probes": [[0, 0.1], [150, 1]],
        }
    ],
}


def changed(**changes) -> dict:
    return ENTRY | {"runs": [ENTRY["runs"][0] | changes]}


def as_kept(*entries) -> str:
    return json.dumps({"version": 1, "tasks": {"order": entries}})


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("null", 0),
        ("[1]", 0),
        ('{"version": 2}', 0),
        ('{"version": 1, "tasks": 7}', 0),
        ('{"version": 1, "tasks": {"order": "constructor"}}', 0),
        ('{"version": 1, "tasks": {"__proto__": [1], "order": [null, 3, {}, []]}}', 0),
        (as_kept(ENTRY), 1),
        *(
            (as_kept(one, ENTRY), 1)
            for one in (
                changed(settings={}),
                changed(settings=None),
                changed(settings=ENTRY["runs"][0]["settings"] | {"lr": 7}),
                changed(step=-1),
                changed(steps="150"),
                changed(state="hasOwnProperty"),
                changed(losses="no list"),
                ENTRY | {"runs": []},
                ENTRY | {"label": 3},
            )
        ),
        (as_kept(changed(losses=[[1, "<b>"], [2, None]])), 1),
        (as_kept(*(ENTRY | {"label": text} for text in TEXTS[:8])), 8),
        ("x" * 1_000_001, 0),
    ],
)  # fmt: skip
def test_what_is_kept_may_be_anything(forgetful, text, count):
    """A reader, or another page of this address, may have written it: nothing runs or breaks."""
    page = forgetful.show(order(), locale="en")
    page.add_init_script(WATCH)
    page.evaluate("([key, text]) => localStorage.setItem(key, text)", [KEY, text])
    page.reload()
    expect(page.locator(".bw-error")).to_be_hidden()
    expect(page.locator(".lab-runs > li")).to_have_count(count)
    press(page, "One step")
    halted(page)
    expect(page.locator(".lab-runs > li")).to_have_count(count + 1)
    assert page.evaluate("window.harmed === undefined")


def functions(stage) -> Page:
    return stage.functions(order())


def test_models_beyond_a_bound_are_forgotten_and_the_last_stay(stage):
    page = functions(stage)
    found = page.evaluate("""() => {
      const run = (n) => ({ probes: Array.from({ length: n }, (_, step) => (
        { step, model: new Float32Array(10) })) }); // 40 bytes each
      const left = (run) => run.probes.filter(({ model }) => model).map(({ step }) => step);
      const look = (most, ...sizes) => {
        const runs = sizes.map(run);
        return [own.lab_runs.bound(runs, most), ...runs.map(left)];
      };
      return [look(400, 5, 5), look(399, 5, 5), look(200, 5, 5), look(0, 3, 4)];
    }""")
    assert found == [
        [False, [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]],
        [True, [0, 2, 4], [0, 1, 2, 3, 4]],
        [True, [4], [0, 2, 4]],
        [True, [2], [3]],
    ]


PACED = """async ({ every, painting }) => {
  const work = (ms) => { for (const end = performance.now() + ms; performance.now() < end;); };
  const times = [];
  const { later } = own.lab_draw.drawing(() => {
    times.push(performance.now());
    requestAnimationFrame(() => requestAnimationFrame(() => work(painting)));
  }, every ? () => every : undefined);
  for (let i = 0; i < 1000 && times.length < 3; i += 1) {
    later();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return times.slice(1).map((time, i) => time - times[i]);
}"""


@pytest.mark.parametrize(
    ("every", "painting", "least"), [(None, 0, 100), (None, 80, 480), (300, 0, 300)]
)
def test_a_panel_is_drawn_seldom_where_a_drawing_takes_long_to_paint(stage, every, painting, least):
    pauses = functions(stage).evaluate(PACED, {"every": every, "painting": painting})
    assert len(pauses) == 2
    assert min(pauses) >= least - 1


AWAY = """async () => {
  const now = performance.now.bind(performance);
  const frame = requestAnimationFrame;
  let [frames, away] = [0, 0];
  performance.now = () => now() + away;
  window.requestAnimationFrame = (call) => frame(() => {
    frames += 1;
    if (frames === 2) away = 60_000;
    call();
  });
  const times = [];
  const { later } = own.lab_draw.drawing(() => times.push(now()));
  for (let i = 0; i < 1000 && times.length < 2; i += 1) {
    later();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  return times[1] - times[0];
}"""


def test_a_minute_in_another_tab_is_not_taken_for_a_drawing(stage):
    assert functions(stage).evaluate(AWAY) < 5000


def test_a_band_is_from_the_least_to_the_greatest_about_the_median(stage):
    page = functions(stage)
    lines = [[[0, 1], [10, 3]], [[0, 0], [5, 10], [10, 0]], [[0, 5]]]
    band = page.evaluate("(lines) => own.lab_curves.spread(lines)", lines)
    assert band == [[0, 0, 1, 5], [5, 2, 6, 10], [10, 0, 1.5, 3]]
    assert page.evaluate("() => own.lab_curves.spread([])") == []


def test_a_thinned_curve_keeps_its_ends_and_means(stage):
    page = functions(stage)
    found = page.evaluate("""() => {
      const losses = Array.from({ length: 400 }, (_, i) => [i + 1, i]);
      const once = own.lab_lines.thinned(losses, 400);
      return [once, own.lab_lines.thinned(once, 400)];
    }""")
    assert found[0] == found[1]
    assert 90 < len(found[0]) <= 120
    assert found[0][0] == [4, 1.5]
    assert found[0][-1] == [400, 397.5]


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_buttons_curve_and_maps_are_on_one_screen(stage, phone, task):
    """On 1280 x 800 a chapter is as wide as here; on a telephone the map is one swipe away."""
    measure = """() => {
      const [top, maps, last] = [".lab-run", ".lab-maps", ".lab-accuracy"].map((name) =>
        document.querySelector(name).getBoundingClientRect());
      return [maps.top - top.top, Math.max(maps.bottom, last.bottom) - top.top];
    }"""
    for screen, size, bar in ((stage, {"width": 800}, 800), (phone, {}, 844)):
        page = screen.show(Laboratory(task), **size)
        press(page, "Train")
        # A language model writes long sentences before it has learned to end them
        step = " done:" if task == "future" else "Step [1-9]"
        wait(page, f"() => /{step}/.test(document.querySelector('.lab-status').innerText)")
        page.get_by_role("button", name="Stop", exact=True).dispatch_event("click")
        page.wait_for_timeout(400)
        drawn(page)
        begins, ends = page.evaluate(measure)
        assert begins < bar - 150, "most of the first map is seen beside the buttons"
        if size:
            assert ends <= bar, ends


def test_of_many_heads_all_are_small_and_the_chosen_one_is_large(stage, phone):
    """Everything stands on one screen of 1280 x 800, below the page's header of 48 pixels."""
    for screen, size in ((stage, {"width": 800}), (phone, {})):
        page = screen.show(Laboratory("neighbours", n_heads=8, d_model=16), **size)
        press(page, "One step")
        halted(page)
        drawn(page)
        small = page.get_by_role("group", name="Choose a head").get_by_role("button")
        expect(small).to_have_count(8)
        expect(page.locator(".lab-head:visible")).to_have_count(1)
        top = page.locator(".lab-run").bounding_box()["y"]
        box = page.locator(".lab-maps").bounding_box()
        assert box["y"] - top <= (752 if size else 800), "at most one swipe away"
        if size:
            assert box["y"] + box["height"] - top <= 752
        else:
            assert box["height"] <= 752, "all heads and the large one on one screen"
            for one in small.all():
                assert min(one.bounding_box()[side] for side in ("width", "height")) >= 44
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        large = page.locator(".lab-head table")
        seen = set()
        for k in range(8):
            one = page.get_by_role("button", name=f"Head {k + 1}", exact=True)
            one.press("Enter")
            drawn(page)
            expect(page.locator(".lab-head > .bw-label")).to_have_text(f"Head {k + 1}")
            expect(page.locator(".lab-small[aria-pressed=true]")).to_have_count(1)
            expect(one).to_have_attribute("aria-pressed", "true")
            expect(one).to_be_focused()
            # The picture has the darkest cell of each row where the table has its largest number
            places = one.locator("canvas").evaluate(
                """(canvas) => {
                  const { width, height } = canvas;
                  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
                  return Array.from({ length: height }, (_, i) => Array.from({ length: width },
                    (__, j) => data[4 * (i * width + j)]));
                }"""
            )
            numbers = large.evaluate(
                """(table) => [...table.tBodies[0].rows].map((row) =>
                  [...row.cells].slice(1).map((cell) => Number(cell.textContent)))"""
            )
            assert [len(row) for row in places] == [12] * 12
            for reds, row in zip(places, numbers, strict=True):
                assert row[reds.index(min(reds))] >= max(row) - 0.02
            seen.add(large.inner_text() + str(numbers))
        assert len(seen) == 8
        assert screen.violations(page) == []
        page.locator("[data-key=n_heads][value='4']").dispatch_event("click")
        press(page, "Train")
        wait(page)
        expect(page.locator(".lab-head:visible")).to_have_count(4)
        expect(page.locator(".lab-small")).to_have_count(0)
        press(page, "Show run 1")
        expect(small).to_have_count(8)


def test_rates_that_will_hardly_do_and_a_rate_to_try_are_said(stage):
    page = stage.show(Laboratory("neighbours", lr=0.1))
    press(page, "One step")
    expect(page.locator(".lab-status")).to_contain_text("often learn badly")
    page = stage.show(Laboratory("neighbours", lr=1.0))
    press(page, "Train")
    advised = TASKS["neighbours"].advised
    expect(page.locator(".lab-status")).to_contain_text(f"Choose {advised}: with it")

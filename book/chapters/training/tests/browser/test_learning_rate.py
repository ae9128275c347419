"""The learning-rate explorer: every rate that it shows, against lib.training."""

import pytest
from playwright.sync_api import expect

from chapters.training.learning_rate import (
    D_MODELS,
    SCHEDULES,
    TOTALS,
    WARMUPS,
    LearningRateExplorer,
)
from lib.training import cosine, paper_schedule, warm_up

pytestmark = pytest.mark.browser


@pytest.fixture
def functions(stage):
    return stage.functions(LearningRateExplorer())


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("\u202f", "").replace(" ", ""))


def values(page) -> list[float]:
    """The rate at the step, the peak, the first and the last, as shown."""
    return [number(text) for text in page.locator(".lr-value").all_inner_texts()]


def schedules(d_model: int, warmup: int, total: int, peak: float) -> dict:
    factors = {"constant": warm_up(warmup)}  # made once: a test may ask for every step of a run
    if warmup < total:
        factors["cosine"] = cosine(total, warmup)
    times = {name: lambda step, f=factor: peak * f(step) for name, factor in factors.items()}
    return {"paper": paper_schedule(d_model, warmup)} | times


@pytest.mark.parametrize("total", TOTALS)
def test_rates_are_those_of_the_library(functions, total):
    for warmup in WARMUPS:
        for d_model in D_MODELS[:: len(D_MODELS) - 1]:
            state = {"d_model": d_model, "warmup": warmup, "total": total, "peak": 3e-3}
            steps = sorted(
                {0, 1, 7, total - 1, total // 2, *(min(warmup + d, total - 1) for d in (-1, 0, 1))}
            )
            for name, wanted in schedules(**state).items():
                got = functions.evaluate(
                    "(x) => x.steps.map((step) => own.rateAt(x.name, x.state, step))",
                    {"steps": steps, "name": name, "state": state},
                )
                assert got == pytest.approx([wanted(s) for s in steps], rel=1e-5, abs=1e-12), name


@pytest.mark.parametrize(("warmup", "total"), [(1, 300), (30, 500), (4000, 100_000), (500, 500)])
def test_peak_stands_where_no_step_has_a_larger_rate(functions, warmup, total):
    state = {"d_model": 64, "warmup": warmup, "total": total, "peak": 3e-3}
    at = functions.evaluate("(x) => own.peakStep(x)", state)
    for factor in schedules(**state).values():
        rates = [factor(step) for step in range(total)]
        assert at == rates.index(max(rates))


def test_curve_holds_its_corner_and_the_marked_step(functions):
    state = {"d_model": 64, "warmup": 75, "total": 100_000, "peak": 3e-3}
    steps = functions.evaluate("(x) => own.stepsOf(x, 12345)", state)
    assert steps == sorted(set(steps))
    assert {0, 74, 75, 12345, 99_999} <= set(steps)
    assert len(steps) < 200


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(
    "sizes",
    [
        {"d_model": 512, "warmup": 4000, "total": 100_000, "peak": 7e-4},
        {"d_model": 64, "warmup": 150, "total": 1500, "peak": 4e-3},
        {"d_model": 2048, "warmup": 1, "total": 300, "peak": 3e-2},
    ],
)
def test_read_outs_agree_with_the_library(stage, name, sizes):
    rate = schedules(**sizes)[name]
    step, last = sizes["total"] // 3, sizes["total"] - 1
    page = stage.show(LearningRateExplorer(name, step=step, **sizes))
    wanted = [rate(step), rate(sizes["warmup"] - 1), rate(0), rate(last)]
    assert values(page) == pytest.approx(wanted, rel=5e-3, abs=1e-12)
    beside = page.locator(".lr-figure span:last-child").all_inner_texts()
    assert number(beside[1].removeprefix("at step ")) == sizes["warmup"] - 1
    share = int(beside[0].split(" %")[0])
    assert share == pytest.approx(100 * rate(step) / max(wanted), abs=0.51)
    expect(page.locator("[data-chosen]")).to_have_attribute(
        "data-chosen", str(1 + SCHEDULES.index(name))
    )


def test_slider_goes_step_by_step_and_the_button_to_the_peak(stage):
    page = stage.show(LearningRateExplorer("cosine", warmup=30, total=500, peak=2e-3, step=28))
    slider = page.get_by_role("slider", name="Step, from 0")
    expect(slider).to_have_attribute("max", "499")
    for step in (29, 30, 31):
        slider.press("ArrowRight")
        expect(slider).to_have_attribute("aria-valuetext", str(step))
        assert values(page)[0] == pytest.approx(2e-3 * cosine(500, 30)(step), rel=5e-3)
    slider.press("End")
    assert values(page)[0] == values(page)[3]
    page.get_by_role("button", name="Go to the peak").click()
    expect(slider).to_have_attribute("aria-valuetext", "29")
    assert values(page)[0] == values(page)[1] == 2e-3
    expect(page.get_by_role("status")).to_contain_text("cosine: rate 2.00e−3 at step 29")


def test_a_shorter_run_keeps_the_step_within_it(stage):
    page = stage.show(LearningRateExplorer("constant", warmup=10, total=500, step=499))
    slider = page.get_by_role("slider", name="Step, from 0")
    page.get_by_role("slider", name="Steps in all").press("ArrowLeft")
    expect(slider).to_have_attribute("max", "299")
    expect(slider).to_have_attribute("aria-valuetext", "299")
    expect(page.locator(".lr-figure").last).to_contain_text("step 299")


def test_peak_of_the_paper_falls_with_width_and_warm_up(stage):
    page = stage.show(LearningRateExplorer(d_model=512, warmup=4000))
    before = values(page)[1]
    assert before == pytest.approx(512**-0.5 * 4000**-0.5, rel=5e-3)
    page.get_by_role("slider", name="d_model").press("ArrowRight")
    assert values(page)[1] == pytest.approx(before / 2**0.5, rel=1e-2)
    page.get_by_role("slider", name="d_model").press("ArrowLeft")
    page.get_by_role("slider", name="Warm-up").press("ArrowRight")
    assert values(page)[1] == pytest.approx(before / 2**0.5, rel=1e-2)
    page.get_by_role("radio", name="constant").check(force=True)
    assert values(page)[1] == 7e-4
    page.get_by_role("slider", name="Peak").press("ArrowRight")
    assert values(page)[1] == 1e-3


def test_code_is_what_the_reader_would_write(stage):
    page = stage.show(LearningRateExplorer("cosine", warmup=150, total=1500, peak=4e-3))
    line = page.locator(".lr-code")
    expect(line).to_have_text("train(model, stream, 1500, lr=0.004, schedule=cosine(1500, 150))")
    page.get_by_role("radio", name="cosine").press("ArrowLeft")
    expect(line).to_have_text(
        "train(model, stream, 1500, lr=1.0, schedule=paper_schedule(512, 150))"
    )


def test_a_warm_up_that_fills_the_run_is_said(stage):
    page = stage.show(LearningRateExplorer("cosine", warmup=300, total=500))
    words = page.locator(".lr-reading")
    expect(words).to_have_text(
        "The rate rises for 60 % of the run. Then it falls along half a cosine, to 0 at the end."
    )
    page.get_by_role("slider", name="Steps in all").press("ArrowLeft")
    expect(words).to_contain_text("✗ The warm-up of 300 steps fills the run of 300")
    expect(words).to_contain_text("cosine() refuses these numbers")
    expect(page.locator(".bw-error")).to_be_hidden()
    assert values(page)[1] == 7e-4

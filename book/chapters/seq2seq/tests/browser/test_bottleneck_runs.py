"""The recorded runs of a translator: the curve, its family, and a translation of each length."""

import pytest
from playwright.sync_api import expect

from chapters.seq2seq.bottleneck_runs import BottleneckRuns
from chapters.seq2seq.tests.samples import recorded_runs

pytestmark = pytest.mark.browser


@pytest.fixture
def page(stage):
    return stage.show(BottleneckRuns(recorded_runs(), steps=300))


def heights(page, path: str) -> list[float]:
    """The shares that a line draws, from where it stands between the lines of 0 and 100 %."""
    points = page.locator(path).first.get_attribute("d")[1:].split("L")
    grid = [float(n.get_attribute("y1")) for n in page.locator(".bw-grid").all()]
    bottom, top = max(grid), min(grid)
    return [(bottom - float(p.split()[1])) / (bottom - top) for p in points]


def test_curve_is_the_mean_over_seeds_and_the_stroke_their_range(page):
    assert heights(page, ".bw-lines .bw-series-1 .bw-line") == pytest.approx([0.75, 0.125])
    spans = page.locator(".bw-lines .bw-series-1 > .bw-spread").all()
    assert len(spans) == 2
    grid = [float(n.get_attribute("y1")) for n in page.locator(".bw-grid").all()]
    size = max(grid) - min(grid)
    lengths = [float(s.get_attribute("y1")) - float(s.get_attribute("y2")) for s in spans]
    assert [length / size for length in lengths] == pytest.approx([0.5, 0.25])


def test_pale_curves_are_the_runs_that_differ_in_one_setting(page):
    expect(page.locator(".bw-pale")).to_have_count(1)
    assert heights(page, ".bw-pale") == pytest.approx([0.0, 0.0])
    bars = page.locator(".bw-bars").first.locator("li")
    assert bars.locator(".bw-bar-name > span:first-child").all_inner_texts() == (
        ["dimension 32", "dimension 128"]
    )
    assert bars.locator(".bw-bar-value").all_inner_texts() == ["0 %", "75 %"]
    expect(page.locator(".bw-chosen")).to_contain_text("2 seeds: 50–100 %")
    page.get_by_role("radio", name="training steps").check(force=True)
    assert heights(page, ".bw-pale") == pytest.approx([1.0, 0.5])
    assert bars.locator(".bw-bar-value").all_inner_texts() == ["75 %", "100 %"]
    page.get_by_role("radio", name="learning rate").check(force=True)
    expect(page.locator(".bw-pale")).to_have_count(0)


def test_lengths_beyond_training_are_marked(page):
    band = page.locator(".bw-beyond")
    marks = page.locator(".bw-lines .bw-series-1 .bw-mark").all()
    left, right = (float(mark.get_attribute("cx")) for mark in marks)
    assert left < float(band.get_attribute("x")) < right
    expect(page.locator(".bw-lines")).to_contain_text("longer than in training")


def test_slider_moves_the_mark_the_bars_and_the_example(page):
    words = page.locator(".br-words")
    assert words.inner_text().split() == ["wrong:", "dix", "euros"]
    expect(page.locator(".br-verdict")).to_have_text("✗ 1 wrong")
    page.get_by_role("button", name="Another sentence").click()
    expect(page.locator(".br-verdict")).to_have_text("✓ exactly right")
    expect(page.locator(".br-sentence").first).to_have_text("six <b>")
    page.get_by_role("slider", name="Length of the source").press("ArrowRight")
    assert words.inner_text().split() == (
        ["missing:", "il", "missing:", "y", "missing:", "a", "deux", "jours"]
    )
    expect(page.locator(".br-verdict")).to_have_text("✗ 3 missing")
    expect(page.get_by_role("button", name="Another sentence")).to_be_disabled()
    bars = page.locator(".bw-bars").first
    assert bars.locator(".bw-bar-value").all_inner_texts() == ["0 %", "13 %"]
    expect(page.get_by_role("status")).to_contain_text("13 % at 4 to 6 tokens")


def test_same_items_are_counted_by_the_length_of_their_list(page):
    bars = page.get_by_role("list", name="The same 5 items, each first in a list")
    assert bars.locator("li").all_inner_texts() == (
        ["alone\n100 %", "of 2\n60 %", "of 3not in training\n20 %"]
    )
    page.get_by_role("slider", name="State dimension").press("Home")
    assert bars.locator(".bw-bar-value").all_inner_texts() == ["100 %", "0 %", "20 %"]


def test_a_setting_that_was_not_run_is_said(page):
    page.get_by_role("slider", name="Training steps").press("End")
    page.get_by_role("slider", name="State dimension").press("Home")
    expect(page.locator(".br-absent")).to_have_text(
        "No run is recorded for dimension 32, 1,250 steps, rate 0.002. "
        "Choose other steps or another rate."
    )
    expect(page.locator(".bw-lines .bw-series")).to_have_count(0)
    expect(page.locator(".bw-pale")).to_have_count(1)
    expect(page.locator(".br-verdict")).to_have_text("Its translations are not recorded.")
    page.get_by_role("slider", name="State dimension").press("End")
    expect(page.locator(".br-absent")).to_be_hidden()

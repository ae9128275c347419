"""Few colours, no motion, a page enlarged to 320 pixels: readers who need that lose nothing."""

import pytest

from tests.browser import axe
from tests.gate import some_widgets
from tests.widget_samples import SAMPLES

pytestmark = pytest.mark.browser
# What stands out of the widget, or is cut off by a box that does not scroll.
LOST = """() => {
  const frame = document.querySelector(".bw").getBoundingClientRect();
  const scrolls = (node) => node && !node.matches(".bw")
    && (/auto|scroll/.test(getComputedStyle(node).overflowX) || scrolls(node.parentElement));
  return [...document.querySelectorAll(".bw-body *")]
    .filter((node) => node.checkVisibility() && !node.matches(".bw-hidden, .bw-hidden *, desc")
      && !scrolls(node) && node.getBoundingClientRect().right > frame.right + 1)
    .map((node) => node.outerHTML.slice(0, 90));
}"""
# How many colours each picture has, and each map.
SHADES = """() => [...document.querySelectorAll(".bw canvas")].filter((c) => c.checkVisibility()
    && c.width > 1).map((canvas) => new Set(new Uint32Array(canvas.getContext("2d")
      .getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size)
  .concat([...document.querySelectorAll(".bw .bw-map:has(td[style])")].map((map) =>
    new Set([...map.querySelectorAll("td[style]")].map((td) =>
      getComputedStyle(td).backgroundColor)).size))"""
RING = """() => {
  const style = getComputedStyle(document.activeElement);
  return [style.outlineStyle, parseFloat(style.outlineWidth) >= 2,
    style.outlineColor !== getComputedStyle(document.querySelector(".bw")).backgroundColor];
}"""
MOTION = """() => {
  const moves = (node, part) => {
    const style = getComputedStyle(node, part);
    return parseFloat(style.transitionDuration) > 0.002 || style.animationName !== "none";
  };
  return [...document.querySelectorAll(".bw *")]
    .filter((node) => [null, "::before", "::after"].some((part) => moves(node, part)))
    .map((node) => node.outerHTML.slice(0, 90));
}"""


@pytest.fixture(params=some_widgets(SAMPLES))
def sample(request):
    return SAMPLES[request.param]()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_widget_can_be_read_in_the_readers_own_colours(stage, sample, scheme):
    """As with a contrast theme of Windows, which has a handful of colours."""
    page = stage.show(sample, theme=scheme)
    before = page.evaluate(SHADES)
    page.emulate_media(color_scheme=scheme, forced_colors="active")
    page.reload()
    page.wait_for_selector(".bw")
    assert axe.violations(page, whole=False) == []
    assert page.evaluate(SHADES) == before, "maps keep their shades"
    page.keyboard.press("Tab")
    assert page.evaluate(RING) == ["solid", True, True]
    adjust = "(all) => [...new Set(all.map((node) => getComputedStyle(node).forcedColorAdjust))]"
    assert page.locator(".bw :is(input, span)").evaluate_all(adjust) == ["none"], "tracks, choices"


def test_widget_does_not_move_for_readers_who_want_rest(stage, sample):
    page = stage.show(sample)
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate(MOTION) == []


def test_nothing_is_lost_at_320_pixels(stage, sample):
    """A window of 1280 enlarged four times (WCAG 2.2, 1.4.10)."""
    page = stage.show(sample, width=320)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.evaluate(LOST) == []

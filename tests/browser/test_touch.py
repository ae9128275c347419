"""Each widget under a finger, on a telephone: what a pointer does there, a touch does too."""

import pytest
from playwright.sync_api import expect

from tests.gate import some_widgets
from tests.widget_samples import SAMPLES

pytestmark = pytest.mark.browser
LONG = "padding-bottom:2000px"  # so that the page can scroll
# What a finger is meant to hit, with its box; a label counts with its control.
TARGETS = """() => {
  const wanted = ["button", "input", "select", "summary", "a[href]", "[role=treeitem]",
    ".bw-handle"].map((one) => ".bw " + one).join();
  const small = ".bw-quiet, [type=checkbox], [role=treeitem], .bw-handle";
  return [...document.querySelectorAll(wanted)]
    .filter((node) => node.checkVisibility() && !node.closest("[hidden]")
      && !node.disabled)
    .map((node) => {
      const { width, height } = (node.closest("label") ?? node.querySelector(".bw-grip") ?? node)
        .getBoundingClientRect();
      return { name: node.ariaLabel || node.labels?.[0]?.textContent || node.textContent,
        small: node.matches(small), width, height };
    });
}"""
ACTIONS = """() => [...document.querySelectorAll(".bw, .bw *")]
  .filter((node) => getComputedStyle(node).touchAction !== "auto"
    && !node.matches("input[type=range], .bw-handle, .bw-handle *"))
  .map((node) => node.outerHTML.slice(0, 80))"""


@pytest.fixture(params=some_widgets(SAMPLES))
def sample(request):
    return SAMPLES[request.param]()


class Finger:
    """One finger, by events as the screen sends them."""

    def __init__(self, page):
        self.session = page.context.new_cdp_session(page)

    def send(self, kind: str, *points: tuple[float, float]) -> None:
        points = [{"x": x, "y": y} for x, y in points]
        self.session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def drag(self, start: tuple[float, float], by: tuple[float, float], steps: int = 8) -> None:
        self.send("touchStart", start)
        for k in range(1, steps + 1):
            self.send("touchMove", tuple(a + b * k / steps for a, b in zip(start, by, strict=True)))
        self.send("touchEnd")


def middle(locator) -> tuple[float, float]:
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_targets_are_large_enough(phone, sample):
    page = phone.show(sample)
    assert page.evaluate("matchMedia('(pointer: coarse)').matches")
    found = page.evaluate(TARGETS)
    assert found
    small = [t for t in found if min(t["width"], t["height"]) < 24]
    assert small == []
    low = [t for t in found if not t["small"] and t["height"] < 40]
    assert low == []


def test_nothing_takes_the_pages_own_gestures(phone, sample):
    page = phone.show(sample)
    assert page.evaluate(ACTIONS) == []


def test_sliders_follow_a_finger(phone, sample):
    page = phone.show(sample)
    finger = Finger(page)
    for slider in page.locator("input[type=range]:visible").all():
        slider.scroll_into_view_if_needed()
        before = slider.input_value()
        box = slider.bounding_box()
        low, high, value = slider.evaluate("(n) => [+n.min, +n.max, n.valueAsNumber]")
        if low == high:
            continue
        share = (value - low) / (high - low)
        start = (box["x"] + 12 + share * (box["width"] - 24), box["y"] + box["height"] / 2)
        to_the_end = (-share if share > 0.5 else 1 - share) * (box["width"] - 24)
        finger.drag(start, (0.9 * to_the_end, 3))  # far enough for a slider of two values
        assert slider.input_value() != before, slider.evaluate("(n) => n.labels[0].textContent")
        assert page.evaluate("document.querySelector('.bw-error').hidden")


def test_a_finger_on_a_map_scrolls_the_page(phone, sample):
    page = phone.show(sample, size=LONG)
    finger = Finger(page)
    parts = page.locator(".bw :is(.bw-map, .bw-raster, .bw-lines, canvas, .bw-slider):visible")
    for part in parts.all():
        part.evaluate("(node) => node.scrollIntoView({ block: 'center' })")
        before, value = page.evaluate("scrollY"), part.evaluate("(node) => node.value")
        finger.drag(middle(part), (0, -200), steps=12)
        page.wait_for_function("(before) => scrollY > before + 50", arg=before, timeout=2000)
        assert part.evaluate("(node) => node.value") == value, "passing over a slider moved it"


def test_a_tap_on_a_map_says_what_the_cell_holds(phone, sample):
    """The same words as a pointer gets, in the place of the map's caption."""
    page = phone.show(sample)
    for figure in page.locator(".bw-figure:has(.bw-said):visible").all():
        said, cells = figure.locator(".bw-reading"), figure.locator("td:not(.bw-corner)")
        expect(said).to_be_empty()
        if cells.count():
            cells.last.tap()
            expect(said).to_have_text(cells.last.get_attribute("title"))
        else:
            figure.locator(".bw-raster-body").tap()
            expect(said).to_have_text(figure.get_by_role("gridcell").get_attribute("aria-label"))
        page.locator(".bw-title").tap()
        expect(said).to_be_empty()


def test_buttons_answer_a_tap(phone, sample):
    page = phone.show(sample)
    names = page.locator(".bw-button:visible").all_inner_texts()
    for name in names:
        if name.startswith("Load the model"):
            continue  # this stage has no file of it; test_own_sentence has
        button = page.locator(".bw-button:visible:not(:disabled)").get_by_text(name, exact=True)
        if button.count():
            button.first.tap()
            assert page.evaluate("document.querySelector('.bw-error').hidden"), name


def test_a_tap_on_a_short_number_gives_all_its_digits(phone):
    page = phone.show(SAMPLES["complexity_explorer"]())
    page.locator(".ce-table tbody tr").first.locator("td").first.tap()
    expect(page.locator(".ce-whole")).to_have_text("Self-attention, Work: 2\u202f359\u202f296")


def test_a_tap_on_the_picture_of_positions_moves_there(phone):
    page = phone.show(SAMPLES["position_explorer"]())
    canvas = page.locator(".pe-frame canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    canvas.tap(position={"x": box["width"] * 0.99, "y": box["height"] * 0.99})
    expect(page.get_by_label("Position p")).to_have_value("18")
    expect(page.get_by_label("Pair of entries")).to_have_value("7")


def test_the_state_follows_a_finger_on_the_plane(phone):
    page = phone.show(SAMPLES["tied_softmax"](), size=LONG)
    grip = page.locator(".ts-state .bw-grip")
    grip.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    first, second = (page.get_by_label(f"h, entry {k}") for k in (1, 2))
    held = float(first.input_value()), float(second.input_value())
    unit = page.locator(".ts-plane").bounding_box()["width"] / 6.6  # from -3.3 to 3.3
    Finger(page).drag(middle(grip), (-30, 40))
    assert float(first.input_value()) == pytest.approx(held[0] - 30 / unit, abs=0.02)
    assert float(second.input_value()) == pytest.approx(held[1] - 40 / unit, abs=0.02)
    assert page.evaluate("scrollY") == before, "a handle is dragged, not the page"

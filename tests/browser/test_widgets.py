"""Each widget in a real browser: as the published page shows it, and as a notebook does."""

import json

import pytest
from playwright.sync_api import expect

from build.directives import widgets
from chapters.attention_seq2seq.alignment_player import AlignmentPlayer
from chapters.attention_seq2seq.bottleneck_explorer import BottleneckExplorer
from chapters.attention_seq2seq.tests.samples import bins, sentences
from tests.gate import each_look, some_widgets
from tests.widget_samples import SAMPLES
from widgets import joiner

pytestmark = pytest.mark.browser
CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((c) => {
      const s = c / 255;
      return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const node = document.querySelector(".bw-shaded");
  node.style.transition = "none";
  const found = [];
  for (let step = 0; step <= 200; step += 1) {
    bookWidgets.shared.$chart.shade(node, step / 200);
    const style = getComputedStyle(node);
    const [ground, ink] = [light(style.backgroundColor), light(style.color)];
    found.push({ ground, ratio: (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05) });
  }
  return found;
}"""


@pytest.fixture(params=some_widgets(SAMPLES))
def sample(request):
    return SAMPLES[request.param]()


def test_every_widget_has_a_sample():
    of_runs = {"run_losses"}  # on the page that `make show` writes, and on none of the book's
    assert sorted(SAMPLES) == sorted(of_runs | set(widgets.widgets()))


@pytest.mark.parametrize("sample", sorted(SAMPLES), indirect=True)
def test_widget_starts_in_a_notebook(stage, sample):
    assert_started(stage.show(sample, via="module"), links=0)


@pytest.mark.parametrize("via", ["http", "file"])
def test_widget_starts_on_a_page(stage, sample, via):
    """On its own page `test_pages.py` uses each widget of the book."""
    page = stage.show(sample, via=via)
    assert_started(page, links=1)
    expect(page.locator(".book-widget-static")).to_be_hidden()


def assert_started(page, links: int) -> None:
    expect(page.locator(".bw")).to_have_count(1)
    expect(page.locator(".bw-error")).to_be_hidden()
    expect(page.locator(".bw-body")).to_be_visible()
    expect(page.get_by_role("button", name="Copy link to this state")).to_have_count(links)


@each_look
def test_widget_is_accessible_and_fits(stage, sample, theme, width):
    page = stage.show(sample, theme=theme, width=width)
    assert stage.violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    ground = page.locator(".bw").evaluate("(node) => getComputedStyle(node).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(24, 29, 36)"}[theme]


def test_every_control_has_a_name_and_the_keyboard_reaches_it(stage, sample):
    page = stage.show(sample)
    # Of radio buttons with one name the Tab key reaches the chosen one; arrows reach the others.
    reachable = "button:not(:disabled), input:not([hidden], [type=radio]:not(:checked)), select"
    controls = page.locator(f".bw :is({reachable}):visible")
    names = controls.evaluate_all(
        "(all) => all.map((n) => n.labels?.[0]?.textContent || n.ariaLabel || n.textContent)"
    )
    assert names
    assert all(name.strip() for name in names)
    reached = []
    stops = page.locator(":is([role=gridcell], .bw-handle)[tabindex='0']:visible").count()
    for _ in range(len(names) + stops + 2):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.closest('.bw') && document.activeElement.tagName")
        )
    wanted = controls.evaluate_all("(all) => all.map((n) => n.tagName)")
    assert [tag for tag in reached if tag in {"BUTTON", "INPUT", "SELECT"}][: len(wanted)] == wanted


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_on_every_shade_can_be_read(stage, theme):
    page = stage.show(SAMPLES["alignment_player"](), theme=theme)
    found = page.evaluate(CONTRAST)
    assert len(found) == 201
    assert min(step["ratio"] for step in found) >= 4.5
    grounds = [step["ground"] for step in found]
    assert grounds in (sorted(grounds), sorted(grounds, reverse=True)), "lightness tells the value"


def test_reset_returns_to_the_start(stage, sample):
    page = stage.show(sample)
    before = page.locator(".bw").inner_html()
    slider = page.locator("input[type=range]:visible").first
    if slider.count():
        slider.press("ArrowLeft")
    else:  # a widget without sliders has something to choose
        page.locator(":is(.bw-segments label, .bw-toggle):not(:has(:checked))").first.click()
    assert page.locator(".bw").inner_html() != before
    page.get_by_role("button", name="Reset").click()
    visible = page.locator(".bw-body").inner_text()
    page.reload()
    page.wait_for_selector(".bw")
    assert page.locator(".bw-body").inner_text() == visible


def test_reader_without_scripts_sees_a_table(page, sample):
    page.set_content(sample._repr_mimebundle_()[0]["text/html"])  # the page has none
    assert page.locator("table caption").inner_text()
    assert page.locator("table tbody tr").count() >= 2


def test_missing_script_is_said_in_place(stage):
    widget = SAMPLES["alignment_player"]()
    html = widget._repr_mimebundle_()[0]["text/html"]
    page = stage.show(widget, html=html.replace('"alignment_player"', '"no_such_widget"'))
    expect(page.get_by_role("alert")).to_contain_text("no_such_widget.js did not load")
    expect(page.locator(".book-widget-static")).to_be_visible()


@pytest.mark.parametrize("spoil", ["not json", "{}", '{"sentences":[]}'])
def test_bad_data_is_said_in_place(stage, spoil):
    widget = SAMPLES["alignment_player"]()
    html = (
        '<div class="book-widget" data-module="alignment_player">'
        f'<script type="application/json">{spoil}</script>'
        '<div class="book-widget-static"><p>static</p></div></div>'
    )
    page = stage.show(widget, html=html)
    expect(page.get_by_role("alert").filter(visible=True)).to_have_count(1)
    expect(page.locator(".book-widget-static")).to_be_visible()


def test_bad_data_is_said_in_place_in_a_notebook_too(stage, monkeypatch):
    widget = SAMPLES["alignment_player"]()
    held = widget.data()
    monkeypatch.setattr(widget, "data", lambda: held | {"step": -3})  # no widget holds this
    page = stage.show(widget, via="module")
    expect(page.get_by_role("alert")).to_contain_text('"step" has no usable value, got -3')


def test_two_widgets_of_one_kind_are_apart(stage):
    widget = SAMPLES["alignment_player"]()
    html = widget._repr_mimebundle_()[0]["text/html"]
    page = stage.show(widget, html=html + html, query="?alignment_player-2.step=0")
    sliders = page.locator("input[type=range]")
    expect(sliders).to_have_count(2)
    assert [sliders.nth(i).input_value() for i in range(2)] == ["2", "0"]
    assert stage.violations(page) == []


def test_address_sets_the_state_and_the_link_says_it(stage):
    widget = SAMPLES["alignment_player"]()
    query = "?alignment_player.step=1&alignment_player.sentence=nonsense"
    page = stage.show(widget, query=query, permissions=["clipboard-read", "clipboard-write"])
    expect(page.locator(".ap-now")).to_have_text("dollars")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("button", name="Link copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert "alignment_player.step=3" in link
    assert link.endswith("#alignment_player")


def test_kernel_hears_of_changes_and_makes_them(stage):
    page = stage.show(SAMPLES["alignment_player"](), via="module")
    page.get_by_role("button", name="Next").click()
    assert page.evaluate("window.saved.at(-1).step") == 3
    page.evaluate("window.model.set('step', 0)")
    expect(page.locator(".ap-now")).to_have_text("deux")
    page.evaluate("window.close()")
    page.evaluate("window.model.set('step', 1)")
    expect(page.locator(".ap-now")).to_have_text("deux")


# --- alignment player -------------------------------------------------------------------------


def test_player_shows_weights_choice_and_row(stage):
    page = stage.show(AlignmentPlayer(sentences(), sentence=1, step=2))
    weights = page.locator(".ap-key").all_inner_texts()
    assert [text.split() for text in weights] == [
        ["canadian", "60", "%"],
        ["dollars", "20", "%"],
        ["two", "10", "%"],
        ["<b>ago</b>", "10", "%"],
        ["<eos>", "0", "%"],
    ]
    expect(page.locator(".ap-now")).to_have_text("canadiens")
    rows = page.locator(".bw-map tbody tr")
    assert rows.locator("th").all_inner_texts() == ["deux", "dollars", "canadiens", "<eos>"]
    heads = page.locator(".bw-map thead th").all_inner_texts()
    assert heads == ["canadian", "dollars", "two", "<b>ago</b>", "<eos>"]
    expect(page.locator(".bw-current")).to_have_count(1)
    expect(page.locator(".bw-current th")).to_have_text("canadiens")
    chosen = page.locator(".bw-bars .bw-chosen")
    expect(chosen).to_have_count(1)
    expect(chosen).to_have_text("canadienschosen40 %")
    expect(page.locator(".ap-verdict")).to_contain_text("deux dollars canadiens passés")
    expect(page.locator(".ap-reading")).to_contain_text("looks most at canadian (60 %")


def test_player_steps_by_keys_buttons_and_slider(stage):
    page = stage.show(AlignmentPlayer(sentences(), sentence=1))
    now, slider = page.locator(".ap-now"), page.get_by_role("slider", name="Token")
    back, forth = (page.get_by_role("button", name=n) for n in ("Previous", "Next"))
    expect(back).to_be_disabled()
    slider.press("End")
    expect(now).to_have_text("<eos>")
    expect(slider).to_have_attribute("aria-valuetext", "4 of 4")
    expect(forth).to_be_disabled()
    slider.press("ArrowLeft")
    expect(now).to_have_text("canadiens")
    back.focus()
    page.keyboard.press("Enter")
    expect(now).to_have_text("dollars")
    forth.click()
    expect(now).to_have_text("canadiens")
    page.locator(".bw-map tbody tr").first.locator("td").first.click()
    expect(now).to_have_text("deux")
    expect(page.get_by_role("status")).to_contain_text("looks most at two, 90 %")


def test_player_plays_to_the_end_and_stops(stage):
    page = stage.show(AlignmentPlayer(sentences(), sentence=1, step=1), locale="en")  # its clock
    page.clock.install()
    page.reload()
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(1000)
    expect(page.locator(".ap-now")).to_have_text("canadiens")
    page.clock.run_for(1000)
    expect(page.locator(".ap-now")).to_have_text("<eos>")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    page.get_by_role("button", name="Play").click()
    expect(page.locator(".ap-now")).to_have_text("deux")
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(3000)
    expect(page.locator(".ap-now")).to_have_text("deux")


def test_player_changes_sentence(stage):
    page = stage.show(AlignmentPlayer(sentences(), sentence=1, step=3))
    page.get_by_label("Sentence").select_option("two euros")
    expect(page.locator(".ap-now")).to_have_text("deux")
    expect(page.locator(".bw-map thead th")).to_have_count(3)
    expect(page.get_by_role("slider", name="Token")).to_have_attribute("max", "1")
    expect(page.locator(".ap-verdict")).to_contain_text("✓ The whole output equals the reference")
    page.get_by_role("button", name="Next").click()
    assert page.locator(".bw-bar-value").all_inner_texts() == ["100 %", "< 1 %"]


# --- bottleneck explorer ----------------------------------------------------------------------


def test_explorer_marks_each_error(stage):
    page = stage.show(BottleneckExplorer(bins(), bin=1))
    left, right = page.locator(".be-card").all()
    assert left.locator(".be-words").inner_text().split() == (
        ["wrong:", "w", "y", "wrong:", "y", "z", "missing:", "u"]
    )
    expect(left.locator(".be-verdict")).to_have_text("✗ 2 wrong, 1 missing")
    expect(left.locator(".be-share")).to_have_text("55 % of 11 such sentences exactly right")
    expect(right.locator(".be-verdict")).to_have_text("✓ exactly right")
    expect(right.locator(".be-wrong, .be-missing")).to_have_count(0)
    page.get_by_role("button", name="Another sentence").click()
    expect(left.locator(".be-verdict")).to_have_text("✓ exactly right")
    expect(page.locator(".be-count")).to_have_text("2 of 2")


def test_explorer_slides_over_the_lengths(stage):
    page = stage.show(BottleneckExplorer(bins()))
    slider = page.get_by_label("Length of the source")
    expect(slider).to_have_attribute("aria-valuetext", "1 to 2 tokens")
    expect(page.get_by_role("button", name="Another sentence")).to_be_disabled()
    at = page.locator(".bw-at")
    before = float(at.get_attribute("x1"))
    slider.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "6 to 9 tokens")
    expect(page.locator(".be-verdict").first).to_have_text("✗ 3 missing")
    expect(page.locator(".be-sentence").first).to_have_text("<i>q</i>")
    assert float(at.get_attribute("x1")) > before + 100
    marks = page.locator(".bw-lines .bw-mark-current")
    expect(marks).to_have_count(2)


def test_explorer_draws_what_python_gave(stage):
    page = stage.show(BottleneckExplorer(bins()))
    description = page.locator(".bw-lines desc").evaluate("(node) => node.textContent")
    assert description == (
        "last state only: 1 to 2 tokens 100 %, 3 to 5 tokens 55 %, 6 to 9 tokens 0 %. "
        "attention: 1 to 2 tokens 100 %, 3 to 5 tokens 98 %, 6 to 9 tokens 50 %"
    )
    path = page.locator(".bw-lines .bw-line").first.get_attribute("d")
    points = [tuple(map(float, p.split())) for p in path[1:].split("L")]
    top, middle, bottom = (y for _, y in points)
    assert (bottom - middle) / (bottom - top) == pytest.approx(0.55, abs=1e-6)


@pytest.mark.parametrize(
    ("output", "reference", "edits"),
    [
        ("a b c", "a b c", "right right right"),
        ("", "a b", "missing missing"),
        ("a b", "", "wrong wrong"),
        ("a x c", "a b c", "right wrong right"),
        ("b c", "a b c", "missing right right"),
        ("a a b", "a b", "wrong right right"),
    ],
)
def test_explorer_compares_with_the_fewest_edits(page, output, reference, edits):
    folder = widgets.widgets()["bottleneck_explorer"]
    page.add_script_tag(content=joiner.join(folder / "bottleneck_explorer.js"))
    words = json.dumps([output.split(), reference.split()])
    found = page.evaluate(
        f"$bottleneck_explorer.compare(...{words}).map((edit) => edit.kind).join(' ')"
    )
    fewest = edits.split()
    assert sorted(found.split()) == sorted(fewest)
    if fewest.count("right") == len(fewest) - fewest.count("missing"):
        assert found == edits

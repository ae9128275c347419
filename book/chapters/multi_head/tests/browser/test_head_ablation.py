"""Heads switched off in the page: the numbers are torch's, and the page stays alive meanwhile."""

import base64

import pytest
import torch
from playwright.sync_api import expect

from chapters.multi_head.ablation import ablated, accuracy, head_codes
from chapters.multi_head.head_ablation import HeadAblation
from chapters.multi_head.tests.samples import SAMPLES
from lib.attention import attention_maps
from lib.data import BOS, EOS, make_batch, tokenise
from lib.decoding import greedy
from measure.records import read_results
from tasks.translation import translation_pairs
from tests.gate import each_look, sampled
from tests.helpers import as_packed
from train.checkpoints import load_published
from widgets.packing import pack_model

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("one_thread")]
SLOW = 30_000  # ms, to translate fifty sentences on a machine that others use too
WORST = "Encoder self-attention, layer 2, head 3"
LOAD = "Load the model (395 kB)"
SETS = [
    ("", "zero"),
    ("e2.3", "zero"),
    ("e2.3", "mean"),
    ("d1.2_d1.3_c2.2", "mean"),
    ("e1.1_e1.2_e1.3_e1.4", "zero"),
    ("c2.1_c2.2_c2.3_c2.4", "mean"),
]
BUILD = """([header, data]) => { window.net = own.transformer.build({ header,
  data: new DataView(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer) }); }"""
SCORES = """([pairs, off, layers, means]) => {
  const edit = own.ablation.editor(new Set(off), layers, 4, means);
  return pairs.map((pair) => {
    const pieces = own.ablation.score(net, pair, 60, edit);
    for (;;) {
      const { done, value } = pieces.next();
      if (done) return value;
    }
  });
}"""


@pytest.fixture(scope="module")
def published():
    """The model as the page has it, in half precision; its vocabularies, and the pairs."""
    model, *vocabs = load_published()
    return as_packed(model), vocabs, translation_pairs()[1][:50]


@pytest.fixture(scope="module")
def widget(published):
    model, *vocabs = load_published()
    results = read_results("head_ablation")
    return HeadAblation.from_model(model, published[2], *vocabs, results, ready=["six days ago"])


def by_torch(model, vocabs, pairs, widget, off, mode):
    """What torch says to each pair, and its accuracy, with the page's own means."""
    batch = make_batch(pairs, *vocabs)
    rows = {code: torch.tensor(row).unflatten(0, (4, 16)) for code, row in widget.means.items()}
    with ablated(model, off.split("_") if off else [], rows if mode == "mean" else None):
        said = greedy(model, batch.source, batch.source_lengths, 60)[0].tolist()
        found = accuracy(model, batch)
    return [row[: row.index(EOS) + 1 if EOS in row else None] for row in said], found


def load(page) -> None:
    page.get_by_role("button", name=LOAD, exact=True).click()
    expect(page.locator(".ha-accuracy")).to_be_visible(timeout=SLOW)


def switch(page, name: str = WORST):
    return page.get_by_role("switch", name=name)


def bar(page, part: str) -> list[str]:
    """The last bar of a part: what it is, and its figures."""
    spans = page.get_by_label(part).locator("li").last.locator("span:not(:has(span))")
    return [text for text in spans.all_text_contents() if text]


# --- the numbers ------------------------------------------------------------------------------


@sampled(10)
def test_page_and_torch_agree_on_every_sentence(stage, published, widget, stride):
    model, vocabs, pairs = published
    pairs = pairs[::stride]
    page = stage.functions(widget)
    packed = pack_model(model, *vocabs)
    page.evaluate(BUILD, [packed.header, base64.b64encode(packed.data).decode()])
    texts = [[list(pair.source), list(pair.target)] for pair in pairs]
    exact = {}
    for off, mode in SETS:
        said, found = by_torch(model, vocabs, pairs, widget, off, mode)
        means = widget.means if mode == "mean" else None
        heads = off.split("_") if off else []
        scores = page.evaluate(SCORES, [texts, heads, widget.layers, means])
        words = [[vocabs[1].tokens[i] for i in row] for row in said]
        assert [score["said"] for score in scores] == words, (off, mode)
        exact[off, mode] = sum(score["exact"] for score in scores)
        assert exact[off, mode] / len(pairs) == pytest.approx(found.exact)
        right = sum(score["right"] for score in scores) / sum(score["total"] for score in scores)
        assert right == pytest.approx(found.tokens)
    assert exact["e2.3", "zero"] < exact["", "zero"]
    if stride == 1:
        assert exact["", "zero"] >= 49
        assert exact["e2.3", "zero"] < 25, "one head of 24"


def test_wrong_tokens_are_those_outside_the_longest_common_subsequence(stage, widget):
    page = stage.functions(widget)
    cases = [("a b c", "a b c"), ("a x c", "a b c"), ("b", "a b c"), ("x y", ""), ("c a b", "a b")]
    found = page.evaluate(
        "(cases) => cases.map((pair) => own.ablation.compare(...pair))",
        [[text.split() for text in case] for case in cases],
    )
    marks = ["".join("x" if wrong else "." for _, wrong in one["tokens"]) for one in found]
    assert marks == ["...", ".x.", ".", "xx", "x.."]
    assert [one["missing"] for one in found] == [[], ["b"], ["a", "c"], [], []]


def test_what_is_not_measured_yet_is_no_zero(stage, widget):
    page = stage.functions(widget)
    shown = page.evaluate("""() => {
      const format = (value) => `${value} %`;
      const bars = bookWidgets.shared.$chart.bars({ label: "any", format });
      bars.update([{ name: "known", value: 0 }, { name: "unknown", value: null }]);
      return [...bars.element.querySelectorAll(".bw-bar-value")].map((node) => node.textContent);
    }""")
    assert shown == ["0 %", "–"]


@pytest.mark.parametrize("head", ["e2.3", "d1.2", "c2.4"])
def test_the_map_of_a_head_is_torch_s(stage, published, widget, head):
    model, vocabs, pairs = published
    page = stage.functions(widget)
    packed = pack_model(model, *vocabs)
    page.evaluate(BUILD, [packed.header, base64.b64encode(packed.data).decode()])
    code, number = head.split(".")
    layer = next(layer for layer in widget.layers if layer["code"] == code)
    [row] = by_torch(model, vocabs, [pairs[26]], widget, "", "zero")[0]
    found = page.evaluate(
        "([words, layer, head]) => own.ablation.attentionMap(net, words, 60, layer, head)",
        [list(pairs[26].source), layer, int(number) - 1],
    )
    batch = make_batch([pairs[26]], *vocabs)
    read = torch.tensor([[BOS, *row[:-1]]])
    maps = attention_maps(model, batch.source, batch.source_lengths, read)[layer["name"]]
    source, target = [*pairs[26].source, "<eos>"], ["<bos>", *vocabs[1].decode(row)]
    assert found["rows"] == (source if code[0] == "e" else target)
    assert found["columns"] == (target if code[0] == "d" else source)
    weights = torch.tensor([[x or 0.0 for x in line] for line in found["weights"]])
    torch.testing.assert_close(weights, maps[0, int(number) - 1], rtol=0, atol=1e-5)
    later = torch.ones(weights.shape).triu(1).bool() if code[0] == "d" else weights < 0
    shown = torch.tensor([[x is None for x in line] for line in found["weights"]])
    assert torch.equal(shown, later)


def test_the_head_that_was_switched_off_last_shows_its_map(stage, widget):
    page = stage.show(widget)
    part = page.locator(".ha-map")
    switch(page).click()
    expect(part).to_be_hidden()  # until the model is there
    load(page)
    expect(part).to_contain_text(f"{WORST}: what it attends to while all heads are on")
    expect(part.locator("select")).to_be_hidden()
    switch(page, "Cross-attention, layer 1, head 2").click()
    expect(part).to_contain_text("Cross-attention, layer 1, head 2: what it attends to")
    part.locator("select").select_option(label=WORST)
    expect(part).to_contain_text(f"{WORST}: what it attends to")
    words = widget.sentences[0][0].split()
    heads = part.locator("th[scope=row]").all_inner_texts()
    assert heads == [*words, "<eos>"]
    page.get_by_role("button", name="All on").click()
    expect(part).to_be_hidden()


# --- the page stays alive -----------------------------------------------------------------------


def test_work_is_cut_into_slices(stage, widget):
    """No slice begins another piece, of 4 ms, after 10 ms, and a timer gets its turn between."""
    page = stage.functions(widget)
    slices, ticks = page.evaluate("""() => new Promise((resolve) => {
      const slices = [];
      let [left, ticks, now] = [30, 0, 0];
      const tick = setInterval(() => { ticks += 1; }, 1);
      const wait = () => {
        const end = performance.now() + 4;
        while (performance.now() < end); // as the model would
        left -= 1;
        now += 1;
      };
      const worker = own.ablation.worker(() => (left ? wait : null), (done) => {
        slices.push(now);
        now = 0;
        if (!done) return;
        clearInterval(tick);
        resolve([slices, ticks]);
      });
      worker.wake();
    })""")
    assert sum(slices) == 30
    assert max(slices) <= 3
    assert ticks >= len(slices) - 2


def test_a_piece_of_work_writes_one_token_at_most(stage, published, widget):
    """A slice of work ends with the piece that is begun before 10 ms: so the pieces are small."""
    page = stage.functions(widget)
    packed = pack_model(published[0], *published[1])
    page.evaluate(BUILD, [packed.header, base64.b64encode(packed.data).decode()])
    texts = [[list(pair.source), list(pair.target)] for pair in published[2][:10]]
    off = [head for head in head_codes(2, 4) if head[0] == "c"]  # it then writes on and on
    found = page.evaluate(
        """([pairs, off, layers]) => {
          const edit = own.ablation.editor(new Set(off), layers, 4, null);
          return pairs.map((pair) => {
            const pieces = own.ablation.score(net, pair, 60, edit);
            for (let n = 0; ; n += 1) {
              const { done, value } = pieces.next();
              if (done) return [n, value.said.length + (value.exact ? 0 : value.total)];
            }
          });
        }""",
        [texts, off, widget.layers],
    )
    assert max(written for _, written in found) > 20
    assert all(pieces == written for pieces, written in found)


# --- what the reader does -----------------------------------------------------------------------


@pytest.mark.parametrize("via", ["http", "file"])
def test_the_model_comes_when_asked_for_and_a_switch_changes_all(stage, published, widget, via):
    page = stage.show(widget, via=via)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    switch(page).click()
    expect(page.locator(".ha-load")).to_contain_text("take effect once the model is here")
    expect(page.locator(".ha-accuracy")).to_be_hidden()
    assert asked == []
    load(page)
    assert [url.rsplit("/", 2)[1:] for url in asked] == [["models", f"{widget.engine['id']}.js"]]
    said, found = by_torch(*published, widget, "e2.3", "zero")
    count = round(50 * found.exact)
    spoken = f"1 head off: {count} of 50 sentences exact, {100 * found.tokens:.1f} % of the tokens"
    expect(page.get_by_role("status")).to_contain_text(spoken, timeout=SLOW)
    assert bar(page, "Sentences translated exactly") == [
        "1 head off",
        f"{count} of 50",
        f"{2 * count} %",
    ]
    assert bar(page, "Next word right") == ["1 head off", f"{100 * found.tokens:.1f} %"]
    vocabs, pairs = published[1:]
    wrong = [i for i, (row, pair) in enumerate(zip(said, pairs, strict=True))
             if vocabs[1].decode(row) != list(pair.target)]  # fmt: skip
    expect(page.locator(".ha-list summary")).to_have_text(f"The {len(wrong)} wrong translations")
    page.locator(".ha-list summary").click()
    sources = page.locator(".ha-failures .ha-source")
    assert sources.all_inner_texts() == [" ".join(pairs[i].source) for i in wrong]
    page.get_by_role("button", name=f"Sentence {wrong[1] + 1}", exact=True).click()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(str(wrong[1]))
    lines = page.locator(".ha-line")
    assert lines.locator("dt").all_inner_texts() == [
        "Source",
        "All heads on",
        "1 head off",
        "Right",
    ]
    expect(lines.nth(1)).to_contain_text("✓ right")
    text = (
        lines.nth(2)
        .locator("dd")
        .evaluate(
            "(n) => [...n.childNodes].filter((m) => m.className !== 'ha-note')"
            ".map((m) => m.lastChild?.textContent ?? m.textContent).join('')"
        )
    )
    assert text.split() == vocabs[1].decode(said[wrong[1]])
    assert lines.nth(2).locator("mark").count() > 0
    switch(page).click()
    expect(page.locator(".ha-line dt")).to_have_count(2)
    expect(page.locator(".ha-list")).to_be_hidden()


def test_a_switch_in_the_midst_of_the_work_gives_the_new_result(stage, published, widget):
    page = stage.show(widget)
    load(page)
    layer = page.get_by_role("button", name="Cross-attention, layer 2: all heads off")
    page.evaluate(
        "([a, b]) => { a.click(); setTimeout(() => b.click(), 20); }",
        [layer.element_handle(), switch(page, "Decoder self-attention, layer 1, head 2")
         .element_handle()],
    )  # fmt: skip
    off = "d1.2_c2.1_c2.2_c2.3_c2.4"
    found = by_torch(*published, widget, off, "zero")[1]
    expect(page.get_by_role("status")).to_contain_text(
        f"5 heads off: {round(50 * found.exact)} of 50 sentences exact", timeout=SLOW
    )
    name = "Cross-attention, layer 2: all heads on"
    page.get_by_role("button", name=name).click()
    expect(page.get_by_role("status")).to_contain_text("1 head off: ", timeout=SLOW)
    page.get_by_role("button", name="All on").click()
    expect(page.get_by_role("status")).to_contain_text("All heads on: 50 of 50", timeout=SLOW)


def test_keyboard_alone(stage, widget):
    page = stage.show(widget)
    first = switch(page, "Encoder self-attention, layer 1, head 1")
    first.focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "Space"):
        page.keyboard.press(key)
    expect(switch(page)).to_be_focused()
    expect(switch(page)).to_have_attribute("aria-checked", "false")
    page.keyboard.press("Enter")
    expect(switch(page)).to_have_attribute("aria-checked", "true")
    for key in ("ArrowUp", "ArrowUp", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)  # from the first layer and the first head it leads no further
    expect(first).to_be_focused()


def test_heads_go_in_the_recorded_order_of_importance(stage, widget):
    page = stage.show(widget)
    off = page.get_by_role("switch", checked=False)
    single = widget.recorded["zero"]["single"]
    order = sorted(single, key=lambda head: single[head])
    most = page.get_by_role("button", name="Most important head off")
    for n in (1, 2, 3):
        most.click()
        found = off.evaluate_all("(all) => all.map((n) => n.dataset.head)")
        assert set(found) == set(order[:n])
    page.get_by_role("button", name="All on").click()
    page.get_by_role("button", name="Least important head off").click()
    [last] = off.evaluate_all("(all) => all.map((n) => n.dataset.head)")
    assert single[last] == max(single.values())


def test_every_head_is_measured_alone_and_stays_in_its_switch(stage, published, widget):
    sample = SAMPLES["head_ablation"]()
    page = stage.show(sample)
    measure = page.get_by_role("button", name="Measure every head alone")
    page.locator(".ha-load").get_by_role("button", name="Load the model").click()
    measure.click()
    expect(page.get_by_role("status")).to_contain_text(
        "Every head measured. The most important: ", timeout=SLOW
    )
    expect(measure).to_be_visible()
    names = page.get_by_role("switch").evaluate_all("(all) => all.map((n) => n.ariaLabel)")
    assert len(names) == 6
    assert all("; with it alone off " in name and " of 2 exact" in name for name in names)
    page.get_by_label("zero").check()  # another kind of ablation, not measured yet
    names = page.get_by_role("switch").evaluate_all("(all) => all.map((n) => n.ariaLabel)")
    assert not any("alone" in name for name in names)


def test_measuring_stops_when_asked_to(stage, widget):
    page = stage.show(widget)
    load(page)
    page.get_by_role("button", name="Measure every head alone").click()
    stop = page.get_by_role("button", name="Stop measuring")
    expect(page.locator(".ha-progress")).to_contain_text("of 24 done")
    stop.click()
    expect(page.get_by_role("button", name="Measure every head alone")).to_be_visible()
    assert page.locator(".ha-alone:visible").count() < 24


def test_link_leads_to_the_heads_and_the_own_sentence(stage, published, widget):
    page = stage.show(widget, query="?head_ablation.off=e2.3_c2.2&head_ablation.mode=mean"
                      "&head_ablation.own=two+euros&head_ablation.sentence=50")  # fmt: skip
    expect(page.locator(".ha-line dt")).to_have_text(["Source", "All heads on", "2 heads off"])
    expect(page.locator(".ha-line").nth(1)).to_contain_text("deux euros")
    off = page.get_by_role("switch", checked=False)
    assert off.evaluate_all("(all) => all.map((n) => n.dataset.head)") == ["e2.3", "c2.2"]
    expect(page.get_by_label("its mean")).to_be_checked()
    page.get_by_role("button", name="Reset").click()
    expect(off).to_have_count(0)
    expect(page.get_by_label("Sentence", exact=True)).to_have_value("0")


@pytest.mark.parametrize("text", ["e2.9", "e2.3_x", "<b>"])
def test_a_link_with_unknown_heads_is_left_alone(stage, widget, text):
    page = stage.show(widget, query=f"?head_ablation.off={text}")
    expect(page.get_by_role("switch", checked=False)).to_have_count(0)


def test_an_own_sentence_is_translated_with_and_without(stage, published, widget):
    page = stage.show(widget)
    page.locator(".ha-own > summary").click()
    line = page.get_by_label("Your own sentence")
    line.fill("Six days ago, and two hours")
    line.press("Enter")
    expect(page.locator(".ha-line dt")).to_have_text(["Source", "All heads on"])
    model, vocabs, _ = published
    source = [*vocabs[0].encode(tokenise("six days ago , and two hours")), EOS]
    switch(page).click()
    with ablated(model, ["e2.3"]):
        said = greedy(model, torch.tensor([source]), torch.tensor([len(source)]), 60)[0][0]
    words = page.locator(".ha-line").nth(2).locator("dd")
    expect(words.locator(".ha-note, .ha-right")).to_have_count(1)
    shown = words.inner_text().replace("wrong: ", "").split()
    tokens = vocabs[1].decode(said)
    assert [word for word in shown if word in set(tokens)][: len(tokens)] == tokens


def test_a_model_that_does_not_come_is_said(stage, widget):
    page = stage.show(widget, via="module")
    page.get_by_role("button", name=LOAD, exact=True).click()
    expect(page.locator(".ha-load")).to_contain_text("there is no kernel to ask for the model")


@each_look
def test_it_is_accessible_and_fits(stage, widget, theme, width):
    page = stage.show(widget, theme=theme, width=width)
    assert stage.violations(page) == []
    switch(page).click()
    load(page)
    expect(page.get_by_role("status")).to_contain_text("1 head off", timeout=SLOW)
    page.locator(".ha-list summary").click()
    page.locator(".ha-own > summary").click()
    assert stage.violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_on_paper_stands_the_recorded_table(stage, widget):
    page = stage.show(widget)
    expect(page.locator(".book-widget-static")).to_be_hidden()
    page.emulate_media(media="print")
    expect(page.locator(".book-widget-static table")).to_be_visible()
    expect(page.locator(".ha-load")).to_be_hidden()
    expect(page.locator(".ha-board")).to_be_visible()

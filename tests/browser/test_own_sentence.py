"""The reader's own sentence: what the page computes is what torch computes, and how it is asked."""

import base64
import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from chapters.transformer.forward_tracer import ForwardTracer
from chapters.transformer.tracing import stages_of, trace_sentence
from lib.data import BOS, EOS, Pair, Vocabulary, tokenise
from lib.decoding import greedy
from lib.transformer import Config, Transformer
from tasks.translation import translation_pairs
from tests.gate import sampled
from tests.helpers import as_packed
from tests.widget_samples import SAMPLES
from train.checkpoints import load_published
from widgets.model_widget import LONGEST
from widgets.packing import PackedModel, pack_model

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("one_thread")]
READY = ["forty two canadian dollars", "six euros, ninety thai baht, two hours, and ten miles"]
BUILD = """([header, data]) => { window.net = own.transformer.build({ header,
  data: new DataView(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer) }); }"""
# For each source the logits of every step, fed with what torch has read, all in one text.
LOGITS = """([sources, read]) => sources.map((source, i) => {
  const state = net.start(source);
  const rows = read[i].map((token) => net.step(token, state));
  return rows.map((row) => btoa(String.fromCharCode(...new Uint8Array(row.buffer)))).join(" ");
})"""

# A traced sentence, with the guesses of every stage at every position.
TRACE = """(given) => {
  const { vectors, guess, ...shown } = own.tracing.trace(net, ...given);
  shown.guesses.forEach((_, stage) => shown.read.forEach((__, at) =>
    own.tracing.guessed({ ...shown, guess }, stage, at)));
  return shown; // test_weight_numbers.py holds the vectors against torch
}"""


@pytest.fixture(scope="module")
def published():
    model, *vocabs = load_published()
    return as_packed(model), *vocabs


@pytest.fixture(scope="module")
def tracer(published):
    """As in chapter 10: the sentences were traced with the exact weights, the page rounds them."""
    pairs = [Pair(tokenise("ninety seven colombian pesos"), ("?",))]
    model, *vocabs = load_published()
    return ForwardTracer.from_model(model, pairs, *vocabs, ready=READY, stage=11, position=4)


def build(page, packed: PackedModel) -> None:
    page.evaluate(BUILD, [packed.header, base64.b64encode(packed.data).decode()])


def said_by_torch(model, source: list[int], longest: int) -> list[int]:
    ids = torch.tensor([source])
    return greedy(model, ids, torch.tensor([len(source)]), longest)[0][0].tolist()


@torch.no_grad()
def assert_same_logits(page, model, sources, said, bound):
    read = [[BOS, *tokens[:-1]] for tokens in said]
    for rows, source, tokens in zip(
        page.evaluate(LOGITS, [sources, read]), sources, read, strict=True
    ):
        found = np.array([np.frombuffer(base64.b64decode(row)) for row in rows.split()])
        inputs = [source], [len(source)], [tokens]
        exact = model(*(torch.tensor(numbers) for numbers in inputs))[0]
        assert (torch.from_numpy(found) - exact).abs().max() < bound


# --- the numbers ------------------------------------------------------------------------------


@sampled(12)
def test_page_and_torch_say_the_same_and_with_the_same_logits(stage, published, tracer, stride):
    model, source_vocab, target_vocab = published
    texts = [pair.source for pair in translation_pairs()[1][:60:stride]]
    texts += [tokenise(text) for text in (READY[1], "42 dollars", "two and two", "dollars")]
    sources = [[*source_vocab.encode(text), EOS] for text in texts]
    said = [said_by_torch(model, source, 60) for source in sources]
    page = stage.functions(tracer)
    build(page, pack_model(model, source_vocab, target_vocab))
    found = page.evaluate(
        "(all) => all.map((ids) => own.transformer.greedy(net, ids, 60))",
        [source[:-1] for source in sources],
    )
    assert found == said
    assert max(len(tokens) for tokens in said) > 25
    assert_same_logits(page, model, sources, said, 1e-3)


@pytest.mark.parametrize(
    "choice",
    [
        {"norm": "post", "positions": "sinusoidal", "n_heads": 3},
        {"norm": "pre", "positions": "none", "tied": False, "target_vocab": 31},
        {"norm": "post", "positions": "rotary", "target_vocab": 31},
    ],
)
def test_other_models_compute_too(stage, choice):
    torch.manual_seed(7)
    config = Config(**{"source_vocab": 29, "d_model": 6, "n_heads": 1, "d_ff": 11, "n_layers": 3}
                    | choice)  # fmt: skip
    model = Transformer(config)
    for p in model.parameters():  # gains and biases too, lest a mix-up go unseen
        torch.nn.init.normal_(p, 0.0, 0.7)
    vocabs = [Vocabulary(f"w{i}" for i in range(n - 4)) for n in (29, config.target_vocab or 29)]
    model = as_packed(model)
    page = stage.functions(SAMPLES["forward_tracer"]())
    build(page, pack_model(model, *vocabs))
    sources = [torch.randint(4, 29, (n,)).tolist() for n in (1, 2, 13)]
    said = [torch.randint(1, 29, (n,)).tolist() for n in (7, 1, 5)]
    assert_same_logits(page, model, sources, said, 1e-3)


@pytest.mark.parametrize("text", ["six days ago", *READY, "42 dollars"])
def test_own_sentence_is_traced_as_python_traces_it(stage, published, tracer, text):
    tokens = tokenise(text)
    pairs = [Pair(tokens, ("?",))]
    [exact] = ForwardTracer.from_model(published[0], pairs, *published[1:], max_length=60).sentences
    page = stage.functions(tracer)
    build(page, pack_model(*published))
    options = {"stages": stages_of(2, True), "longest": 60, "k": 5}
    found = page.evaluate(TRACE, [list(tokens), options])
    assert found.keys() == exact.keys()
    for key in ("source", "read", "said"):
        assert found[key] == exact[key]
    assert found["maps"].keys() == exact["maps"].keys()
    tables = [(found["maps"][name], maps, 1) for name, maps in exact["maps"].items()]
    tables += [(found[key], exact[key], 0.011) for key in ("lengths", "changes")]
    for rows, others, bound in tables:  # stored numbers differ where one lies on a rounding edge
        gaps = [abs(a - b) for a, b in zip(flat(rows), flat(others), strict=True)]
        assert max(gaps) <= bound
        assert sum(gap > 0 for gap in gaps) <= 0.01 * len(gaps)
    guesses = zip(flat(found["guesses"]), flat(exact["guesses"]), strict=True)
    assert all(a == b if isinstance(a, str) else abs(a - b) <= 1 for a, b in guesses)


def flat(value) -> list:
    return [leaf for part in value for leaf in flat(part)] if isinstance(value, list) else [value]


def test_text_is_cut_as_the_library_cuts_it(stage):
    texts = ["Two euros,three miles.", "june 13,2025", "ÉTÉ cafe\u0301 x_y ½ ² 2km", "  ", "a-b'c"]
    page = stage.functions(SAMPLES["forward_tracer"]())
    found = page.evaluate("(texts) => texts.map(own.typed.tokenise)", texts)
    assert [tuple(tokens) for tokens in found] == [tokenise(text) for text in texts]


# --- asking for it ----------------------------------------------------------------------------


def line(page):
    return page.get_by_label("Your own sentence")


def note(page):
    return page.locator(".co-form .bw-note")


def said(page):
    return page.locator(".ft-token").evaluate_all("(all) => all.map((n) => n.firstChild.data)")


def translate(page, text: str) -> None:
    line(page).fill(text)
    line(page).press("Enter")
    page.get_by_role("button", name="Translate", exact=True).wait_for()


@pytest.mark.parametrize("via", ["http", "file"])
def test_the_model_comes_when_asked_for_and_translates(stage, published, tracer, via):
    page = stage.show(tracer, via=via)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    assert page.evaluate("window.bookModels") is None
    assert said(page) == ["quatre", "vingt", "dix", "sept", "pesos", "colombiens", "<eos>"]
    line(page).fill("Six days ago, in 2 years.")
    page.get_by_role("button", name="Load the model (395 kB) and translate").click()
    page.get_by_role("button", name="Translate", exact=True).wait_for()
    tokens = tokenise("six days ago, in two years")
    one = trace_sentence(published[0], tokens, *published[1:], max_length=60)
    assert said(page) == one["said"]
    assert line(page).input_value() == "Six days ago, in 2 years.", "as it was typed"
    expect(note(page)).to_contain_text(f"I read: {' '.join(tokens)} (figures as words")
    chosen = page.get_by_label("Sentence", exact=True)
    assert chosen.evaluate("(n) => n.selectedOptions[0].text") == f"your own: {' '.join(tokens)}"
    rows = page.locator(".bw-map tbody th").all_inner_texts()
    assert rows == one["read"]
    cells = page.locator(".bw-map td:not(.bw-corner)").evaluate_all(
        "(all) => all.map((n) => +n.textContent)"
    )
    wanted = flat(one["maps"]["decoder.layers.1.cross_attention"][0])
    assert cells == pytest.approx(wanted, abs=1.6e-3)
    spoken = page.get_by_role("status")
    expect(spoken).to_contain_text(f"Translation: {' '.join(one['said'])}. Decoder layer 2")
    assert len(asked) == 1
    assert asked[0].endswith(f"/widgets/models/{tracer.engine['id']}.js")
    translate(page, "six days")
    assert said(page) == ["six", "jours", "<eos>"]
    assert len(asked) == 1, "the model comes once"


def test_a_large_model_says_that_it_is_at_work(stage, tracer):
    """Its work stops the page: the button is drawn before, and the page as it was is no answer."""
    bundle = tracer._repr_mimebundle_()[0]["text/html"]
    small = f'"bytes":{tracer.engine["bytes"]}'
    assert small in bundle
    page = stage.show(tracer, html=bundle.replace(small, '"bytes":30000000'))
    page.evaluate(
        """() => { window.labels = []; const button = document.querySelector(".co-line button");
        new MutationObserver(() => labels.push(button.textContent)).observe(button,
          { childList: true }); }"""
    )
    translate(page, "six days ago")
    said_first = said(page)
    assert page.evaluate("labels") == [
        "Loading the model…",
        "Translate",
        "Translating…",
        "Translate",
    ]
    translate(page, "six days")
    page.wait_for_function("labels.length === 6")
    assert said(page) != said_first


def test_keyboard_alone_writes_by_suggestions(stage, tracer):
    page = stage.show(tracer)
    line(page).focus()
    page.keyboard.type("fort")
    fitting = page.get_by_role("group", name="Words that fit").get_by_role("button")
    assert fitting.all_inner_texts() == ["forty"]
    page.keyboard.press("Tab")  # to the button beside the line
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(line(page)).to_have_value("forty ")
    expect(line(page)).to_be_focused()
    page.keyboard.type("t")
    assert fitting.count() == 6
    assert all(word.startswith("t") for word in fitting.all_inner_texts())
    expect(page.get_by_role("status")).to_contain_text("Words that fit: two, thirty, three")
    page.keyboard.type("wo dollars")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Translate", exact=True).wait_for()
    assert said(page)[:2] == ["quarante", "deux"]
    assert fitting.count() == 0


def test_a_word_in_the_middle_is_completed_in_its_place(stage, tracer):
    page = stage.show(tracer)
    line(page).fill("two cana dollars")
    line(page).evaluate("(n) => n.setSelectionRange(8, 8)")
    line(page).dispatch_event("input")
    page.get_by_role("button", name="canadian", exact=True).click()
    expect(line(page)).to_have_value("two canadian  dollars")
    assert line(page).evaluate("(n) => n.selectionStart") == 13


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  ", "✗ Write a sentence first, for example “two euros”."),
        ("twelve cats and a dollar", "does not know the word “cats”. It knows numbers, money, "
         "measures, times and dates: see all its words below. The model does not know the number "
         "“one”. It knows the whole numbers from 2 to 99, without 21, 31, … 91."),
        ("fourty-two dolars", "know the words “fourty”, “dolars”. Near in its vocabulary: “forty”, "
         "“dollars”."),
        ("<img src=x>", "know the words “<”, “img”, “src”, “=”, “x”. It knows numbers"),
        ("two " * 49, "At most 48 tokens fit, these are 49: leave some out."),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_named_and_kept(stage, tracer, text, words):
    page = stage.show(tracer)
    before = said(page)
    line(page).fill(text)
    line(page).press("Enter")
    expect(note(page)).to_contain_text(words)
    expect(line(page)).to_have_attribute("aria-invalid", "true")
    expect(line(page)).to_have_value(text)
    assert_cleared(page)
    assert page.evaluate("window.bookModels") is None, "nothing is loaded for it"
    page.get_by_role("button", name="Reset").click()
    expect(line(page)).to_have_value("")
    expect(page.locator(".bw-problem")).to_have_count(0)
    assert said(page) == before


def assert_cleared(page) -> None:
    """No translation, no map and no number is left; this is said, and read out."""
    gone = "No translation. What stood here before is cleared."
    expect(page.locator(".ft-said")).to_have_text(gone)
    expect(page.get_by_role("status")).to_have_text(gone)
    assert said(page) == []
    for name in (".ft-lanes", ".ft-title", ".bw-map", ".ft-behind", ".bw-bars"):
        assert not any(node.is_visible() for node in page.locator(name).all()), name
    chosen = page.get_by_label("Sentence", exact=True)
    assert chosen.evaluate("(n) => n.selectedOptions[0].text") == "your own: no translation"


def test_a_refusal_clears_the_old_answer_and_offers_one_that_works(stage, tracer):
    page = stage.show(tracer)
    translate(page, "six days")
    page.locator(".bw-map tbody td").first.click()
    expect(page.locator(".ft-sums")).to_be_visible()
    for text in ("a hundred Canadian dollar.", "21 Canadian dollars"):
        line(page).fill(text)
        line(page).press("Enter")
        assert_cleared(page)
        expect(line(page)).to_have_value(text)
    page.get_by_label("Sentence", exact=True).select_option("0")
    assert said(page)[-2:] == ["colombiens", "<eos>"]
    expect(line(page)).to_have_value("21 Canadian dollars")
    page.locator(".co-instead").get_by_role("button").click()
    assert said(page) == ["vingt", "deux", "dollars", "canadiens", "<eos>"]
    expect(line(page)).to_have_value("twenty two canadian dollars")
    expect(line(page)).to_be_focused()
    expect(page.locator(".co-instead")).to_be_hidden()
    line(page).fill("Hello!")
    line(page).press("Enter")
    expect(page.locator(".co-instead").get_by_role("button")).to_have_text(READY[0])


def test_while_the_model_loads_nothing_stands_for_the_answer(stage, tracer):
    page = stage.show(tracer)
    held = []
    model = f"**/models/{tracer.engine['id']}.js"
    page.route(model, lambda route: held.append(route))
    line(page).fill("six days")
    line(page).press("Enter")
    expect(page.locator(".ft-said")).to_have_text("Loading the model…")
    expect(page.locator(".bw-map")).to_be_hidden()
    held[0].continue_()
    page.get_by_role("button", name="Translate", exact=True).wait_for()
    assert said(page) == ["six", "jours", "<eos>"]
    page.unroute(model)


def test_longest_sentences_fit_and_say_that_they_did_not_end(stage, tracer):
    page = stage.show(tracer, width=390)
    translate(page, "two " * LONGEST["longest"])
    assert len(said(page)) == LONGEST["max_length"]
    expect(page.locator(".ft-said")).to_contain_text("… and no end yet")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_label("Step", exact=True).press("Home")
    for _ in tracer.stages:
        expect(page.locator(".bw-error")).to_be_hidden()
        page.get_by_label("Step", exact=True).press("ArrowRight")
    page.get_by_label("Position", exact=True).press("End")
    expect(page.locator(".bw-value").last).to_have_text("deux")


def test_link_leads_to_the_own_sentence_and_reset_back(stage, tracer):
    page = stage.show(tracer, query="?forward_tracer.own=two+euros&forward_tracer.sentence=1")
    page.get_by_role("button", name="Translate", exact=True).wait_for()
    assert said(page) == ["deux", "euros", "<eos>"]
    expect(line(page)).to_have_value("two euros")
    translate(page, "In six days")
    link = page.evaluate("""async () => {
      Object.defineProperty(navigator, "clipboard", { value: { writeText() { throw 1; } } });
      document.querySelector(".bw-foot button + button").click();
      await null;
      return document.querySelector("[aria-label='Link to this state']").value;
    }""")
    assert re.search(r"[?&]forward_tracer\.own=in\+six\+days[&#]", link), link
    assert "forward_tracer.sentence=1" in link
    page.get_by_label("Sentence", exact=True).select_option("0")
    assert len(said(page)) == 7
    page.get_by_label("Sentence", exact=True).select_option("1")
    assert said(page) == ["dans", "six", "jours", "<eos>"]
    page.get_by_role("button", name="Reset").click()
    assert len(said(page)) == 7
    expect(line(page)).to_have_value("")
    expect(page.get_by_label("Sentence", exact=True).locator("option")).to_have_count(1)


@pytest.mark.parametrize(
    ("query", "words"), [("own=two+cats", "know the word “cats”"), ("own=", "Up to 48 tokens")]
)
def test_a_link_that_cannot_be_followed_is_refused_like_a_sentence(stage, tracer, query, words):
    page = stage.show(tracer, query=f"?forward_tracer.{query}&forward_tracer.sentence=1")
    expect(note(page)).to_contain_text(words)
    if "cats" in query:
        assert_cleared(page)
        expect(line(page)).to_have_value("two cats")
    else:
        assert said(page)[-2:] == ["colombiens", "<eos>"]
        expect(page.get_by_label("Sentence", exact=True)).to_have_value("0")
        expect(line(page)).to_have_value("")


def test_a_model_that_does_not_come_is_said_and_can_be_tried_again(stage, tracer):
    page = stage.show(tracer)
    model = f"**/models/{tracer.engine['id']}.js"
    page.route(model, lambda route: route.fulfill(body="", content_type="text/javascript"))
    page.get_by_role("button", name=READY[1]).click()
    expect(page.locator(".bw-problem")).to_contain_text("the model did not load. Try again")
    expect(line(page)).to_have_value(READY[1])
    assert_cleared(page)
    page.unroute(model)
    page.get_by_role("button", name="Load the model").click()
    page.get_by_role("button", name="Translate", exact=True).wait_for()
    wrong = "six euros , quatre vingt douze bahts thaïlandais et dix miles <eos>"
    assert said(page) == wrong.split(), "one item made out of two: three is the most it knows"


def test_notebook_asks_the_kernel(stage, published, tracer):
    page = stage.show(tracer, via="module")
    line(page).fill("six days")
    line(page).press("Enter")
    expect(page.locator(".bw-problem")).to_contain_text("there is no kernel to ask for the model")
    packed = pack_model(*published)
    page.evaluate(
        """([id, header, data]) => {
          const listeners = new Set();
          model.on = (event, call) => { if (event === "msg:custom") listeners.add(call); };
          model.off = (event, call) => listeners.delete(call);
          window.messages = [];
          model.send = (content) => {
            messages.push(content);
            const bytes = Uint8Array.from("xx" + atob(data), (c) => c.charCodeAt(0));
            const view = new DataView(bytes.buffer, 2); // a view within a larger buffer
            for (const call of listeners) {
              call({ other: 1 }, []);
              call({ model: id, header }, [view]);
            }
          };
        }""",
        [packed.id, packed.header, base64.b64encode(packed.data).decode()],
    )
    line(page).press("Enter")
    page.get_by_role("button", name="Translate", exact=True).wait_for()
    assert page.evaluate("messages") == [{"wanted": tracer.engine["id"]}]
    assert said(page) == ["six", "jours", "<eos>"]
    assert page.evaluate("saved.at(-1).own") == "six days"
    page.evaluate("model.set('own', 'two euros')")
    expect(line(page)).to_have_value("two euros")


def test_it_says_where_it_is_not_sure(stage, published, tracer):
    page = stage.show(tracer)
    expect(page.locator(".ft-sure")).to_have_count(0)
    translate(page, "two dollars ago, 4 2 miles")
    tokens = tokenise("two dollars ago, 42 miles")
    one = trace_sentence(published[0], tokens, *published[1:], max_length=60)
    shares = [row[0][1] for row in one["guesses"][-1]]
    unsure = [i for i, share in enumerate(shares) if share < 0.9]
    assert 0 < len(unsure) < len(shares)
    shown = page.locator(".ft-token").evaluate_all(
        "(all) => all.map((n) => n.querySelector('small')?.textContent ?? '')"
    )
    assert [i for i, text in enumerate(shown) if text] == unsure
    assert [int(text.split()[0]) for text in shown if text] == pytest.approx(
        [100 * shares[i] for i in unsure], abs=0.6
    )
    expect(page.locator(".ft-sure")).to_have_count(1)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_accessible_with_a_problem_and_with_a_translation(stage, tracer, theme):
    page = stage.show(tracer, theme=theme, width=390)
    page.emulate_media(reduced_motion="reduce")
    translate(page, READY[1])
    assert page.locator(".ft-token").last.evaluate("(n) => n.getAnimations().length") == 0
    line(page).fill("cats and se")
    page.locator(".co-all summary").click()
    assert stage.violations(page) == []
    line(page).press("Enter")
    assert stage.violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_without_a_model_there_is_no_line(stage):
    vocab = Vocabulary(["a", "b", "c"])
    config = Config(len(vocab), d_model=6, n_heads=3, d_ff=5, n_layers=1, activation="gelu")
    pair = Pair(("a", "b"), ("c",))
    models = Transformer(config).eval(), [pair], vocab, vocab
    page = stage.show(ForwardTracer.from_model(*models, max_length=3))
    expect(page.locator(".co-own")).to_have_count(0)
    expect(page.get_by_label("Sentence", exact=True)).to_have_count(1)

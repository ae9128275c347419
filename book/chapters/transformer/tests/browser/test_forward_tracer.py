"""The forward tracer in a browser: what it shows is what the library computed."""

import pytest
from playwright.sync_api import expect

from chapters.transformer.forward_tracer import ForwardTracer
from chapters.transformer.tests.samples import SAMPLES, traced
from lib.data import Pair, tokenise
from train.checkpoints import load_published

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def tracer():
    model, *vocabs = load_published()
    texts = ("six seconds ago", "ninety seven colombian pesos")
    pairs = [Pair(tokenise(text), ("?",)) for text in texts]
    return ForwardTracer.from_model(model, pairs, *vocabs)


def stage_number(tracer, name):
    return next(i for i, stage in enumerate(tracer.stages) if stage["name"] == name)


def cells(page):
    return page.locator(".bw-map td:not(.bw-corner)").evaluate_all(
        "(all) => all.map((n) => n.textContent)"
    )


@pytest.mark.parametrize(
    "name",
    ["encoder.layers.1.self_attention", "decoder.layers.0.self_attention",
     "decoder.layers.1.cross_attention"],
)  # fmt: skip
@pytest.mark.parametrize("head", [0, 3])
def test_the_map_is_the_library_s(stage, tracer, name, head):
    query = f"forward_tracer.sentence=1&forward_tracer.stage={stage_number(tracer, name)}"
    page = stage.show(tracer, query=f"?{query}&forward_tracer.head={head}")
    one = tracer.sentences[1]
    causal = name.startswith("decoder") and "self" in name
    expected = [
        "masked" if causal and j > i else f"{weight / 1000:.3f}"
        for i, row in enumerate(one["maps"][name][head])
        for j, weight in enumerate(row)
    ]
    assert cells(page) == expected
    rows = page.locator(".bw-map tbody th").all_inner_texts()
    assert rows == one["source" if name.startswith("encoder") else "read"]


def test_every_step_can_be_reached_and_shows_its_shapes(stage, tracer):
    page = stage.show(tracer)
    vocab, sizes = tracer.sizes["target_vocab"], tracer.sizes
    assert (sizes["d_model"], sizes["n_heads"], sizes["d_ff"]) == (64, 4, 128)
    expected = {  # six seconds ago: 4 tokens in the source, 6 in the target
        "encoder.embedding": ["(4)", "(155, 64)", "(4, 64)"],
        "encoder.layers.0.self_attention": ["(4, 64)", *["(4, 4, 16)"] * 2, "(4, 4, 4)", "(4, 64)"],
        "encoder.layers.1.feed_forward": ["(4, 64)", "(4, 128)", "(4, 64)"],
        "decoder.layers.0.cross_attention": [
            "(6, 64)", "(4, 64)", "(4, 6, 16)", "(4, 4, 16)", "(4, 6, 4)", "(6, 64)"
        ],
        "decoder.norm": ["(6, 64)", "(6, 64)"],
        "projection": ["(6, 64)", f"(6, {vocab})"],
    }  # fmt: skip
    for number, step in enumerate(tracer.stages):
        expect(page.locator(".ft-title")).to_have_text(step["title"])
        expect(page.locator("[aria-current=step]")).to_have_count(1)
        assert page.locator("[aria-current=step]").get_attribute("title") == step["title"]
        if step["name"] in expected:
            assert page.locator(".ft-shape").all_inner_texts() == expected[step["name"]]
        shown = page.locator(".bw-map").is_visible()
        assert shown == (step["kind"] in ("self", "cross"))
        if number < len(tracer.stages) - 1:
            page.get_by_role("button", name="Next").click()
    assert page.get_by_role("button", name="Next").is_disabled()


def test_guesses_and_the_likeliest_key(stage, tracer):
    number = stage_number(tracer, "decoder.layers.1.cross_attention")
    page = stage.show(tracer, query=f"?forward_tracer.stage={number}&forward_tracer.position=4")
    one = tracer.sentences[0]
    row = one["maps"]["decoder.layers.1.cross_attention"][0][4]
    best = one["source"][max(range(len(row)), key=row.__getitem__)]
    text = page.locator(".ft-reading").inner_text()
    assert text == f"six looks most at {best} ({max(row) / 10:.0f} % of the weight)."
    first = number - sum(s["side"] == "source" for s in tracer.stages)
    names = page.locator("[aria-label='Likeliest next tokens'] .bw-bar-name > span:first-child")
    assert names.all_inner_texts() == [token for token, _ in one["guesses"][first][4]]
    page.get_by_label("Step", exact=True).press("End")
    assert names.all_inner_texts() == [token for token, _ in one["guesses"][-1][4]]
    assert names.count() == 5
    assert "six the model predicts:" in page.locator(".ft-asked").inner_text()
    assert page.locator(".bw-chosen .bw-bar-note").inner_text() == "said in the end"


def test_lengths_and_what_a_step_adds(stage):
    page = stage.show(SAMPLES["forward_tracer"]())  # stage 6: position i has 6 + i + 1.5
    bars = page.locator('[aria-label="Length of each position\'s vector"] li')
    assert bars.locator(".bw-bar-value").all_inner_texts() == ["7.5", "8.5", "9.5", "10.5"]
    assert bars.locator(".bw-bar-note").all_inner_texts() == ["+ 7.5", "+ 8.5", "+ 9.5", "+ 10.5"]
    expect(bars.nth(2)).to_have_class("bw-chosen")
    page.get_by_label("Step", exact=True).press("End")
    expect(bars).to_have_count(0)


def test_the_keyboard_walks_and_a_click_picks_a_row(stage):
    page = stage.show(SAMPLES["forward_tracer"]())
    page.get_by_label("Position", exact=True).press("ArrowLeft")
    expect(page.locator("tr.bw-current th")).to_have_text("dans")
    page.locator(".bw-map tbody tr").nth(3).locator("td").first.click()
    expect(page.locator("tr.bw-current th")).to_have_text("<b>")
    page.get_by_role("radio", name="2").press("ArrowLeft")
    assert cells(page)[:3] == ["1.000", "0.000", "0.000"]
    page.locator(".ft-chip").first.click()
    expect(page.locator(".ft-title")).to_have_text("Encoder: embedding")
    assert page.get_by_role("button", name="Previous").is_disabled()
    expect(page.get_by_text("Next token")).to_be_hidden()


def test_a_shorter_sentence_holds_its_last_position(stage):
    page = stage.show(SAMPLES["forward_tracer"]())
    page.get_by_label("Sentence", exact=True).select_option("1")
    expect(page.locator("tr.bw-current th")).to_have_text("x")
    assert page.get_by_label("Position", exact=True).get_attribute("max") == "1"


@pytest.mark.parametrize(
    ("pre_norm", "formulas"),
    [
        (True, ["x + Attention(Q, K, V from LN(x))", "x + Attention(Q, K, V from LN(x), causal)",
                "x + Attention(Q from LN(x), K, V from M)", "x + FFN(LN(x))"]),
        (False, ["LN(x + Attention(Q, K, V from x))", "LN(x + Attention(Q, K, V from x, causal))",
                 "LN(x + Attention(Q from x, K, V from M))", "LN(x + FFN(x))"]),
    ],
)  # fmt: skip
def test_formulas_say_where_the_norm_stands(stage, pre_norm, formulas):
    page = stage.functions(ForwardTracer(*traced()))
    steps = [("source", "self"), ("target", "self"), ("target", "cross"), ("target", "feed")]
    for (side, kind), expected in zip(steps, formulas, strict=True):
        code = "([kind, side, pre]) => own.formula({ kind, side }, pre)"
        assert page.evaluate(code, [kind, side, pre_norm]) == expected


def test_it_says_which_variant_its_model_is(stage, tracer):
    page = stage.show(tracer)
    said = "This model: pre-norm, rotary positions, a projection of its own."
    expect(page.locator(".ft-variant")).to_have_text(said)
    paper = {"pre_norm": False, "positions": "sinusoidal", "tied": True}
    said = "This model: post-norm, sinusoidal positions, a projection tied to the embedding."
    page = stage.functions(ForwardTracer(*traced()))
    assert page.evaluate("(sizes) => own.variant(sizes)", paper) == said


@pytest.mark.parametrize(
    ("positions", "expected"),
    [("sinusoidal", "E[token] √d_model + position"), ("rotary", "E[token] √d_model")],
)
def test_the_formula_adds_positions_where_the_model_does(stage, positions, expected):
    page = stage.functions(ForwardTracer(*traced()))
    code = "(positions) => own.formula({ kind: 'embed', side: 'source' }, true, positions)"
    assert page.evaluate(code, positions) == expected

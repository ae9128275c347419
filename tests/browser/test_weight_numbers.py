"""The numbers behind a weight in the forward tracer: torch's own, and they add up on the page."""

import math
import re

import pytest
import torch
from playwright.sync_api import expect

from chapters.transformer.forward_tracer import ForwardTracer
from chapters.transformer.tracing import stages_of
from lib.attention import attention_maps
from lib.data import BOS, EOS, Pair, tokenise
from lib.decoding import greedy
from tests.browser.test_own_sentence import build, line, said, translate
from tests.gate import each_look
from tests.helpers import as_packed
from tests.widget_samples import SAMPLES
from train.checkpoints import load_published
from widgets.packing import pack_model

pytestmark = pytest.mark.browser
TEXT = "thirty two kilometers per hour"
LAYERS = {  # a cell of each kind of attention: head, query, key
    "encoder.layers.1.self_attention": (2, 4, 1),
    "decoder.layers.0.self_attention": (1, 3, 2),
    "decoder.layers.1.cross_attention": (3, 3, 4),
}
HEADS = 4
# For a traced sentence: of each layer, head, query and key what lies behind the weight.
BEHIND = """([words, options, heads]) => {
  const one = own.tracing.trace(net, words, options);
  const found = [];
  for (const [name, maps] of Object.entries(one.maps)) {
    const causal = name.startsWith("decoder") && name.includes("self");
    maps.forEach((rows, head) => rows.forEach((row, i) => row.forEach((weight, j) => {
      const open = causal ? i + 1 : row.length;
      if (j >= open) return;
      const place = { heads, head, i, j, open };
      found.push({ name, head, i, j, thousandths: weight,
        ...own.arithmetic.behind(one.vectors[name], place) });
    })));
  }
  return found;
}"""


@pytest.fixture(scope="module")
def published():
    model, *vocabs = load_published()
    return as_packed(model), *vocabs


@pytest.fixture(scope="module")
def tracer():
    """As in chapter 10: the stored maps are those of the exact weights."""
    model, *vocabs = load_published()
    pairs = [Pair(tokenise(text), ("?",)) for text in (TEXT, "two euros")]
    return ForwardTracer.from_model(model, pairs, *vocabs)


@pytest.fixture
def behind(stage, tracer, published):
    """All of them for one sentence, as the page computes them."""
    page = stage.functions(tracer)
    build(page, pack_model(*published))
    options = {"stages": stages_of(2, True), "longest": 60, "k": 5}
    return page.evaluate(BEHIND, [list(tokenise(TEXT)), options, HEADS])


def test_shown_vectors_make_the_weight_of_every_cell(behind):
    assert {one["name"] for one in behind} >= LAYERS.keys()
    rows = {}
    for one in behind:
        products = [a * b for a, b in zip(one["query"], one["key"], strict=True)]
        assert one["products"] == products
        assert one["sum"] == pytest.approx(math.fsum(products), abs=1e-12)
        assert one["root"] == 4
        assert one["score"] == pytest.approx(one["sum"] / 4, abs=1e-12)
        assert one["scores"][one["j"]] == one["score"]
        rows.setdefault((one["name"], one["head"], one["i"]), []).append(one)
    for row in rows.values():
        scores = torch.tensor([one["score"] for one in row], dtype=torch.float64)
        weights = scores.softmax(-1).tolist()
        assert row[0]["weights"] == pytest.approx(weights, abs=1e-12)
        assert [one["thousandths"] for one in row] == pytest.approx(
            [1000 * weight for weight in weights], abs=0.5001
        )


@torch.no_grad()
def heads_of(attention, rows, name, rotates):
    """Queries or keys (heads, time, d_k) of a row of inputs, as the library takes their product."""
    vectors = attention.get_submodule(name)(rows)
    split = vectors.unflatten(-1, (HEADS, -1)).transpose(-3, -2)
    return (attention.positions.rotate(split, 0) if rotates else split)[0]


@pytest.mark.parametrize("name", LAYERS)
def test_vectors_and_weights_are_those_of_torch(published, behind, name):
    model, source_vocab, _ = published
    source = torch.tensor([[*source_vocab.encode(tokenise(TEXT)), EOS]])
    lengths = torch.tensor([source.shape[1]])
    tokens = greedy(model, source, lengths, 60)[0]
    read = torch.cat([tokens.new_full((1, 1), BOS), tokens[:, :-1]], dim=1)
    inputs = {}
    attention = model.get_submodule(name).sublayer
    hooks = [
        attention.get_submodule(part).register_forward_pre_hook(
            lambda _, args, part=part: inputs.update({part: args[0]})
        )
        for part in ("w_q", "w_k")
    ]
    maps = attention_maps(model, source, lengths, read)[name][0]
    for hook in hooks:
        hook.remove()
    rotates = "self" in name
    query, key = (heads_of(attention, inputs[p], p, rotates) for p in ("w_q", "w_k"))
    head, i, j = LAYERS[name]
    [one] = [b for b in behind if (b["name"], b["head"], b["i"], b["j"]) == (name, head, i, j)]
    assert one["query"] == pytest.approx(query[head, i].tolist(), abs=1e-4)
    assert one["key"] == pytest.approx(key[head, j].tolist(), abs=1e-4)
    assert one["weights"][j] == pytest.approx(maps[head, i, j].item(), abs=1e-5)
    if rotates:  # and not as they were before it
        plain = heads_of(attention, inputs["w_q"], "w_q", False)
        assert (plain[head, i] - query[head, i]).abs().max() > 0.1


@pytest.mark.parametrize(
    ("kind", "config", "text"),
    [
        ("self", ("pre", "rotary"), "q = W_q LN(x) + b_q, k = W_k LN(x) + b_k, both after the "
         "rotation by their positions."),
        ("cross", ("pre", "rotary"), "q = W_q LN(x) + b_q, k = W_k M + b_k. Cross-attention "
         "rotates neither."),
        ("cross", ("post", "none"), "q = W_q x + b_q, k = W_k M + b_k."),
        ("self", ("post", "sinusoidal"), "q = W_q x + b_q, k = W_k x + b_k."),
    ],
)  # fmt: skip
def test_it_says_where_the_vectors_are_taken(stage, kind, config, text):
    page = stage.functions(SAMPLES["forward_tracer"]())
    code = "([kind, [norm, positions]]) => own.arithmetic.taken({ kind }, { norm, positions })"
    assert page.evaluate(code, [kind, config]) == text


# --- on the page ------------------------------------------------------------------------------


def show(stage, tracer, name="decoder.layers.1.cross_attention", **options):
    number = next(i for i, step in enumerate(tracer.stages) if step["name"] == name)
    head = LAYERS[name][0]
    query = f"?forward_tracer.stage={number}&forward_tracer.head={head}"
    return stage.show(tracer, query=query, **options)


def cell(page, i, j):
    return page.locator(".bw-map tbody tr").nth(i).locator("td").nth(j)


def panel(page):
    return page.get_by_role("group", name="The numbers behind one weight")


def load(page):
    page.get_by_role("button", name="Load the model (395 kB) and show the numbers").click()
    expect(page.locator(".ft-sums")).to_be_visible()


def number(text):
    return float(text.replace("−", "-"))


def rows_of(page, name):
    header = page.get_by_role("rowheader", name=name, exact=True)
    found = page.locator(".ft-blocks tr").filter(has=header)
    return [number(text) for text in found.locator("td").all_inner_texts()]


@pytest.mark.parametrize("via", ["http", pytest.param("file", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", LAYERS)
def test_a_cell_shows_its_arithmetic_and_it_adds_up(stage, tracer, name, via):
    page = show(stage, tracer, name, via=via)
    _, i, j = LAYERS[name]
    cell(page, i, j).click()
    assert page.evaluate("window.bookModels") is None, "nothing is loaded without a question"
    load(page)
    q, k, products = (rows_of(page, row) for row in ("q", "k", "q × k"))
    assert len(q) == len(k) == len(products) == 16
    for a, b, product in zip(q, k, products, strict=True):
        assert a * b == pytest.approx(product, abs=0.006 + 0.005 * (abs(a) + abs(b)))
    text = page.locator(".ft-sums").inner_text().replace("−", "-")
    total, score = (float(re.search(rf"{p} (-?[\d.]+\d)", text)[1]) for p in ("k =", "score is"))
    assert total == pytest.approx(sum(products), abs=16 * 0.05)
    assert score == pytest.approx(total / 4, abs=0.0011)
    softmax = page.locator(".ft-softmax tbody tr")
    keys = [number(t) for t in softmax.locator("td:nth-of-type(2)").all_inner_texts()]
    assert sum(keys[:-1]) == pytest.approx(keys[-1], abs=0.0005 * len(keys))
    weight = page.locator(".ft-here td").last.inner_text()
    assert cell(page, i, j).inner_text() == weight
    assert panel(page).locator("strong").inner_text() == weight
    assert number(weight) == pytest.approx(keys[j] / keys[-1], abs=0.0011)
    stored = tracer.sentences[0]["maps"][name][LAYERS[name][0]][i][j]
    assert 1000 * number(weight) == pytest.approx(stored, abs=4), "float16 against float32"


def test_keyboard_asks_and_it_is_read_out_once(stage, tracer):
    page = show(stage, tracer)
    cell(page, 3, 4).focus()
    expect(page.get_by_role("status")).not_to_be_empty()
    page.evaluate("""() => {
      window.heard = [];
      const status = document.querySelector("[role=status]");
      const hear = () => heard.push(status.textContent);
      new MutationObserver(hear).observe(status, { childList: true });
    }""")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("The button below the map loads them")
    button = page.get_by_role("button", name="and show the numbers")
    button.focus()
    page.keyboard.press("Enter")
    expect(panel(page)).to_be_focused()
    cell(page, 3, 3).focus()
    page.keyboard.press(" ")
    one = tracer.sentences[0]
    words = f"{one['read'][3]} looks at {one['source'][3]}: q · k is "
    expect(page.get_by_role("status")).to_contain_text(words)
    assert cell(page, 3, 3).evaluate("(n) => n === document.activeElement")
    heard = page.evaluate("heard")
    assert len([text for text in heard if words in text]) == 1
    assert len(heard) <= 3
    page.keyboard.press("ArrowLeft")
    expect(panel(page)).to_contain_text(f"{one['read'][3]} looks at {one['source'][3]}")


def test_it_follows_the_walk_and_a_masked_key_is_explained(stage, tracer):
    page = show(stage, tracer, "decoder.layers.0.self_attention")
    expect(panel(page)).to_have_text(
        "Choose a cell of the attention map to see how its weight is computed."
    )
    cell(page, 1, 3).click()
    read = tracer.sentences[0]["read"]
    expect(panel(page)).to_contain_text(f"{read[1]} looks at {read[3]} in head 2")
    expect(panel(page)).to_contain_text("the weight is exactly 0. This key comes later")
    page.get_by_label("Position", exact=True).press("End")
    load(page)
    assert page.locator(".ft-here th").inner_text() == read[3]
    assert page.locator(".ft-softmax tbody tr").count() == len(read) + 1
    page.get_by_role("radio", name="4").check()
    expect(panel(page)).to_contain_text("in head 4: weight")
    translate(page, "six days")
    assert said(page) == ["six", "jours", "<eos>"]
    expect(page.locator(".ft-here th")).to_have_text("jours")  # the last, as there is no fourth
    page.get_by_role("button", name="Reset").click()
    page.locator(".ft-cross").first.click()
    expect(panel(page)).to_contain_text("Choose a cell")


def test_a_model_that_does_not_come_is_said_beside_the_cell(stage, tracer):
    page = show(stage, tracer)
    model = f"**/models/{tracer.engine['id']}.js"
    page.route(model, lambda route: route.fulfill(body="", content_type="text/javascript"))
    cell(page, 1, 1).click()
    page.get_by_role("button", name="and show the numbers").click()
    expect(panel(page).locator(".bw-problem")).to_contain_text("the model did not load. Try again")
    assert len(said(page)) > 1, "the stored translation stays: nothing was asked of it"
    expect(line(page)).to_have_value("")
    page.unroute(model)
    load(page)


@each_look
def test_it_is_accessible_and_never_wider_than_the_page(stage, tracer, theme, width):
    page = show(stage, tracer, "encoder.layers.1.self_attention", theme=theme, width=width)
    cell(page, 0, 2).click()
    assert stage.violations(page) == []
    load(page)
    assert stage.violations(page) == []
    for i in range(6):
        cell(page, i, 5 - i).click()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tables = page.locator(".ft-numbers").evaluate_all(
        "(all) => all.filter((n) => n.scrollWidth > n.parentElement.clientWidth + 1).length"
    )
    assert tables == 0


def test_a_tap_asks_too(phone, tracer):
    page = show(phone, tracer)
    cell(page, 2, 3).tap()
    page.get_by_role("button", name="and show the numbers").tap()
    expect(page.locator(".ft-sums")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

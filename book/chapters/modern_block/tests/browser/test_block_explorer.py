"""The block explorer: every number that it shows, against measure.costs."""

import itertools
import re

import pytest
from playwright.sync_api import expect

from chapters.modern_block.block_explorer import CONTEXTS, PAPER, BlockExplorer
from chapters.modern_block.published import PUBLISHED
from measure.costs import cache_bytes, flops_of, parameters_of
from tests.gate import sampled

pytestmark = pytest.mark.browser
CHOICES = {
    "norm": ("layer", "rms"),
    "activation": ("relu", "gelu", "swiglu"),
    "positions": ("sinusoidal", "learned", "rotary"),
    "kv_heads": ("all", "groups", "one"),
    "bias": (False, True),
    "window": (False, True),
    "experts": (False, True),
    "tied": (False, True),
}


@pytest.fixture
def functions(stage):
    return stage.functions(BlockExplorer())


def plain(text: str) -> str:
    return text.replace("\u202f", " ").replace("\u00a0", " ")


def wanted(widget: BlockExplorer) -> dict[str, int]:
    config = widget.config()
    return {
        "parameters": parameters_of(config).total,
        "active": parameters_of(config, active=True).total,
        "cache": cache_bytes(config, widget.context),
        "flops": flops_of(config, widget.context).total,
    }


@sampled(10)
def test_costs_are_exactly_those_of_the_library(functions, stride):
    """Every combination of the choices, at each with one model and one context in turn."""
    places = itertools.cycle(itertools.product(PUBLISHED, CONTEXTS))
    every = []
    for values in itertools.product(*CHOICES.values()):
        name, context = next(places)
        state = dict(zip(CHOICES, values, strict=True))
        every.append(BlockExplorer(name, context=context, **state))
    every += [BlockExplorer(name, context=n) for name in PUBLISHED for n in CONTEXTS]
    assert len(every) == 3**3 * 2**5 + 60
    every = every[::stride]
    data = every[0].data()
    got = functions.evaluate(
        "([all, models, sizes]) => all.map((s) => own.costs(own.configOf(s, models, sizes)))",
        [[widget.data() for widget in every], data["models"], data["sizes"]],
    )
    for widget, found in zip(every, got, strict=True):
        assert found == wanted(widget), widget


def test_short_numbers(functions):
    def texts(name, values):
        return [plain(t) for t in functions.evaluate(f"(all) => all.map(own.{name})", values)]

    assert texts("brief", [0, 266_240, 999_999, 1_000_000, 124_439_808, 6_738_415_616]) == [
        "0", "266 240", "999 999", "1 million", "124 million", "6.74 billion",
    ]  # fmt: skip
    assert texts("brief", [999_499_999, 999_600_000, 1.5e12]) == [
        "999 million", "1 billion", "1.5 trillion",
    ]  # fmt: skip
    assert texts("bytes", [1000, 1024, 524_288, 2**30, 1023.99 * 2**20, 1.25 * 2**40]) == [
        "1 000 bytes", "1 KiB", "512 KiB", "1 GiB", "1 GiB", "1.25 TiB",
    ]  # fmt: skip
    pairs = [(4, 1), (1, 8), (100, 88), (100, 121), (10_000_000, 9_999_610)]
    said = functions.evaluate("(all) => all.map(([a, b]) => own.ratio(a, b))", pairs)
    assert [plain(t) for t in said] == ["÷ 4", "× 8", "−12%", "+21%", "−0.0039%"]


def sentence(functions, before: BlockExplorer, now: BlockExplorer) -> str:
    data, keys = now.data(), ("model", "context", *PAPER)
    states = [{key: widget.data()[key] for key in keys} for widget in (before, now)]
    return plain(
        functions.evaluate(
            "([a, b, ...rest]) => own.bought(a, b, ...rest)",
            [*states, data["paper"], data["models"], data["sizes"]],
        )
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"kv_heads": "groups"},
            "32 query heads share 8 heads of keys and values. This saves 805 million parameters "
            "(−12%), 768 MiB of cache (÷ 4) and 1.61 billion FLOPs per token (−11%).",
        ),
        (
            {"norm": "layer"},
            "LayerNorm learns a scale and a bias for each entry. This adds 266 240 parameters "
            "(+0.004%); the cache and the FLOPs stay the same.",
        ),
        (
            {"positions": "learned"},
            "Learned positions are one vector for each of 2 048 positions. This adds 8.39 million "
            "parameters (+0.12%); the cache and the FLOPs stay the same.",
        ),
        (
            {"positions": "sinusoidal"},
            "Sinusoidal positions have no parameters. This changes none of these figures.",
        ),
        (
            {"experts": True},
            "Each block has 8 feed-forward networks, of which a token passes 2. This adds 30.3 "
            "billion parameters (× 5.5), 4.33 billion active parameters (+64%) and 8.66 billion "
            "FLOPs per token (+61%); the cache stays the same.",
        ),
        (
            {"activation": "relu"},
            "With ReLU, a feed-forward network has two matrices. This saves 1.44 billion "
            "parameters (−21%) and 2.89 billion FLOPs per token (−20%); the cache stays the same.",
        ),
        (
            {"context": 4096},
            "The context is 4 096 tokens. This adds 1 GiB of cache (× 2) and 1.07 billion FLOPs "
            "per token (+7.5%); the parameters stay the same.",
        ),
    ],
)
def test_the_sentence_says_what_one_change_bought(functions, change, said):
    assert sentence(functions, BlockExplorer(), BlockExplorer(**change)) == said


def test_the_sentence_about_several_changes_compares_with_2017(functions):
    old, new = BlockExplorer("Llama 2 70B", **PAPER), BlockExplorer("Llama 2 70B")
    assert sentence(functions, new, old) == (
        "These are the choices of 2017 at the sizes of Llama 2 70B."
    )
    for before in (old, new, BlockExplorer("GPT-2 small")):
        text = sentence(functions, before, new)
        assert text.startswith(
            "At the sizes of Llama 2 70B, this block, compared with the choices of 2017, saves "
            "8.75 GiB of cache (÷ 8), and adds "
        )


def shown(page) -> dict[str, list[str]]:
    """Of each figure the exact number, and the numbers beside its bars."""
    found = {}
    for part in page.locator(".bw-part:has(.bw-bars)").all():
        label = part.locator(".bw-label").inner_text()
        values = [part.locator(".bw-value").inner_text()]
        found[label] = [plain(t) for t in values + part.locator(".bw-bar-value").all_inner_texts()]
    return found


def test_numbers_and_bars(stage):
    page = stage.show(BlockExplorer("Mixtral 8x7B", context=4096))
    figures = shown(page)
    assert figures["Parameters"][:3] == ["46 702 792 704", "46.7 billion", "12.9 billion"]
    cache = figures["Key-value cache of one text, 16-bit numbers"]
    assert cache == ["536 870 912 bytes", "512 MiB", "2 GiB"]
    names = page.locator(".bw-bar-name").all_inner_texts()
    assert names[:3] == ["this block", "active for a token", "2017 choices"]
    shares = page.locator(".bw-bar").evaluate_all(
        "(all) => all.map((bar) => +bar.style.getPropertyValue('--share'))"
    )
    assert shares[0] == 1
    assert shares[3:5] == [0.25, 1]
    page.get_by_role("checkbox", name=re.compile("^8 experts")).uncheck()
    expect(page.locator(".bw-bar-name").nth(1)).to_have_text("2017 choices")
    assert shown(page)["Parameters"][0] == "7 241 732 096"


def test_another_model_comes_with_its_choices(stage):
    page = stage.show(BlockExplorer("LLaMA 7B"))
    page.get_by_label("Sizes of").select_option("GPT-2 small")
    expect(page.get_by_role("radio", name="GELU")).to_be_checked()
    expect(page.get_by_role("radio", name="Learned")).to_be_checked()
    expect(page.get_by_role("checkbox", name="Biases")).to_be_checked()
    assert shown(page)["Parameters"][0] == "124 439 808"
    expect(page.locator(".bw-note").first).to_contain_text("12 heads")
    page.get_by_role("radio", name="Groups").check()
    expect(page.get_by_text("12 query heads share 6 heads")).to_be_visible()


def test_a_context_beyond_the_learned_positions_is_said(stage):
    page = stage.show(BlockExplorer("GPT-2 small"))
    trouble = page.locator(".bw-problem")
    expect(trouble).to_be_hidden()
    page.get_by_role("slider", name="Context, in tokens").press("ArrowRight")
    expect(trouble).to_contain_text("learned positions, and none for the rest")
    page.get_by_role("radio", name="Rotary").check()
    expect(trouble).to_be_hidden()


def test_buttons_set_all_choices_and_reset_forgets_the_last_change(stage):
    page = stage.show(BlockExplorer("Mistral 7B"))
    first = page.get_by_text("At the sizes of Mistral 7B, this block")
    expect(first).to_be_visible()
    page.get_by_role("button", name="As in 2017").click()
    expect(page.get_by_text("These are the choices of 2017")).to_be_visible()
    for numbers in shown(page).values():
        assert numbers[1] == numbers[2]
    page.get_by_role("button", name="As published").click()
    assert shown(page)["Parameters"][0] == "7 241 732 096"
    page.get_by_role("checkbox", name="Biases").check()
    expect(
        page.get_by_text("Each matrix of attention and feed-forward has a bias beside it.")
    ).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("Each matrix of attention and feed-forward")
    page.get_by_role("button", name="Reset").click()
    expect(first).to_be_visible()


def test_address_sets_the_block(stage):
    query = "?block_explorer.model=Llama%203%208B&block_explorer.kv_heads=one"
    page = stage.show(BlockExplorer("LLaMA 7B"), query=query)
    expect(page.get_by_label("Sizes of")).to_have_value("Llama 3 8B")
    expect(page.get_by_role("radio", name="1", exact=True)).to_be_checked()
    widget = BlockExplorer("Llama 3 8B", context=2048, kv_heads="one")
    assert shown(page)["Parameters"][0] == f"{wanted(widget)['parameters']:,}".replace(",", " ")

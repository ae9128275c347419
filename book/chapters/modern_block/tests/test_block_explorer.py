"""The block explorer: its start, its configurations, and what it leaves without scripts."""

import re
from dataclasses import replace

import pytest

from chapters.modern_block.block_explorer import CONTEXTS, BlockExplorer, choices_of, groups_of
from chapters.modern_block.decoder import BlockConfig
from chapters.modern_block.published import PUBLISHED
from measure.costs import cache_bytes, flops_of, parameters_of
from tests.helpers import unchecked


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"model": "GPT-5"}, "model: expected one of GPT-2 small, .*, Mixtral 8x7B, got 'GPT-5'"),
        ({"model": ["LLaMA 7B"]}, "model: expected one of GPT-2 small, .*"),
        ({"norm": "batch"}, "norm: expected one of layer, rms, got 'batch'"),
        ({"activation": "silu"}, "activation: expected one of relu, gelu, swiglu, got 'silu'"),
        ({"positions": "alibi"}, "positions: expected one of sinusoidal, .*, got 'alibi'"),
        ({"kv_heads": 8}, "kv_heads: expected one of all, groups, one, got 8"),
        ({"bias": 1}, "bias: expected True or False, got 1"),
        ({"window": 4096}, "window: expected True or False, got 4096"),
        ({"experts": 8}, "experts: expected True or False, got 8"),
        ({"tied": "yes"}, "tied: expected True or False, got 'yes'"),
        ({"context": 1000}, "context: expected one of 256, 512, .*, 131072, got 1000"),
    ],
)
def test_start_is_one_that_the_controls_can_reach(start, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        BlockExplorer(**start)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_model_starts_as_it_was_published(name):
    """In all that costs something: eps, the base of the rotation and the scale stay as well."""
    widget, published = BlockExplorer(name), PUBLISHED[name].config
    explicit = replace(published, n_kv_heads=published.kv_heads, n_active=2)
    assert widget.config() == explicit
    assert widget.context == published.max_length
    assert parameters_of(widget.config()).total == PUBLISHED[name].parameters


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_choices_of_2017_are_those_of_the_defaults(name):
    config, sizes = BlockExplorer(name).config_2017(), PUBLISHED[name].config
    kept = ("norm_eps", "rope_base", "scaled_embedding")
    assert config == BlockConfig(
        sizes.vocab,
        d_model=sizes.d_model,
        n_layers=sizes.n_layers,
        n_heads=sizes.n_heads,
        n_kv_heads=sizes.n_heads,
        d_ff=sizes.d_ff,
        max_length=sizes.max_length,
        **{field: getattr(sizes, field) for field in kept},
    )


def test_each_choice_changes_its_field():
    base = BlockExplorer("LLaMA 7B").config()
    for change, fields in (
        ({"norm": "layer"}, {"norm_layer": "layer"}),
        ({"activation": "relu"}, {"activation": "relu"}),
        ({"positions": "learned"}, {"positions": "learned"}),
        ({"kv_heads": "groups"}, {"n_kv_heads": 8}),
        ({"kv_heads": "one"}, {"n_kv_heads": 1}),
        ({"bias": True}, {"bias": True}),
        ({"window": True}, {"window": 4096}),
        ({"experts": True}, {"n_experts": 8, "n_active": 2}),
        ({"tied": True}, {"tied": True}),
    ):
        assert BlockExplorer("LLaMA 7B", **change).config() == replace(base, **fields)


def test_groups_divide_the_heads():
    assert [groups_of(n) for n in (64, 32, 12, 7, 1)] == [8, 8, 6, 7, 1]
    assert all(choices_of(name)["kv_heads"] != "one" for name in PUBLISHED)
    for name in PUBLISHED:
        assert BlockExplorer(name, kv_heads="groups").config().kv_heads <= 8


def test_every_context_will_do():
    assert [BlockExplorer(context=n).context for n in CONTEXTS] == list(CONTEXTS)
    assert {PUBLISHED[name].config.max_length for name in PUBLISHED} <= set(CONTEXTS)


def test_static_table_holds_the_costs():
    widget = BlockExplorer("Mistral 7B", context=16_384, experts=True)
    html = widget.static_html()
    assert "Mistral 7B cost at a context of 16,384 tokens" in html
    cells = [int(text.replace(",", "")) for text in re.findall(r"<td>([\d,]+)</td>", html)]
    assert cells == [
        number(config)
        for number in (
            lambda c: parameters_of(c).total,
            lambda c: parameters_of(c, active=True).total,
            lambda c: cache_bytes(c, 16_384),
            lambda c: flops_of(c, 16_384).total,
        )
        for config in (widget.config(), widget.config_2017())
    ]


def test_summary_says_the_start():
    assert repr(BlockExplorer("Mistral 7B", context=512)) == (
        "BlockExplorer: Mistral 7B, rms, swiglu, rotary, groups kv_heads, window, context 512"
    )

"""The properties of attention layers: right ones have all of them, and each fault is named."""

import math
import re

import pytest
import torch
from torch import nn

from chapters.mistakes.in_attention import (
    HeadsOnSlices,
    MaskedAfterSoftmax,
    MinusBillion,
    MinusInfinity,
    RootOfDModel,
    RootOfHeads,
)
from chapters.mistakes.layer_properties import LayerSubject, fresh, normal
from chapters.mistakes.properties import LAYER, check_attention_layer
from chapters.mistakes.specimen import PlainAttention
from lib.attention import MultiHeadAttention


def ours(d_in, n_heads, d_out):
    return MultiHeadAttention(d_in, n_heads, d_out=d_out)


def ask(name, make, reference=None):
    (found,) = check_attention_layer(make, reference=reference, only=(name,))
    return found


def test_the_librarys_layer_has_every_property():
    found = check_attention_layer(ours, reference=lambda *s: PlainAttention(*s))
    assert [f.name for f in found] == [p.name for p in LAYER]
    assert found.caught == []


def test_a_fresh_module_is_drawn_from_its_seed_and_leaves_the_readers_numbers():
    numbers = torch.get_rng_state()
    one, same, other = (fresh(nn.Linear, 3, 5, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(numbers, torch.get_rng_state())
    assert torch.equal(one.weight, same.weight)
    assert not torch.equal(one.weight, other.weight)
    assert not one.training
    assert torch.equal(normal(2, 3), normal(2, 3))
    layer = LayerSubject(ours).layer(12, 3, 20)
    assert (layer.w_q.in_features, layer.n_heads, layer.w_o.out_features) == (12, 3, 20)
    assert not layer.training


class KeepsItsWidth(PlainAttention):
    def __init__(self, d_in, n_heads, d_out):
        super().__init__(d_in, n_heads)


class AsLongAsItsMemory(PlainAttention):
    def scores(self, query, key):
        return super().scores(key, key)


@pytest.mark.parametrize(
    ("make", "number", "message"),
    [
        (
            KeepsItsWidth,
            3,
            r"expected \(batch, query, d_out\) = \(2, 5, 20\), got \[\(2, 5, 12\)\]",
        ),
        (AsLongAsItsMemory, 2, r"got \[\(2, 7, 20\)\]"),
    ],
)
def test_sizes_counts_the_shapes_that_are_wrong(make, number, message):
    found = ask("sizes", make)
    assert (found.held, found.number) == (False, number)
    assert re.search(message, found.message)


class WeighsTheHidden(PlainAttention):
    def weigh(self, scores, mask):
        return super().weigh(scores, mask).roll(1, -1)  # sums stay, and so do empty rows


class OneMap(PlainAttention):
    def attention_weights(self, *inputs, **options):
        return super().attention_weights(*inputs, **options).mean(1)


@pytest.mark.parametrize(
    ("make", "number", "message"),
    [
        (MinusBillion, 1 / 7, "a fully masked row is not 0"),
        (MinusInfinity, math.inf, "a fully masked row is not 0"),
        (MaskedAfterSoftmax, None, "rows do not sum to 1"),
        (WeighsTheHidden, None, "masked keys have weight"),
        (OneMap, math.inf, "expected a map (2, 3, 5, 7), got (2, 5, 7)"),
    ],
)
def test_weights_names_the_worst_fault(make, number, message):
    found = ask("weights", make)
    assert (found.held, found.message) == (False, message)
    assert found.number > 0.01 if number is None else found.number == pytest.approx(number)


def test_spread_is_the_ratio_between_the_sizes():
    """Heads of 8, 32 and 8 in models of 24, 96 and 96; 3, 3 and 12 heads."""
    assert ask("spread", PlainAttention).number == pytest.approx(1, abs=0.3)
    of_width = ask("spread", RootOfDModel)  # the root of d_k / d_model: 1/3, 1/3, 1/12
    assert (of_width.held, of_width.number) == (False, pytest.approx(2, rel=0.3))
    of_heads = ask("spread", RootOfHeads)  # the root of d_k / heads: 8/3, 32/3, 8/12
    assert (of_heads.held, of_heads.number) == (False, pytest.approx(4, rel=0.3))
    assert ask("spread", HeadsOnSlices).held


class Rough(PlainAttention):
    """In float16 its scores are off by a quarter."""

    def scores(self, query, key):
        scores = super().scores(query, key)
        return scores * 1.25 if scores.dtype == torch.float16 else scores


def test_half_compares_with_float32_and_stops_where_a_number_is_too_large():
    rough = ask("half", Rough)
    assert (rough.held, rough.message) == (False, "another output in float16")
    assert 0.02 < rough.number < 1
    stops = ask("half", MinusBillion)
    assert (stops.held, stops.number) == (False, None)
    assert "it stops: RuntimeError" in stops.message
    assert ask("half", MinusInfinity).held  # every row of a causal mask has a key


class Forgets(PlainAttention):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        nn.init.zeros_(self.w_o.bias)  # as many begin: what is forgotten is 0 at first

    def output(self, joined):
        return joined @ self.w_o.weight.T


def test_copied_sees_a_bias_that_was_forgotten():
    found = ask("copied layer", Forgets, ours)
    assert (found.held, found.message) == (False, "the same parameters give another output")
    assert found.number > 0.01
    assert ask("copied layer", PlainAttention, ours).held
    assert check_attention_layer(Forgets, only=("copied layer",)) == ()  # nothing to compare

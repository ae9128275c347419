"""The formulas of Table 1 against layers that are counted and looked through."""

import math

import pytest
import torch

from chapters.complexity.layers import CausalConvolution, Recurrence, windowed_attention
from lib.attention import MultiHeadAttention, attention_weights, scaled_dot_product_attention
from lib.masks import window_mask
from measure.costs import (
    convolution_cost,
    recurrent_cost,
    restricted_cost,
    self_attention_cost,
)
from measure.observed import count_flops, longest_chain, path_length
from tests.helpers import unchecked

SIZES = [(2, 6), (13, 6), (31, 18), (64, 12)]


def parameters(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_self_attention(n, d):
    x = torch.randn(1, n, d)
    cost = self_attention_cost(n, d)
    assert count_flops(lambda x: scaled_dot_product_attention(x, x, x), x) == cost.flops
    layer = MultiHeadAttention(d, 3, bias=False)
    whole = self_attention_cost(n, d, n_heads=3, projections=True)
    assert count_flops(layer, x) == whole.flops
    assert parameters(layer) == whole.parameters
    assert cost.path == path_length(
        lambda layers: lambda x: scaled_dot_product_attention(x, x, x), n, d
    )


@pytest.mark.parametrize(("n", "d"), SIZES)
def test_recurrence(n, d):
    layer, cost = Recurrence(d), recurrent_cost(n, d)
    assert count_flops(layer, torch.randn(1, n, d)) == cost.flops
    assert parameters(layer) == cost.parameters
    layer.double()
    assert cost.path == path_length(
        lambda rounds: lambda x: layer.rounds(x, rounds), n, d, at_most=n
    )


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("dilated", [False, True])
@pytest.mark.parametrize(("n", "d"), SIZES)
def test_convolution(n, d, dilated, k):
    cost = convolution_cost(n, d, k, dilated=dilated)
    layer = CausalConvolution(d, k)
    assert count_flops(layer, torch.randn(1, n, d)) == cost.flops
    assert parameters(layer) == cost.parameters

    def stack(layers: int) -> torch.nn.Module:
        torch.manual_seed(0)
        steps = [k**i if dilated else 1 for i in range(layers)]
        return torch.nn.Sequential(*(CausalConvolution(d, k, s) for s in steps)).double()

    assert cost.path == path_length(stack, n, d, at_most=n)
    expected = math.ceil(math.log(n, k) - 1e-9) if dilated else math.ceil((n - 1) / (k - 1))
    assert cost.path == expected


@pytest.mark.parametrize("radius", [1, 4, 100])
@pytest.mark.parametrize(("n", "d"), SIZES)
def test_restricted_attention(n, d, radius):
    cost = restricted_cost(n, d, radius)
    pairs = int(window_mask(n, radius).sum())
    assert (cost.memory, cost.flops) == (pairs, 4 * pairs * d)

    def stack(layers: int):
        def run(x: torch.Tensor) -> torch.Tensor:
            for _ in range(layers):
                x = windowed_attention(x, x, x, radius)
            return x

        return run

    assert cost.path == path_length(stack, n, d, at_most=n)


def test_restricted_attention_has_the_projections_of_the_full_one():
    n, d, radius = 31, 18, 4
    bare, whole = (restricted_cost(n, d, radius, projections=p) for p in (False, True))
    full = [self_attention_cost(n, d, projections=p) for p in (False, True)]
    for field in ("flops", "parameters", "memory"):
        added = getattr(whole, field) - getattr(bare, field)
        assert added == getattr(full[1], field) - getattr(full[0], field) > 0
    assert whole[3:] == bare[3:]


@pytest.mark.parametrize("n", [2, 13, 31])
def test_products_wait_for_one_another_only_in_the_recurrence(n):
    x = torch.randn(1, n, 6, requires_grad=True)
    assert longest_chain(Recurrence(6)(x)) == recurrent_cost(n, 6).sequential
    assert longest_chain(CausalConvolution(6, 3)(x)) == convolution_cost(n, 6, 3).sequential
    output = attention_weights(x, x) @ x
    assert longest_chain(output) == 2, "scores, then the sum: O(1)"
    assert longest_chain(windowed_attention(x, x, x, 2)) == 1, "one fused kernel"


def test_windowed_attention_computes_little_more_than_its_pairs():
    n, d, radius = 4096, 16, 64
    x = torch.randn(1, n, d)
    counted = count_flops(lambda x: windowed_attention(x, x, x, radius), x)
    assert 1 < counted / restricted_cost(n, d, radius).flops < 1.6
    assert counted < 0.1 * self_attention_cost(n, d).flops


def test_recurrence_and_attention_meet_where_n_is_d():
    for d in (64, 512):
        assert self_attention_cost(d - 8, d).flops < recurrent_cost(d - 8, d).flops
        assert self_attention_cost(d + 8, d).flops > recurrent_cost(d + 8, d).flops


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: self_attention_cost(0, 8), "expected n to be a whole number above 0, got 0"),
        (lambda: self_attention_cost(4, 8, n_heads=3), "n_heads to divide d"),
        (lambda: recurrent_cost(4, 2.5), "expected d to be a whole number above 0, got 2.5"),
        (lambda: convolution_cost(4, 8, 1), "at least 2 positions, got k=1"),
        (lambda: restricted_cost(4, 8, 0), "expected radius to be a whole number above 0"),
    ],
)
def test_wrong_sizes_are_explained(call, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        call()

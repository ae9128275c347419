"""Numbers worked out with a pencil, the errors, and the two paths of the attention layer."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from lib.attention import (
    KeyValueCache,
    MultiHeadAttention,
    attention_weights,
    scaled_dot_product_attention,
)
from lib.masks import causal_mask, combine_masks, padding_mask
from lib.positions import Positions
from tests.helpers import assert_close, normal, random_mask, unchecked

PATHS = pytest.mark.parametrize("explicit", [False, True], ids=["fused", "explicit"])
HALVES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])


def attend(query, key, value, mask=None, *, bias=None, explicit):
    if explicit:
        return attention_weights(query, key, mask, bias=bias) @ value
    return scaled_dot_product_attention(query, key, value, mask, bias=bias)


@PATHS
def test_by_hand(explicit):
    """Scores ln 3 and 0 after scaling: weights 3/4 and 1/4."""
    query = torch.tensor([[math.log(3.0), 0.0, 0.0, 0.0]])
    key = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0]])
    value = torch.tensor([[8.0], [4.0]])
    assert attend(query, key, value, explicit=explicit).item() == pytest.approx(7.0)


def test_weights_by_hand():
    query = torch.tensor([[math.log(3.0), 0.0, 0.0, 0.0]])
    key = torch.tensor([[2.0, 0.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0]])
    assert attention_weights(query, key).tolist() == [pytest.approx([0.75, 0.25])]


@PATHS
def test_one_key_gives_its_own_value(explicit):
    value = normal(2, 1, 5)
    output = attend(normal(2, 3, 7), normal(2, 1, 7), value, explicit=explicit)
    assert_close(output, value.expand(2, 3, 5), 1e-15)


@PATHS
@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (2, 3, 5)], ids=str)
def test_any_number_of_batch_axes(batch, explicit):
    query, key, value = normal(*batch, 7, 11), normal(*batch, 13, 11), normal(*batch, 13, 17)
    output = attend(query, key, value, explicit=explicit)
    assert output.shape == (*batch, 7, 17)
    for at in itertools.product(*map(range, batch)):
        alone = attend(query[at], key[at], value[at], explicit=explicit)
        assert_close(output[at], alone, 1e-12)


@PATHS
@HALVES
def test_large_scores_stay_finite(dtype, explicit):
    """Entries of 250 give q.k = 64 * 62,500, far above float16's 65,504, unless Q is divided."""
    query = torch.full((1, 64), 32.0, dtype=dtype)
    key = torch.full((3, 64), 250.0, dtype=dtype)
    value = normal(3, 64, dtype=dtype)
    output = attend(query, key, value, explicit=explicit)
    assert_close(output, value.mean(0, keepdim=True), 0.02)


@PATHS
@HALVES
def test_a_masked_key_loses_against_the_lowest_score(dtype, explicit):
    """A finite fill such as -1e4 would win here, and take the weight with it."""
    query, key = torch.tensor([[200.0]], dtype=dtype), torch.tensor([[-200.0], [5.0]], dtype=dtype)
    value = torch.tensor([[3.0], [7.0]], dtype=dtype)
    mask = torch.tensor([[True, False]])
    assert attend(query, key, value, mask, explicit=explicit).item() == 3.0


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
@HALVES
def test_each_fused_kernel_gives_zeros_without_keys(backend, dtype):
    inputs = [normal(2, 3, 33, 8, seed=s, dtype=dtype).requires_grad_() for s in range(3)]
    mask = combine_masks(random_mask(2, 33, 33), padding_mask(torch.tensor([33, 0]), 33))
    with sdpa_kernel(backend):
        output = scaled_dot_product_attention(*inputs, mask)
        output.backward(normal(*output.shape, dtype=dtype))
    assert output.isfinite().all()
    assert not output[1].any()
    for x in inputs:
        assert x.grad.isfinite().all()
        assert not x.grad[1].any()
        assert x.grad[0].any()


@HALVES
def test_no_nan_hides_inside_the_explicit_path(dtype):
    inputs = [normal(3, 5, 8, seed=s, dtype=dtype).requires_grad_() for s in range(3)]
    mask = padding_mask(torch.tensor([5, 0, 1]), 5)
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        weights = attention_weights(*inputs[:2], mask)
        (weights @ inputs[2]).sum().backward()
    assert not weights[1].any()


def test_the_fused_kernel_gives_outputs_and_no_weights(monkeypatch):
    calls = []
    real = F.scaled_dot_product_attention

    def spy(*args, **kwargs):
        calls.append(kwargs)
        return real(*args, **kwargs)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    layer = MultiHeadAttention(6, 2)
    layer.attention_weights(torch.ones(2, 3, 6))
    assert calls == []
    layer(torch.ones(2, 3, 6))
    assert len(calls) == 1


def test_dropout_acts_in_training_only_and_spares_the_weights():
    layer = MultiHeadAttention(6, 2, dropout=0.5)
    x = normal(2, 5, 6, dtype=torch.float32)
    wanted, weights = layer.eval()(x), layer.attention_weights(x)
    assert torch.equal(layer(x), wanted)
    torch.manual_seed(0)
    assert not torch.allclose(layer.train()(x), wanted, atol=1e-3)
    assert torch.equal(layer.attention_weights(x), weights)


def test_dropout_keeps_the_expected_output():
    torch.manual_seed(0)
    query, key, value = normal(20_000, 1, 3), normal(1, 7, 3), torch.ones(20_000, 7, 1).double()
    key = key.expand(20_000, 7, 3)
    output = scaled_dot_product_attention(query, key, value, dropout=0.25)
    assert output.std() > 0.1
    assert output.mean().item() == pytest.approx(1.0, abs=0.02)


@PATHS
@pytest.mark.parametrize("mask", [None, (7, 11), (2, 7, 11), (2, 3, 7, 11)], ids=str)
@pytest.mark.parametrize("bias", [(7, 11), (3, 7, 11), (2, 3, 7, 11)], ids=str)
def test_a_bias_is_added_to_the_scores(bias, mask, explicit):
    query, key, value = normal(2, 3, 7, 5), normal(2, 3, 11, 5), normal(2, 3, 11, 13)
    bias = normal(*bias)
    mask = None if mask is None else random_mask(*mask)
    scores = query @ key.transpose(-2, -1) / math.sqrt(5) + bias
    if mask is not None:
        scores = scores.masked_fill(~(mask.unsqueeze(1) if mask.dim() == 3 else mask), -torch.inf)
    output = attend(query, key, value, mask, bias=bias, explicit=explicit)
    assert_close(output, scores.softmax(-1) @ value, 1e-12)


@PATHS
@HALVES
def test_a_row_without_keys_is_zero_with_a_bias_too(dtype, explicit):
    inputs = [normal(2, 3, 5, 8, seed=s, dtype=dtype).requires_grad_() for s in range(3)]
    mask = padding_mask(torch.tensor([5, 0]), 5)
    bias = normal(3, 5, 5, dtype=torch.float32)
    output = attend(*inputs, mask, bias=bias, explicit=explicit)
    output.sum().backward()
    assert not output[1].any()
    assert output[0].any()
    for x in inputs:
        assert x.grad.isfinite().all()


def test_rotate_acts_on_queries_and_keys_but_not_on_values():
    layer = MultiHeadAttention(6, 2).double()
    x = normal(2, 3, 6)
    plain, seen = layer(x), []

    class Scaled(Positions):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def rotate(self, x, offset=0):
            seen.append((*x.shape, offset))
            return self.factor * x

    layer.positions = Scaled(-1)  # the scores do not change: both change sign
    assert_close(layer(x), plain, 1e-12)
    assert seen == [(2, 2, 3, 3, 0)] * 2
    layer.positions = Scaled(2)
    assert not torch.allclose(layer(x), plain)


def test_self_and_cross_attention_are_one_layer():
    layer = MultiHeadAttention(6, 2).double()
    x, memory = normal(2, 3, 6), normal(2, 5, 6)
    assert torch.equal(layer(x), layer(x, x, x))
    assert torch.equal(layer(x, memory), layer(x, memory, memory))
    assert layer(x, memory).shape == (2, 3, 6)


def test_widths_default_to_those_of_the_paper():
    layer = MultiHeadAttention(12, 3)
    assert [layer.w_q.out_features, layer.w_k.out_features, layer.w_v.out_features] == [12] * 3
    assert (layer.w_o.in_features, layer.w_o.out_features) == (12, 12)
    assert sum(p.numel() for p in layer.parameters()) == 4 * (12 * 12 + 12)
    assert MultiHeadAttention(12, 3, d_key_in=5).w_v.in_features == 5
    without = MultiHeadAttention(12, 3, bias=False)
    assert sum(p.numel() for p in without.parameters()) == 4 * 12 * 12


def test_projections_keep_the_variance_at_the_start():
    torch.manual_seed(0)
    layer = MultiHeadAttention(256, 4)
    x = torch.randn(8, 64, 256)
    for projection in (layer.w_q, layer.w_k, layer.w_v):
        assert projection(x).var().item() == pytest.approx(1.0, abs=0.1)


def test_autocast_runs_both_paths():
    layer = MultiHeadAttention(8, 2)
    x = normal(2, 5, 8, dtype=torch.float32)
    mask = combine_masks(causal_mask(5), padding_mask(torch.tensor([0, 3]), 5))
    wanted = layer(x, mask=mask)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_close(layer(x, mask=mask).float(), wanted, 0.05)
        weights = layer.attention_weights(x, mask=mask)
        assert_close(weights.float().sum(-1)[1], torch.ones(2, 5), 0.05)


@pytest.mark.parametrize(
    ("query", "key", "value", "message"),
    [
        ((2, 3, 5), (2, 7, 4), (2, 7, 4), r"\[2, 5\] but got: \[2, 4\]"),  # torch's own
        ((2, 3, 5), (2, 7, 5), (2, 6, 5), "one value for each key, got query"),
        ((2, 3, 5), (4, 7, 5), (4, 7, 5), "same batch axes"),
        ((1, 3, 5), (2, 7, 5), (2, 7, 5), "same batch axes"),
        ((5,), (7, 5), (7, 5), "at least 2 dimensional, but got query.dim: 1"),  # torch's own
    ],
)
def test_shapes_that_do_not_fit_are_named(query, key, value, message):
    inputs = [torch.zeros(shape) for shape in (query, key, value)]
    with unchecked(), pytest.raises((ValueError, RuntimeError), match=message):
        scaled_dot_product_attention(*inputs)


def test_a_layer_refuses_what_it_cannot_use():
    layer = MultiHeadAttention(6, 2)
    x = torch.zeros(2, 3, 6)
    with unchecked():
        with pytest.raises(
            ValueError, match=r"an input \(batch, time, 6\), got \(3, 6\); add a batch"
        ):
            layer(x[0])
        with pytest.raises(
            ValueError, match=r"an input \(batch, time, 6\), got \(3, 6\); add a batch"
        ):
            layer.attention_weights(x, x[0])
        with pytest.raises(ValueError, match="same batch axes"):
            layer.attention_weights(x, torch.zeros(4, 3, 6))
        with pytest.raises(ValueError, match="one value for each key"):
            layer(x, x, torch.zeros(2, 4, 6))
        with pytest.raises(ValueError, match="same batch axes"):
            layer(x, torch.zeros(4, 3, 6))
    with pytest.raises(ValueError, match="n_heads of 1 or more, got 0"):
        MultiHeadAttention(6, 0)
    with pytest.raises(ValueError, match="d_model of 1 or more, got 0"):
        MultiHeadAttention(0, 2)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["key", "value"])
@pytest.mark.parametrize("hidden_row", [False, True])
def test_what_is_not_finite_spreads_alike_on_both_paths(bad, place, hidden_row):
    """Even where it is masked, and into a row that is masked altogether."""
    query, key, value = normal(2, 3, 7, 5), normal(2, 3, 11, 5), normal(2, 3, 11, 13)
    {"key": key, "value": value}[place][1, 2, 10] = bad
    mask = torch.ones(7, 11, dtype=torch.bool)
    mask[:, 10] = False
    mask[0] = mask[0] & (not hidden_row)
    fused, explicit = (attend(query, key, value, mask, explicit=e) for e in (False, True))
    assert torch.equal(fused.isnan(), explicit.isnan())
    assert fused[1, 2].isnan().any()
    clean = torch.ones(2, 3, dtype=torch.bool)
    clean[1, 2] = False
    assert_close(explicit[clean], fused[clean], 1e-12)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 1.5, float("nan")])
def test_a_dropout_that_is_no_fraction(dropout):
    with pytest.raises(ValueError, match="a dropout of at least 0 and below 1, got"):
        MultiHeadAttention(6, 2, dropout=dropout)


@pytest.mark.parametrize("explicit", [False, True])
def test_types_and_biases_that_do_not_fit(explicit):
    query, key = normal(2, 3, 5), normal(2, 7, 5)
    """torch names both."""
    with unchecked():
        for other in (key.float(), key.long()):
            with pytest.raises(RuntimeError, match=r"same dtype|[Dd]ouble"):
                attend(query, other, key, explicit=explicit)
        for bias in (normal(5, 7), normal(2, 2, 3, 7)):
            with pytest.raises(RuntimeError, match=r"expanded size|must be greater or equal"):
                attend(query, key, key, bias=bias, explicit=explicit)


@pytest.mark.parametrize("name", ["d_k", "d_v", "d_query_in", "d_key_in", "d_out"])
def test_a_size_below_zero_is_torchs_error(name):
    with pytest.raises(RuntimeError, match="negative dimension -"):
        MultiHeadAttention(6, 2, **{name: -1})


def test_a_cache_stores_tensors_of_four_axes():
    with unchecked(), pytest.raises(ValueError, match=r"heads, new, d\), .* got \(2, 3, 5\)"):
        KeyValueCache().append(torch.randn(2, 3, 5), torch.randn(2, 3, 5, 7))


def test_a_cache_that_got_no_position_takes_another_batch():
    cache = KeyValueCache()
    cache.append(torch.randn(3, 2, 0, 5), torch.randn(3, 2, 0, 7))
    key, value = normal(2, 2, 4, 5), normal(2, 2, 4, 7)
    stored = cache.append(key, value)
    assert torch.equal(stored[0], key)
    assert torch.equal(stored[1], value)

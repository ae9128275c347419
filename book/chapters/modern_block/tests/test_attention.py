"""Norms of queries and keys, and three biases, by hand."""

import torch

from chapters.modern_block.attention import ModernAttention
from lib.positions import Rotary
from tests.helpers import assert_close


def test_queries_and_keys_are_normed_head_by_head_and_before_the_rotation():
    torch.manual_seed(0)
    positions = Rotary(10)
    layer = ModernAttention(
        24, 6, n_kv_heads=2, d_k=10, bias=False, qk_norm_eps=0.1, positions=positions
    ).double()
    for norm in (layer.q_norm, layer.k_norm):
        norm.gain.data = torch.rand_like(norm.gain) + 0.5
    x = torch.randn(3, 7, 24, dtype=torch.float64)

    def heads(projection, n):
        return projection(x).unflatten(-1, (n, 10)).transpose(1, 2)

    def normed(x, gain):
        return x / (x.square().mean(-1, keepdim=True) + 0.1).sqrt() * gain

    q = positions.rotate(normed(heads(layer.w_q, 6), layer.q_norm.gain))
    k = positions.rotate(normed(heads(layer.w_k, 2), layer.k_norm.gain))
    weights = (q @ k.repeat_interleave(3, 1).mT / 10**0.5).softmax(-1)
    assert_close(layer.attention_weights(x), weights, 1e-12)
    mixed = weights @ heads(layer.w_v, 2).repeat_interleave(3, 1)
    assert_close(layer(x), layer.w_o(mixed.transpose(1, 2).flatten(2)), 1e-12)


def test_with_gains_of_1_no_score_is_above_the_root_of_d_k():
    torch.manual_seed(0)
    layer = ModernAttention(24, 6, d_k=10, bias=False, qk_norm_eps=0.0).double()
    x = 100 * torch.randn(3, 7, 24, dtype=torch.float64)
    q, k = (layer._split_heads(w, x) for w in (layer.w_q, layer.w_k))
    scores = q @ k.mT / 10**0.5
    assert scores.abs().max() <= 10**0.5
    assert_close(q.square().sum(-1), torch.full(q.shape[:3], 10.0, dtype=torch.float64), 1e-12)


def test_three_of_the_four_projections_have_a_bias():
    for bias, qkv_bias, wanted in (
        (True, False, "qkvo"),
        (True, True, "qkvo"),
        (False, True, "qkv"),
        (False, False, ""),
    ):
        layer = ModernAttention(24, 6, d_k=10, bias=bias, qkv_bias=qkv_bias)
        have = {letter for letter in "qkvo" if getattr(layer, f"w_{letter}").bias is not None}
        assert have == set(wanted)
        assert sum("bias" in name for name in layer.state_dict()) == len(wanted)

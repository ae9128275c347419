"""The checks themselves: they pass the right answer and reject each classic wrong one."""

import math

import pytest
import torch
from torch import nn

from kit.attention_layer.checks import check_hard_lookup, check_kernel_attention
from kit.masking.checks import check_masked_attention
from kit.shared.attention_checks import check_attention, check_equivariance, check_weights
from kit.shared.checks import CheckFailed
from kit.shared.torch_weights import copy_from_torch
from lib.attention import MultiHeadAttention, scaled_dot_product_attention
from tests.helpers import normal, unchecked


def scores(query, key, scale=None):
    return query @ key.transpose(-2, -1) / (scale or math.sqrt(query.shape[-1]))


def softmax_mean(of, value, dim=-1):
    return of.softmax(dim) @ value


WRONG = {
    "empty": (lambda q, k, v: None, "expected a tensor"),
    "no scale": (lambda q, k, v: softmax_mean(scores(q, k, 1), v), "divided by nothing"),
    "d_k": (lambda q, k, v: softmax_mean(scores(q, k, q.shape[-1]), v), "divided by d_k itself"),
    "queries": (
        lambda q, k, v: softmax_mean(scores(q, k, q.shape[-2] ** 0.5), v),
        "root of the number of queries",
    ),
    "keys": (
        lambda q, k, v: softmax_mean(scores(q, k, k.shape[-2] ** 0.5), v),
        "root of the number of keys",
    ),
    "axis": (lambda q, k, v: softmax_mean(scores(q, k), v, -2), "softmax runs over the queries"),
    "no softmax": (lambda q, k, v: scores(q, k) @ v, "a softmax over the keys is missing"),
    "other": (lambda q, k, v: softmax_mean(2 * scores(q, k), v), "off by"),
    "detached": (
        lambda q, k, v: softmax_mean(scores(q.detach(), k), v),
        "gradient of the query is wrong or missing",
    ),
    "no gradient": (lambda q, k, v: softmax_mean(scores(q, k), v).detach(), "no gradient"),
    "mixed batch": (
        lambda q, k, v: softmax_mean(scores(q, k if k.dim() == 2 else k.flip(0)), v),
        "each sequence must be worked on alone",
    ),
    "shape": (lambda q, k, v: softmax_mean(scores(q, k), v).T, "expected an output of shape"),
}


def test_attention_passes():
    assert "gradients reach" in repr(check_attention(scaled_dot_product_attention))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_attention_is_named(name):
    attend, message = WRONG[name]
    with pytest.raises(CheckFailed, match=message):
        check_attention(attend)


def fill(number, after=False):
    def attend(query, key, value, mask):
        products = scores(query, key)
        if after:
            return products.softmax(-1).masked_fill(~mask, number) @ value
        return products.masked_fill(~mask, number).softmax(-1) @ value

    return attend


@pytest.mark.parametrize(
    ("attend", "message"),
    [
        (lambda q, k, v, mask: scaled_dot_product_attention(q, k, v, ~mask), "wrong way round"),
        (fill(0.0, after=True), "before the softmax"),
        (fill(-3.0), "before the softmax"),
        (fill(-torch.inf), "NaN in torch.float32"),
        (fill(-60_000.0), "its output must be 0"),
    ],
)
def test_wrong_masked_attention_is_named(attend, message):
    with pytest.raises(CheckFailed, match=message):
        check_masked_attention(attend)


def test_masked_attention_passes_on_both_paths():
    check_masked_attention(scaled_dot_product_attention)
    check_masked_attention(
        lambda *inputs: scaled_dot_product_attention(*inputs, return_weights=True)[0]
    )


def test_a_finite_fill_is_felt_when_scores_are_low():
    """-1e9 in a float32 row without keys is uniform, not zero."""
    with pytest.raises(CheckFailed, match="its output must be 0"):
        check_masked_attention(
            lambda q, k, v, m: scores(q, k).masked_fill(~m, -1e4).softmax(-1) @ v
        )


def test_weights():
    mask = torch.tensor([[True, False], [False, False]])
    check_weights(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), mask)
    for weights, message in (
        ([[0.5, 0.5], [0.0, 0.0]], "masked key has a weight"),
        ([[0.9, 0.0], [0.0, 0.0]], "first row sums to 0.900"),
        ([[-1.0, 0.0], [0.0, 0.0]], "negative"),
    ):
        with pytest.raises(CheckFailed, match=message):
            check_weights(torch.tensor(weights), mask)


def test_equivariance():
    layer = MultiHeadAttention(6, 2).double()
    x = normal(5, 6)
    check_equivariance(lambda x: layer(x[None])[0], x)
    with pytest.raises(CheckFailed, match="depends on where a vector stands"):
        check_equivariance(lambda x: x * torch.arange(5)[:, None], x)
    with pytest.raises(CheckFailed, match="depends on where"):
        check_equivariance(lambda x: x.cumsum(0), x)


def hard(query, key, value):
    return value[(query @ key.T).argmax(-1)]


@pytest.mark.parametrize(
    "lookup",
    [
        lambda q, k, v: None,
        lambda q, k, v: softmax_mean(scores(q, k, 1e-3), v) * (1 + 1e-6),
        lambda q, k, v: v[(q @ k.T).argmin(-1)],
        lambda q, k, v: v[(q @ k.T).argmax(0)],
        lambda q, k, v: v[torch.cdist(q, k).argmin(-1)],
        lambda q, k, v: scaled_dot_product_attention(q, k, v),
    ],
)
def test_wrong_hard_lookups_are_rejected(lookup):
    assert check_hard_lookup(hard)
    with pytest.raises(CheckFailed):
        check_hard_lookup(lookup)


def distances(query, key):
    return (query[:, None] - key).square().sum(-1)


def kernel(query, key, value, width):
    return (-distances(query, key) / (2 * width**2)).softmax(-1) @ value


def plain_quotient(query, key, value, width):
    weights = torch.exp(-distances(query, key) / (2 * width**2))
    return weights @ value / weights.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("smooth", "message"),
    [
        (lambda *inputs: None, "expected a tensor"),
        (plain_quotient, "0 / 0"),
        (lambda q, k, v, w: kernel(q, k, v, w * 2**-0.5), "the kernel is exp"),
        (lambda q, k, v, w: (-distances(q, k).sqrt() / w).softmax(-1) @ v, "the kernel is exp"),
        (lambda q, k, v, w: (-distances(q, k) / (2 * w**2)).softmax(0) @ v, "the kernel is exp"),
        (lambda q, k, v, w: (-distances(q, k) / (2 * w**2)).exp() @ v, "the kernel is exp"),
    ],
)
def test_wrong_kernels_are_rejected(smooth, message):
    assert check_kernel_attention(kernel)
    with pytest.raises(CheckFailed, match=message):
        check_kernel_attention(smooth)


def test_copy_refuses_what_the_paper_does_not_have():
    with unchecked():
        for extra in ({"add_bias_kv": True}, {"add_zero_attn": True}):
            with pytest.raises(ValueError, match="no bias_kv and no zero attention"):
                copy_from_torch(nn.MultiheadAttention(6, 2, **extra))

"""The checks themselves: they pass the right answer and reject each classic wrong one."""

import math

import pytest
import torch

from chapters.masking.checks import check_masked_attention
from checks.attention import (
    attention_by_loops,
    check_attention,
    check_equivariance,
    check_weights,
)
from checks.framework import CheckFailed, normals
from lib.attention import MultiHeadAttention, attention_weights, scaled_dot_product_attention
from tests.helpers import assert_close, normal


def scores(query, key, scale=None):
    return query @ key.transpose(-2, -1) / (scale or math.sqrt(query.shape[-1]))


def softmax_mean(of, value, dim=-1):
    return of.softmax(dim) @ value


WRONG = {
    "empty": (lambda q, k, v: None, "expected a tensor"),
    "other": (lambda q, k, v: softmax_mean(2 * scores(q, k), v), "off by"),
    "detached": (
        lambda q, k, v: softmax_mean(scores(q.detach(), k), v),
        "gradient of query is wrong or missing",
    ),
    "mixed batch": (
        lambda q, k, v: softmax_mean(scores(q, k if k.dim() == 2 else k.flip(0)), v),
        "each sequence by its own keys and values",
    ),
    "over the batch": (
        lambda q, k, v: softmax_mean(scores(q, k), v, dim=0 if k.dim() == 3 else -1),
        "the softmax runs over the batch",
    ),
    "shape": (lambda q, k, v: softmax_mean(scores(q, k), v).T, "expected an output of shape"),
}


def test_attention_passes():
    assert "gradients reach" in repr(check_attention(scaled_dot_product_attention))


def test_the_loops_work_on_each_sequence_alone():
    query, key, value = normals((2, 3, 5, 7), (2, 3, 4, 7), (2, 3, 4, 11))
    output = attention_by_loops(query, key, value)
    assert_close(output, scaled_dot_product_attention(query, key, value), 1e-10)
    assert_close(output[1, 2], attention_by_loops(query[1, 2], key[1, 2], value[1, 2]), 0)


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
        lambda query, key, value, mask: attention_weights(query, key, mask) @ value
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

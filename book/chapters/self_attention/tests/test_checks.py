"""The checks of chapter 4's answers: faults that no listed answer has."""

import math

import pytest
import torch

from chapters.self_attention.checks import (
    check_equivariance_gap,
    check_reversing_weights,
    check_self_attention,
)
from checks.framework import CheckFailed
from lib.attention import scaled_dot_product_attention


def attend(x, w_q, w_k, w_v):
    return scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda *inputs: None, r"expected a tensor of shape \(4, 4, 4\), got None"),
        (lambda *inputs: attend(*inputs)[0], "expected an output of shape"),
        (lambda *inputs: 1.01 * attend(*inputs), "expected softmax.*off by"),
        (
            lambda x, w_q, w_k, w_v: attend(x, w_q.detach(), w_k, w_v),
            "the gradient of w_q is wrong",
        ),
        (lambda *inputs: attend(*inputs).detach(), "no gradient"),
    ],
)
def test_wrong_self_attention_is_named(answer, message):
    assert "do not mix" in repr(check_self_attention(attend))
    with pytest.raises(CheckFailed, match=message):
        check_self_attention(answer)


def gap(function, x, order):
    return (function(x[order]) - function(x)[order]).abs().max()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda f, x, order: None, "expected a number, got None"),
        (lambda f, x, order: "0", "expected a number, got '0'"),
        (lambda f, x, order: 0.0, "must see x"),
        (lambda f, x, order: torch.nan, "expected 0.0000, the largest entry .*, got nan"),
    ],
)
def test_wrong_gaps_are_rejected(answer, message):
    assert check_equivariance_gap(gap)
    assert check_equivariance_gap(lambda *inputs: gap(*inputs)[None])
    with pytest.raises(CheckFailed, match=message):
        check_equivariance_gap(answer)


def reversing(n_letters, n, factor=20.0):
    pick = torch.eye(n_letters + n)
    letter, position = pick[:, :n_letters], pick[:, n_letters:]
    return factor * math.sqrt(n) * position.flip(1), position, letter


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n_letters, n: None, "expected three matrices w_q, w_k, w_v, got None"),
        (
            lambda n_letters, n: (torch.ones(n),) * 3,
            r"w_v of shape \(11, 5\), got \(6,\), \(6,\), \(6,\)",
        ),
        (lambda n_letters, n: reversing(n_letters, n, -20.0), "a weight above 0.99"),
        (
            lambda n_letters, n: (*reversing(n_letters, n)[:2], -reversing(n_letters, n)[2]),
            "the value of a position must be its letter",
        ),
    ],
)
def test_wrong_reversals_are_rejected(answer, message):
    assert check_reversing_weights(reversing)
    with pytest.raises(CheckFailed, match=message):
        check_reversing_weights(answer)

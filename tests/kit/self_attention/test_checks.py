"""The checks of chapter 4's answers: they pass what is right and name the classic mistakes."""

import math

import pytest
import torch

from kit.self_attention.checks import (
    check_equivariance_gap,
    check_reversing_weights,
    check_self_attention,
)
from kit.shared.checks import CheckFailed
from lib.attention import scaled_dot_product_attention


def attend(x, w_q, w_k, w_v):
    return scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)


def formula(scale, dim=-1):
    def wrong(x, w_q, w_k, w_v):
        scores = (x @ w_q) @ (x @ w_k).mT / math.sqrt(scale(x, w_q, w_v))
        return scores.softmax(dim) @ (x @ w_v)

    return wrong


def reversed_axes(x, w_q, w_k, w_v):
    return ((x @ w_q) @ (x @ w_k).permute(2, 1, 0)).softmax(-1) @ (x @ w_v)


WRONG = {
    "empty": (lambda *inputs: None, "expected a tensor"),
    "shape": (lambda *inputs: attend(*inputs)[0], "expected an output of shape"),
    "K.T": (reversed_axes, ".T reverses all three axes"),
    "no scale": (formula(lambda x, w_q, w_v: 1), "divided by nothing"),
    "d_k": (formula(lambda x, w_q, w_v: w_q.shape[1] ** 2), "divided by d_k itself"),
    "d_x": (formula(lambda x, w_q, w_v: x.shape[-1]), "the root of d_x"),
    "d_v": (formula(lambda x, w_q, w_v: w_v.shape[1]), "the root of d_v"),
    "length": (formula(lambda x, w_q, w_v: x.shape[1]), "the root of the length"),
    "axis": (formula(lambda x, w_q, w_v: w_q.shape[1], -2), "softmax runs over the queries"),
    "swapped": (lambda x, w_q, w_k, w_v: attend(x, w_k, w_q, w_v), "queries and keys are swapped"),
    "no softmax": (
        lambda x, w_q, w_k, w_v: (x @ w_q) @ (x @ w_k).mT / math.sqrt(w_q.shape[1]) @ (x @ w_v),
        "a softmax over the keys is missing",
    ),
    "other": (lambda x, w_q, w_k, w_v: 1.01 * attend(x, w_q, w_k, w_v), "expected softmax"),
    "frozen": (
        lambda x, w_q, w_k, w_v: attend(x, w_q.detach(), w_k, w_v),
        "the gradient of w_q is wrong or missing",
    ),
    "cut off": (lambda *inputs: attend(*inputs).detach(), "no gradient"),
}


def test_self_attention_passes():
    assert "do not mix" in repr(check_self_attention(attend))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_self_attention_is_named(name):
    answer, message = WRONG[name]
    with pytest.raises(CheckFailed, match=message):
        check_self_attention(answer)


def gap(function, x, order):
    return (function(x[order]) - function(x)[order]).abs().max()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda f, x, order: None, "expected a number"),
        (lambda f, x, order: bool(gap(f, x, order) < 1e-9), "expected a number"),
        (lambda f, x, order: (f(x[order]) - f(x)).abs().max(), "ask for invariance"),
        (lambda f, x, order: (f(x[order]) - f(x)[order.argsort()]).abs().max(), "same order"),
        (lambda f, x, order: 0.0, "must see x"),
        (lambda f, x, order: (f(x[order]) - f(x)[order]).abs().sum(), "the largest entry"),
        (lambda f, x, order: (f(x[order]) - f(x)[order]).max(), "too low or too high alike"),
    ],
)
def test_wrong_gaps_are_rejected(answer, message):
    assert check_equivariance_gap(gap)
    assert check_equivariance_gap(lambda *inputs: gap(*inputs).item())
    with pytest.raises(CheckFailed, match=message):
        check_equivariance_gap(answer)


def reversing(n_letters, n, factor=20.0):
    pick = torch.eye(n_letters + n)
    letter, position = pick[:, :n_letters], pick[:, n_letters:]
    return factor * math.sqrt(n) * position.flip(1), position, letter


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n_letters, n: None, "expected three matrices"),
        (lambda n_letters, n: (torch.eye(n),) * 3, "expected matrices of 11 rows"),
        (lambda n_letters, n: reversing(n_letters, n, 1.0), "a weight near 1"),
        (lambda n_letters, n: reversing(n_letters, n, -20.0), "a weight near 1"),
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

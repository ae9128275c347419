"""The checks of norms and residuals: they pass what is right and name each classic mistake."""

import runpy

import pytest
import torch
from torch.nn import functional as F

from kit.feed_forward_norm.checks import (
    check_layer_norm,
    check_layer_norm_backward,
    check_pre_norm,
    check_rms_norm,
)
from kit.shared.checks import CheckFailed
from lib.layers import layer_norm
from tests.paths import ROOT

WRONG = runpy.run_path(
    str(ROOT / "tests" / "notebooks" / "wrong_answers" / "07_feed_forward_norm.py")
)["WRONG"]


def spread(x, axes=-1, correction=0):
    return x.var(axes, correction=correction, keepdim=True)


def centred(x, axes=-1):
    return x - x.mean(axes, keepdim=True)


def backward(gradient, x, eps):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(F.layer_norm(x, x.shape[-1:], eps=eps), x, gradient)[0]


def test_right_answers_pass():
    assert len(check_layer_norm(layer_norm).held) == 4
    assert check_layer_norm(lambda x, gain, bias, eps: F.layer_norm(x, gain.shape, gain, bias, eps))
    assert check_rms_norm(lambda x, gain, eps: F.rms_norm(x, gain.shape, gain, eps))
    assert check_pre_norm(lambda x, sublayer, norm, drop: x + drop(sublayer(norm(x))))
    assert check_layer_norm_backward(backward)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x, g, b, e: None, "expected a tensor, got None"),
        (lambda x, g, b, e: x.mean(-1), r"got \(2, 3\)"),
        (lambda x, g, b, e: centred(x) / (spread(x, correction=1) + e).sqrt() * g + b, "- 1"),
        (lambda x, g, b, e: centred(x, 1) / (spread(x, 1) + e).sqrt() * g + b, "last axis"),
        (lambda x, g, b, e: centred(x, 0) / (spread(x, 0) + e).sqrt() * g + b, "last axis"),
        (lambda x, g, b, e: F.layer_norm(x, x.shape[1:], eps=e) * g + b, "last axis"),
        (lambda x, g, b, e: centred(x) / (spread(x).sqrt() + e) * g + b, "under the root"),
        (lambda x, g, b, e: centred(x) / spread(x).sqrt() * g + b, "under the root"),
        (lambda x, g, b, e: centred(x) / (spread(x) + e) * g + b, "mean square: expected 1"),
        (lambda x, g, b, e: x / (spread(x) + e).sqrt() * g + b, "mean of a position"),
        (lambda x, g, b, e: layer_norm(x, g, b, 1e-5).detach(), "under the root"),
        (lambda x, g, b, e: layer_norm(x, g, b, e).detach(), "cut off"),
        (lambda x, g, b, e: layer_norm(x, torch.ones(5), b, e), "come last"),
        (lambda x, g, b, e: layer_norm(x, g, 0 * b, e), "come last"),
        (lambda x, g, b, e: centred(x) / spread(x).clamp(min=e).sqrt() * g + b, "under the root"),
    ],
)
def test_mistakes_in_layer_norm_are_named(wrong, message):
    with pytest.raises(CheckFailed, match=message):
        check_layer_norm(wrong)


def test_no_eps_is_caught_even_if_it_is_added_where_it_is_large():
    def wrong(x, gain, bias, eps):
        return centred(x) / (spread(x) + (eps if eps > 0.1 else 0.0)).sqrt() * gain + bias

    with pytest.raises(CheckFailed, match="equal entries"):
        check_layer_norm(wrong)


CHECKS = {
    "rms_norm": check_rms_norm,
    "pre_norm": check_pre_norm,
    "layer_norm_backward": check_layer_norm_backward,
}


@pytest.mark.parametrize(
    ("name", "number"), [(name, i) for name, answers in WRONG.items() for i in range(len(answers))]
)
def test_wrong_answers_fail(name, number):
    with pytest.raises(CheckFailed):
        CHECKS[name](WRONG[name][number])

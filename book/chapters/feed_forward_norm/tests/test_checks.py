"""The check of layer norm. What those of exercises say stands in answers.py."""

import pytest
import torch
from torch.nn import functional as F

from chapters.feed_forward_norm.checks import check_layer_norm
from checks.framework import CheckFailed
from lib.layers import layer_norm


def spread(x, axes=-1, correction=0):
    return x.var(axes, correction=correction, keepdim=True)


def centred(x, axes=-1):
    return x - x.mean(axes, keepdim=True)


def test_right_answers_pass():
    assert len(check_layer_norm(layer_norm).held) == 4
    assert check_layer_norm(lambda x, gain, bias, eps: F.layer_norm(x, gain.shape, gain, bias, eps))


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
        (lambda x, g, b, e: centred(x) / (spread(x) + e) * g + b, "the root is missing"),
        (lambda x, g, b, e: x / (spread(x) + e).sqrt() * g + b, "must be subtracted"),
        (lambda x, g, b, e: layer_norm(x, g, b, 1e-5).detach(), "under the root"),
        (lambda x, g, b, e: layer_norm(x, g, b, e).detach(), "detached from the inputs"),
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

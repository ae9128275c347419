"""The checks: what no listed answer does."""

import pytest
import torch

from chapters.modern_block.checks import check_grouped_attention, check_rms_norm, check_window
from checks.framework import CheckFailed
from lib.attention import scaled_dot_product_attention
from lib.masks import causal_mask


def rms(x, gain, eps=1e-5):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gain


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x, gain: None, "expected a tensor"),
        (lambda x, gain: rms(x, gain)[:-1], "expected an output of shape"),
        (lambda x, gain: rms(x, gain).detach(), "no gradient"),
        (lambda x, gain: rms(x, gain, 1e-2), "expected x / sqrt"),
        (lambda x, gain: rms(x, gain, 1e-5 if x.any() else 0), "0 / 0"),
    ],
)
def test_wrong_norms_are_rejected(answer, message):
    assert len(check_rms_norm(rms).held) == 2
    with pytest.raises(CheckFailed, match=message):
        check_rms_norm(answer)


def attend(query, key, value):
    group = len(query) // len(key)
    key, value = (x.repeat_interleave(group, dim=0) for x in (key, value))
    return scaled_dot_product_attention(query, key, value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda q, k, v: attend(q, k, v).flip(0), "expected head i to attend"),
        (lambda q, k, v: attend(q, k.detach(), v), "gradient of key"),
        (lambda q, k, v: attend(q, k, v).sum(0), "expected an output of shape"),
    ],
)
def test_wrong_groups_are_rejected(answer, message):
    assert len(check_grouped_attention(attend).held) == 1
    with pytest.raises(CheckFailed, match=message):
        check_grouped_attention(answer)


def test_wrong_windows_are_rejected():
    assert len(check_window(lambda time, window: causal_mask(time, window=window)).held) == 1
    with pytest.raises(CheckFailed, match="expected mask"):
        check_window(lambda time, window: torch.zeros(time, time, dtype=torch.bool))
    with pytest.raises(CheckFailed, match="expected True and False"):
        check_window(lambda time, window: causal_mask(time, window=window).float())

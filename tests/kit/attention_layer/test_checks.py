"""The checks of the layer's relatives: right answers pass, classic wrong ones are rejected."""

import pytest
import torch

from kit.attention_layer.checks import check_hard_lookup, check_kernel_attention
from kit.shared.checks import CheckFailed
from lib.attention import scaled_dot_product_attention


def hard(query, key, value):
    return value[(query @ key.T).argmax(-1)]


@pytest.mark.parametrize(
    ("lookup", "message"),
    [
        (lambda q, k, v: None, "expected a tensor"),
        (lambda q, k, v: (1e3 * q @ k.T).softmax(-1) @ v * (1 + 1e-6), "untouched"),
        (lambda q, k, v: v[(q @ k.T).argmin(-1)], "scores highest with key"),
        (lambda q, k, v: v[(q @ k.T).argmax(0)], "expected an output of shape"),
        (lambda q, k, v: v[torch.cdist(q, k).argmin(-1)], "scores highest with key"),
        (lambda q, k, v: scaled_dot_product_attention(q, k, v), "untouched"),
    ],
)
def test_wrong_hard_lookups_are_rejected(lookup, message):
    assert len(check_hard_lookup(hard).held) == 1
    with pytest.raises(CheckFailed, match=message):
        check_hard_lookup(lookup)


def distances(query, key):
    return (query[:, None] - key).square().sum(-1)


def kernel(query, key, value, width):
    return (-distances(query, key) / (2 * width**2)).softmax(-1) @ value


def plain_quotient(query, key, value, width):
    weights = torch.exp(-distances(query, key) / (2 * width**2))
    return weights @ value / weights.sum(-1, keepdim=True)


def mean_far_away(query, key, value, width):
    """Finite where every kernel underflows, but not the nearest value."""
    output = plain_quotient(query, key, value, width)
    return torch.where(output.isfinite(), output, value.mean(0))


@pytest.mark.parametrize(
    ("smooth", "message"),
    [
        (lambda *inputs: None, "expected a tensor"),
        (plain_quotient, "0 / 0"),
        (mean_far_away, "far from every key the nearest one must take all the weight"),
        (lambda q, k, v, w: kernel(q, k, v, w * 2**-0.5), "the kernel is exp"),
        (lambda q, k, v, w: (-distances(q, k).sqrt() / w).softmax(-1) @ v, "the kernel is exp"),
        (lambda q, k, v, w: (-distances(q, k) / (2 * w**2)).softmax(0) @ v, "the kernel is exp"),
        (lambda q, k, v, w: (-distances(q, k) / (2 * w**2)).exp() @ v, "the kernel is exp"),
    ],
)
def test_wrong_kernels_are_rejected(smooth, message):
    assert len(check_kernel_attention(kernel).held) == 2
    with pytest.raises(CheckFailed, match=message):
        check_kernel_attention(smooth)

"""The checks of the layer's relatives: faults that no listed answer has."""

import pytest
import torch

from chapters.attention_layer.checks import check_hard_lookup, check_kernel_attention
from checks.framework import CheckFailed
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


def kernel(query, key, value, width):
    squares = (query[:, None] - key).square().sum(-1)
    return (-squares / (2 * width**2)).softmax(-1) @ value


def mean_far_away(query, key, value, width):
    """Where every weight is all but equal to another's, the mean and not the nearest."""
    far = (query[:, None] - key).norm(dim=-1).min() > 1000
    return value.mean(0).expand(len(query), -1) if far else kernel(query, key, value, width)


@pytest.mark.parametrize(
    ("smooth", "message"),
    [
        (lambda *inputs: None, "expected a tensor"),
        (mean_far_away, "far from every key the nearest one must take all the weight"),
        (
            lambda q, k, v, w: kernel(q, k, v, 1.01 * w),
            "weights sum to 1, but the kernel is not exp",
        ),
        (
            lambda q, k, v, w: 0.99 * kernel(q, k, v, w),
            r"the weights of query \d sum to 0.99, not to 1",
        ),
    ],
)
def test_wrong_kernels_are_rejected(smooth, message):
    assert len(check_kernel_attention(kernel).held) == 2
    with pytest.raises(CheckFailed, match=message):
        check_kernel_attention(smooth)

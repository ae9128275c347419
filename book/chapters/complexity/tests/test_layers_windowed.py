"""Windowed attention is attention under a window mask, at another price."""

import pytest
import torch

from chapters.complexity.layers import windowed_attention
from lib.attention import scaled_dot_product_attention
from lib.masks import causal_mask, combine_masks, padding_mask, window_mask
from measure.observed import peak_bytes
from tests.helpers import unchecked

D_K, D_V = 5, 7


def inputs(*shape: int, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(*shape, d, dtype=torch.float64, generator=generator, requires_grad=True)
        for d in (D_K, D_K, D_V)
    ]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("radius", [0, 1, 5, 32, 40, 200])
@pytest.mark.parametrize("shape", [(1,), (7,), (33,), (64,), (3, 65), (2, 3, 101)])
def test_equals_the_masked_full_matrix(shape, radius, causal):
    tensors = inputs(*shape)
    mask = window_mask(shape[-1], radius)
    if causal:
        mask = combine_masks(mask, causal_mask(shape[-1]))
    expected = scaled_dot_product_attention(*tensors, mask)
    got = windowed_attention(*tensors, radius, causal=causal)
    assert got.shape == expected.shape
    assert torch.allclose(got, expected, rtol=0, atol=1e-10)
    direction = torch.randn_like(expected)
    for a, b in zip(
        torch.autograd.grad(got, tensors, direction),
        torch.autograd.grad(expected, tensors, direction),
        strict=True,
    ):
        assert torch.allclose(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("radius", [1, 13])
def test_padding_is_left_out(radius):
    query, key, value = inputs(3, 41)
    real = padding_mask(torch.tensor([41, 17, 0]), 41)
    expected = scaled_dot_product_attention(
        query, key, value, combine_masks(real, window_mask(41, radius))
    )
    got = windowed_attention(query, key, value, radius, key_mask=real[:, 0])
    assert torch.allclose(got, expected, rtol=0, atol=1e-10)
    assert (got[2] == 0).all(), "no key at all: zeros"


def test_changing_what_lies_outside_the_window_changes_nothing():
    query, key, value = inputs(97)
    before = windowed_attention(query, key, value, 11)
    with torch.no_grad():
        key[60:] += 1000
        value[60:] += 1000
    after = windowed_attention(query, key, value, 11)
    assert torch.equal(before[:49], after[:49])
    assert not torch.equal(before[49], after[49])


def test_no_full_matrix_is_made():
    n, radius, float64 = 4096, 32, 8
    tensors = [x.detach() for x in inputs(1, 1, n)]
    windowed = peak_bytes(lambda *x: windowed_attention(*x, radius), *tensors)
    assert windowed < n * n * float64 / 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v: (q, k, v, -1), "radius of 0 or more, got -1"),
        (lambda q, k, v: (q, k[:, :-1], v[:, :-1], 2), "same positions"),
    ],
)
def test_wrong_input_is_explained(change, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        windowed_attention(*change(*inputs(2, 9)))


@pytest.mark.parametrize(
    "mask", [torch.ones(1, 9, dtype=torch.bool), torch.ones(2, 9)], ids=["shape", "dtype"]
)
def test_wrong_mask_is_explained(mask):
    query, key, value = inputs(2, 9)
    with unchecked(), pytest.raises(ValueError, match=r"boolean key_mask of shape \(2, 9\)"):
        windowed_attention(query, key, value, 1, key_mask=mask)

"""What other conventions call the same mask."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chapters.masking.conversions import additive_mask, multihead_mask, sdpa_mask
from lib.masks import fit_mask
from tests.helpers import assert_close, normal, random_mask, unchecked

X, o = True, False


@pytest.mark.parametrize("shape", [(5, 7), (3, 5, 7), (3, 1, 7), (3, 2, 5, 7)])
def test_conversions_mean_the_same_to_torch(shape):
    """F.scaled_dot_product_attention with a boolean or an additive mask, and nn's own layer."""
    mask = random_mask(*shape)
    query, key, value = normal(3, 2, 5, 4), normal(3, 2, 7, 4), normal(3, 2, 7, 4)
    wanted = F.scaled_dot_product_attention(query, key, value, attn_mask=sdpa_mask(mask))
    added = additive_mask(sdpa_mask(mask), torch.float64)
    assert added.dtype == torch.float64
    got = F.scaled_dot_product_attention(query, key, value, attn_mask=added)
    assert_close(got, wanted, 1e-12)

    layer = nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    x, memory = normal(3, 5, 8), normal(3, 7, 8)
    full = multihead_mask(mask, (3, 2, 5, 7))
    assert full.shape == (6, 5, 7)
    _, weights = layer(x, memory, memory, attn_mask=full, average_attn_weights=False)
    assert torch.equal(weights == 0, ~fit_mask(mask, (3, 2, 5, 7)).expand(3, 2, 5, 7))


def test_additive_is_zero_or_minus_infinity():
    assert additive_mask(torch.tensor([[X, o]])).tolist() == [[0.0, -torch.inf]]
    assert additive_mask(torch.tensor([[X, o]]), torch.float16).dtype == torch.float16


def test_a_converted_mask_stays_on_its_device():
    mask = torch.ones(3, 5, dtype=torch.bool, device="meta")
    assert additive_mask(mask).device.type == "meta"


def test_masks_that_are_not_boolean_are_refused():
    numbers = torch.ones(3, 3)
    for convert in (sdpa_mask, additive_mask):
        with unchecked(), pytest.raises(ValueError, match="expected a boolean mask"):
            convert(numbers)

"""Slowed rotations, by hand; `test_llama_reference` holds them against transformers."""

import pytest
import torch

from chapters.modern_block.rotation import ScaledRotary, Scaling
from lib.positions import Rotary
from tests.helpers import assert_close


@pytest.mark.parametrize(
    ("scaling", "wanted"),
    [
        (Scaling(4.0), [0.25, 0.025, 0.0025]),
        # Turns in 100 positions: 15.9 and 1.59 and 0.159; between 1 and 4, 1.59 keeps 0.197 of w.
        (Scaling(4.0, 1.0, 4.0, 100), [1.0, 0.1 * (0.19718 + 0.80282 / 4), 0.0025]),
    ],
)
def test_slowed_rotations_by_hand(scaling, wanted):
    rotary = ScaledRotary(6, scaling, base=1e3, max_length=4).double()  # w = 1, 0.1, 0.01
    assert_close(turned_by(rotary), torch.tensor(wanted, dtype=torch.float64), 1e-5)
    assert_close(ScaledRotary(6, Scaling(1.0), base=1e3).table, Rotary(6, base=1e3).table, 1e-7)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((0.0,), "a factor above 0, got 0.0"),
        ((2.0, 1.0), "low below high and a length, .* got 1.0, None and None"),
        ((2.0, None, 4.0, 31), ".* or none of them, got None, 4.0 and 31"),
        ((2.0, 4.0, 4.0, 31), "low below high .* got 4.0, 4.0 and 31"),
        ((2.0, 1.0, 4.0, 0), ".* all above 0, .* got 1.0, 4.0 and 0"),
    ],
)
def test_a_rule_that_is_none_is_refused(numbers, message):
    with pytest.raises(ValueError, match=f"expected {message}"):
        Scaling(*numbers)


def turned_by(rotary):
    """By how much it turns each pair in one position."""
    x = rotary.rotate(torch.tensor([[1.0, 0.0] * 3] * 2, dtype=torch.float64))[1]
    return torch.atan2(x[1::2], x[::2])

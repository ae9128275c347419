"""The checks of positions: what they show, and modules that are none of the listed answers.

What they say of answers stands in answers.py.
"""

import pytest
from torch import nn

from chapters.positions.checks import (
    check_alibi_bias,
    check_fixed_positions,
    check_rotary_attention,
)
from checks.framework import CheckFailed
from lib.attention import scaled_dot_product_attention
from lib.positions import ALiBi, Rotary, Sinusoidal


class Right(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.positions = Sinusoidal(d_model, max_length=max_length)

    def forward(self, x):
        return self.positions.add(x)


def turned_attention(query, key, value):
    turn = Rotary(query.shape[-1]).to(query.dtype).rotate
    return scaled_dot_product_attention(turn(query), turn(key), value)


def test_what_is_shown():
    assert len(check_fixed_positions(Right).held) == 3
    assert "values untouched" in repr(check_rotary_attention(turned_attention))
    assert "slope" in repr(
        check_alibi_bias(lambda n_heads, n: ALiBi(n_heads, paper_formula=True).bias(n, n))
    )


def test_a_module_that_adds_nothing_is_shown_what_it_adds():
    with pytest.raises(CheckFailed, match=r"PE\(0\) = .*, got \[0.0, 0.0,"):
        check_fixed_positions(lambda d_model, n: nn.Identity())


def test_empty_answers_are_refused():
    for check in (check_rotary_attention, check_alibi_bias):
        with pytest.raises(CheckFailed, match="expected a tensor"):
            check(lambda *inputs: None)
    with pytest.raises(CheckFailed, match="expected a module, got 3"):
        check_fixed_positions(lambda d_model, n: 3)

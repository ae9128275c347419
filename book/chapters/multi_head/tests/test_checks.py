"""The reference of the checks of several heads, and what an empty answer is told."""

import pytest
import torch

from chapters.multi_head.checks import (
    check_contributions,
    check_keep_heads,
    check_merge_heads,
    check_multi_head,
    contributions_by_loops,
    multi_head_by_loops,
)
from checks.framework import CheckFailed
from lib.attention import MultiHeadAttention
from tests.helpers import assert_close, normal


def test_the_loops_add_up_to_the_layer():
    layer = MultiHeadAttention(12, 3, d_k=11, d_v=5, d_query_in=7, d_key_in=7, d_out=13).double()
    torch.nn.init.normal_(layer.w_o.bias)
    x = normal(2, 5, 7)
    with torch.no_grad():
        parts = contributions_by_loops(layer, x)
        assert parts.shape == (2, 3, 5, 13)
        assert_close(parts.sum(1) + layer.w_o.bias, layer(x), 1e-10)


def test_the_loops_are_the_layer_of_the_library():
    layer = MultiHeadAttention(12, 3, d_k=5, d_v=2, d_query_in=7, d_key_in=7, d_out=13, bias=False)
    x = normal(2, 5, 7)
    with torch.no_grad():
        matrices = (w.weight.T for w in (layer.w_q, layer.w_k, layer.w_v, layer.w_o))
        assert_close(multi_head_by_loops(x.float(), *matrices, 3), layer(x.float()), 1e-5)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (check_multi_head, r"expected a tensor of shape \(2, 5, 12\), got None"),
        (check_merge_heads, r"expected a tensor of shape \(2, 5, 21\), got None"),
        (check_contributions, r"expected a tensor of shape \(2, 3, 5, 13\), got None"),
        (check_keep_heads, "expected a MultiHeadAttention, got None$"),
    ],
)
def test_an_empty_answer_is_named(check, message):
    with pytest.raises(CheckFailed, match=message):
        check(lambda *inputs: None)

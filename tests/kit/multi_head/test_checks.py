"""The checks of several heads accept what is right, and name the mistakes they know."""

import runpy

import pytest
import torch

from kit.multi_head.checks import (
    check_contributions,
    check_keep_heads,
    check_merge_heads,
    contributions_by_loops,
)
from kit.shared.checks import CheckFailed
from lib.attention import MultiHeadAttention
from tests.helpers import assert_close, normal
from tests.paths import ROOT

ANSWERS = runpy.run_path(str(ROOT / "tests" / "notebooks" / "wrong_answers" / "05_multi_head.py"))


def test_the_loops_add_up_to_the_layer():
    layer = MultiHeadAttention(12, 3, d_k=11, d_v=5, d_query_in=7, d_key_in=7, d_out=13).double()
    torch.nn.init.normal_(layer.w_o.bias)
    x = normal(2, 5, 7)
    with torch.no_grad():
        parts = contributions_by_loops(layer, x)
        assert parts.shape == (2, 3, 5, 13)
        assert_close(parts.sum(1) + layer.w_o.bias, layer(x), 1e-10)


def test_the_right_answers_pass():
    assert len(check_merge_heads(lambda heads: heads.transpose(1, 2).flatten(2)).held) == 2
    assert len(check_contributions(contributions_by_loops).held) == 2
    assert len(check_keep_heads(ANSWERS["pruned"]).held) == 2


@pytest.mark.parametrize(
    ("check", "name", "number", "message"),
    [
        (check_merge_heads, "merge_heads", 0, "expected an output of shape"),
        (check_merge_heads, "merge_heads", 1, "the positions are mixed"),
        (check_merge_heads, "merge_heads", 2, "interleaved"),
        (check_merge_heads, "merge_heads", 3, "block 0 is not what head 0 found"),
        (check_contributions, "contributions", 1, "counts three times"),
        (check_contributions, "contributions", 2, "must add up"),
        (check_contributions, "contributions", 3, "must add up"),
        (check_contributions, "contributions", 4, "which rows of W"),
        (check_keep_heads, "keep_heads", 0, "the old layer was changed"),
        (check_keep_heads, "keep_heads", 1, "a head keeps its width"),
        (check_keep_heads, "keep_heads", 2, "keeps the first"),
        (check_keep_heads, "keep_heads", 3, "copy the biases"),
    ],
)
def test_a_known_mistake_is_named(check, name, number, message):
    with pytest.raises(CheckFailed, match=message):
        check(ANSWERS["WRONG"][name][number])

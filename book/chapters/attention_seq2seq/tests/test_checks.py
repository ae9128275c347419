"""The checks of attention over encoder states: faults that no listed answer has."""

import pytest
import torch

from chapters.attention_seq2seq.checks import check_bilinear_attention, check_masked_weights
from checks.framework import CheckFailed


def weigh(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def attend(query, keys, W):
    weights = torch.einsum("bq,qd,bkd->bk", query, W, keys).softmax(-1)
    return torch.einsum("bk,bkd->bd", weights, keys), weights


@pytest.mark.parametrize(
    ("check", "right", "wrong", "message"),
    [
        (check_masked_weights, weigh, lambda s, m: None, "expected a tensor"),
        (check_masked_weights, weigh, lambda s, m: weigh(s, m) * 2, "sum to 1"),
        (check_masked_weights, weigh, lambda s, m: weigh(-s, m), "its allowed scores"),
        (check_masked_weights, weigh, lambda s, m: weigh(s, m) / 0, "not finite"),
        (check_masked_weights, weigh, lambda s, m: m, "expected floating-point numbers"),
        (check_bilinear_attention, attend, lambda *_: None, "expected two tensors"),
        (
            check_bilinear_attention,
            attend,
            lambda q, k, W: (attend(q, k, W)[0] + 1e-3, attend(q, k, W)[1]),
            "the context is not",
        ),
    ],
)
def test_a_fault_is_named(check, right, wrong, message):
    assert len(check(right).held) == 3
    with pytest.raises(CheckFailed, match=message):
        check(wrong)

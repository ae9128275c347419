"""The checks of chapter 2 accept what is right, and name the mistake in what is wrong."""

import pytest
import torch

from kit.attention_seq2seq.checks import check_bilinear_attention, check_masked_weights
from kit.shared.checks import CheckFailed


def masked_weights(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1)


def bilinear_attention(query, keys, W):
    weights = torch.einsum("bq,qd,bkd->bk", query, W, keys).softmax(-1)
    return torch.einsum("bk,bkd->bd", weights, keys), weights


def test_right_answers_pass():
    assert len(check_masked_weights(masked_weights).held) == 3
    assert len(check_bilinear_attention(bilinear_attention).held) == 3


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda s, m: None, "expected a tensor"),
        (lambda s, m: s.softmax(-1), "the mask was not used"),
        (lambda s, m: s.softmax(-1) * m, "masked after the softmax"),
        (lambda s, m: s.masked_fill(~m, 0.0).softmax(-1), "padding gets weight"),
        (lambda s, m: masked_weights(s, m) * 2, "sum to 1"),
        (lambda s, m: s.masked_fill(~m, -torch.inf).softmax(0), "runs over the last axis"),
        (lambda s, m: masked_weights(-s, m), "the softmax of its allowed scores"),
        (lambda s, m: masked_weights(s, m).log(), "not finite"),
        (lambda s, m: s.masked_fill_(~m, -torch.inf).softmax(-1), "argument 1 was changed"),
    ],
)
def test_masked_weights_names_the_mistake(answer, message):
    with pytest.raises(CheckFailed, match=message):
        check_masked_weights(answer)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda q, k, W: None, "expected two tensors"),
        (lambda q, k, W: (k[:, 0], torch.einsum("bq,qd,bkd->bk", q, W, k)), "before the softmax"),
        (lambda q, k, W: (k[:, 0], k.sum(-1).softmax(-1)), "the weights are wrong"),
        (lambda q, k, W: (k.mean(1), bilinear_attention(q, k, W)[1]), "the context is not"),
    ],
)
def test_bilinear_attention_names_the_mistake(answer, message):
    with pytest.raises(CheckFailed, match=message):
        check_bilinear_attention(answer)

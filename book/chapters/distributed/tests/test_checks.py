"""The checks of the exercises: faults that no listed answer has, and what they count."""

import pytest
import torch

from chapters.distributed.checks import (
    Ring,
    attend,
    check_mean_over_tokens,
    check_ring,
    check_split,
    check_split_by_heads,
)
from checks.framework import CheckFailed
from lib.attention import MultiHeadAttention
from tests.helpers import normal


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda gradients, tokens: None, "expected a tensor"),
        (lambda gradients, tokens: gradients[0] * 3, "it is not sum of tokens"),
        (
            lambda gradients, tokens: (
                sum(max(t, 1) * g for g, t in zip(gradients, tokens, strict=True))
                / sum(max(t, 1) for t in tokens)
            ),
            "a rank without a token changes the mean",
        ),
    ],
)
def test_wrong_means_are_rejected(answer, message):
    with pytest.raises(CheckFailed, match=message):
        check_mean_over_tokens(answer)


def test_rows_that_change_are_rejected():
    with pytest.raises(CheckFailed, match="the rows themselves have changed"):
        check_split(lambda rows, rank, ranks: rows[rank::ranks] + torch.tensor([0, 1]))


def test_a_ring_that_sends_to_itself_is_rejected():
    with pytest.raises(CheckFailed, match="rank 0 of 3 sends to rank 0"):
        check_ring(lambda x, send: [send(0, 0, one) for one in x])


def test_the_ring_counts_what_each_rank_sends():
    wire = Ring(3)
    arrived = wire.send(2, 0, torch.tensor([5.0, 7.0]))
    wire.send(2, 0, torch.ones(3))
    assert arrived.tolist() == [5, 7]
    assert wire.sent == [0, 0, 5]


def test_attention_of_the_check_is_that_of_the_library():
    layer = MultiHeadAttention(11, 2, d_k=3, d_v=5, bias=False).double()
    x = normal(7, 11)
    weights = [one.weight for one in (layer.w_q, layer.w_k, layer.w_v, layer.w_o)]
    torch.testing.assert_close(attend(x, *weights, heads=2), layer(x[None])[0])


def test_a_cut_with_a_scale_is_rejected():
    def twice(*given):
        *weights, rank, ranks = given
        parts = [w.chunk(ranks)[rank] for w in weights[:3]]
        return *parts, ranks * weights[3].chunk(ranks, dim=1)[rank]

    with pytest.raises(CheckFailed, match="the sum is too large"):
        check_split_by_heads(twice)

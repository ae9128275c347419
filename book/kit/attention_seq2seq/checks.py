"""Properties of the attention over encoder states: for the exercises of chapter 2."""

from collections.abc import Callable

import torch
from torch import Tensor

from kit.shared.checks import (
    Steps,
    check,
    close,
    expect_pair,
    expect_tensor,
    normals,
    require_close,
)

LENGTHS = (5, 1, 3)  # real keys in each row of a batch; 5 is the longest


@check("masked weights")
def check_masked_weights(weigh: Callable[[Tensor, Tensor], Tensor]) -> Steps:
    """Check weigh(scores, mask), the softmax over those keys that are allowed.

    Shapes: scores and mask (batch, key); returns (batch, key). Each row allows a key.
    """
    mask = torch.arange(5) < torch.tensor(LENGTHS)[:, None]
    # The padding scores highest, and the last row is far below zero: 0 is no low score.
    scores = normals((3, 5), seed=2)[0].masked_fill(~mask, 9.0) - torch.tensor(
        [[0.0], [0.0], [200.0]]
    )
    weights = expect_tensor(weigh(scores, mask), (3, 5))
    unmasked = torch.softmax(scores, dim=-1)
    sums = ", ".join(f"{total:.2f}" for total in weights.sum(-1).tolist())
    alone = [torch.softmax(row[:n], dim=0) for row, n in zip(scores, LENGTHS, strict=True)]
    expected = torch.nn.utils.rnn.pad_sequence(alone, batch_first=True)
    yield {
        "the weights are not finite": not weights.isfinite().all(),
        "the mask was not used": close(weights, unmasked),
        "masked after the softmax: padding has taken "
        "its share, and the rows no longer sum to 1": close(weights, unmasked * mask),
        "padding gets weight: its score must be -inf before the softmax, not 0 or some number, "
        "and True in the mask means that a key may be attended": weights[~mask].any(),
        "each row must sum to 1 over its keys, got the sums "
        f"{sums}: the softmax runs over the last axis": not close(weights.sum(-1), 1.0),
        "each row must be the softmax of its allowed scores": not close(weights, expected),
    }
    yield from ("padding gets exactly 0", "each row sums to 1", "the same as without padding")


@check("bilinear attention")
def check_bilinear_attention(attend: Callable[..., tuple[Tensor, Tensor]]) -> Steps:
    """Check attend(query, keys, W) -> (context, weights), with scores e_i = q . W k_i.

    Shapes: query (batch, d_query), keys (batch, key, d_key), W (d_query, d_key); returns
        (batch, d_key) and (batch, key).
    Source: Luong et al. 2015, section 3.1.
    """
    for batch, n_keys, d_query, d_key in ((3, 5, 2, 7), (2, 1, 5, 3), (5, 7, 1, 2)):
        shapes = ((batch, d_query), (batch, n_keys, d_key), (d_query, d_key))
        query, keys, weight = normals(*shapes)
        what = "two tensors, the context and the weights"
        context, weights = expect_pair(attend(query, keys, weight), what)
        expect_tensor(weights, (batch, n_keys))
        expect_tensor(context, (batch, d_key))
        for row in range(batch):
            scores = torch.stack([query[row] @ weight @ key for key in keys[row]])
            expected = torch.softmax(scores, dim=0)
            require_close(
                weights[row],
                expected,
                "the weights are wrong: e_i = q . W k_i, then a softmax over the keys of one "
                "sentence, without the others",
                {"these are the scores, before the softmax": scores},
            )
            require_close(
                context[row],
                sum(a * key for a, key in zip(expected, keys[row], strict=True)),
                "the weights are right, the context is not: c = sum_i a_i k_i, of the keys as "
                "they came",
            )
    yield from ("the weights follow q . W k", "the context mixes the keys", "three sizes")

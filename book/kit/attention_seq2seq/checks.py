"""Properties of the attention over encoder states: for the exercises of chapter 2."""

from collections.abc import Callable

import torch
from torch import Tensor

from kit.shared.checks import Report, close, expect_tensor, require

LENGTHS = (5, 1, 3)  # real keys in each row of a batch; 5 is the longest


def check_masked_weights(weigh: Callable[[Tensor, Tensor], Tensor]) -> Report:
    """Check weigh(scores, mask), the softmax over those keys that are allowed.

    Shapes: scores and mask (batch, key); returns (batch, key). Each row allows a key.
    Errors: CheckFailed, which names the mistake if it is a known one.
    """
    mask = torch.arange(5) < torch.tensor(LENGTHS)[:, None]
    # The padding scores highest, and the last row is far below zero: 0 is no low score.
    scores = _normal(3, 5).masked_fill(~mask, 9.0) - torch.tensor([[0.0], [0.0], [200.0]])
    kept = scores.clone()
    weights = expect_tensor(weigh(scores, mask), (3, 5))
    require(torch.equal(scores, kept), "the scores were changed: return a new tensor")
    require(bool(weights.isfinite().all()), "the weights are not finite")
    expected = torch.zeros_like(scores)
    for row, n in enumerate(LENGTHS):
        expected[row, :n] = torch.softmax(scores[row, :n], dim=0)
    require(not close(weights, torch.softmax(scores, -1)), "the mask was not used")
    require(
        not close(weights, torch.softmax(scores, -1) * mask),
        "masked after the softmax: padding has taken its share, and the rows no longer sum to 1",
    )
    require(
        not weights[~mask].any(),
        "padding gets weight: its score must be -inf before the softmax, not 0 or some number, "
        "and True in the mask means that a key may be attended",
    )
    sums = ", ".join(f"{total:.2f}" for total in weights.sum(-1).tolist())
    require(
        close(weights.sum(-1), torch.ones(3).to(weights)),
        f"each row must sum to 1 over its keys, got the sums {sums}: the softmax runs over the "
        "last axis",
    )
    require(close(weights, expected), "each row must be the softmax of its allowed scores")
    return Report(
        "masked weights",
        ("padding gets exactly 0", "each row sums to 1", "the same as without padding"),
    )


def check_bilinear_attention(attend: Callable[..., tuple[Tensor, Tensor]]) -> Report:
    """Check attend(query, keys, W) -> (context, weights), with scores e_i = q . W k_i.

    Shapes: query (batch, d_query), keys (batch, key, d_key), W (d_query, d_key); returns
        (batch, d_key) and (batch, key).
    Errors: CheckFailed, which names the mistake if it is a known one.
    Source: Luong et al. 2015, section 3.1.
    """
    for batch, n_keys, d_query, d_key in ((3, 5, 2, 7), (2, 1, 5, 3), (5, 7, 1, 2)):
        query, keys = _normal(batch, d_query), _normal(batch, n_keys, d_key)
        weight = _normal(d_query, d_key)
        result = attend(query, keys, weight)
        require(
            isinstance(result, tuple) and len(result) == 2,
            f"expected two tensors, the context and the weights, got {type(result).__name__}",
        )
        context, weights = result
        weights = expect_tensor(weights, (batch, n_keys))
        context = expect_tensor(context, (batch, d_key))
        for row in range(batch):
            scores = torch.stack([query[row] @ weight @ key for key in keys[row]])
            expected = torch.softmax(scores, dim=0)
            require(not close(weights[row], scores), "these are the scores, before the softmax")
            require(
                close(weights[row], expected),
                "the weights are wrong: e_i = q . W k_i, then a softmax over the keys of one "
                "sentence, without the others",
            )
            mixed = sum(a * key for a, key in zip(expected, keys[row], strict=True))
            require(
                close(context[row], mixed),
                "the weights are right, the context is not: c = sum_i a_i k_i, of the keys as "
                "they came",
            )
    return Report(
        "bilinear attention",
        ("the weights follow q . W k", "the context mixes the keys", "three sizes"),
    )


def _normal(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(len(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)

"""Properties of the attention over encoder states: for the exercises of chapter 2."""

from collections.abc import Callable

import torch
from torch import Tensor

from checks.framework import (
    Steps,
    check,
    close,
    expect_pair,
    expect_tensor,
    normal,
    normals,
    require_close,
    short,
)

LENGTHS = (5, 1, 3)  # real keys in each row of a batch; 5 is the longest
NEAR = 1e-2  # of float32 numbers around -1e5


@check("masked weights")
def check_masked_weights(weigh: Callable[[Tensor, Tensor], Tensor]) -> Steps:
    """Check weigh(scores, mask), the softmax over those keys that are allowed.

    Shapes: scores and mask (batch, key); returns (batch, key). Each row allows a key.
    """
    mask = torch.arange(5) < torch.tensor(LENGTHS)[:, None]
    # The padding scores so high that the softmax of all scores leaves 0 for the other keys, and
    # the last row is far below zero: 0 is no low score.
    far = torch.tensor([[0.0], [0.0], [1e5]])
    scores = (normal(3, 5, seed=2).masked_fill(~mask, 200.0) - far).float()
    unmasked = scores.softmax(-1)
    right = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    inverted = scores.masked_fill(mask, -torch.inf).softmax(-1)
    weights = expect_tensor(weigh(scores, mask), (3, 5), like=scores)
    near = torch.isclose(weights, right, NEAR, NEAR).all(-1)
    worst = int((near.int() + weights.isfinite().all(-1)).argmin())
    seen = f"row {worst} is {short(weights[worst], 2)}"
    sums = ", ".join(f"{total:.2f}" for total in weights.sum(-1).tolist())
    yield {
        "the mask was not used": close(weights, unmasked, NEAR),
        "the mask is the wrong way round: True = may attend": close(
            weights[1:], inverted[1:], NEAR
        ),
        "these are the scores, before the softmax": close(weights.softmax(-1), right, NEAR),
        "a weight is not finite: 0 * inf gives nan, and so does "
        f"0 / 0 when all exponentials are 0; {seen}": not weights.isfinite().all(),
        "masked after the softmax: padding has taken "
        "its share, and the rows no longer sum to 1": close(weights, unmasked * mask, NEAR),
        "padding gets weight: its score must be -inf before the softmax, not 0 or another finite "
        "number, and True in the mask means that a key may be attended to": weights[~mask].any(),
        f"each row must sum to 1 over its keys, got the sums {sums}: divide the exponentials by "
        "their sum over the keys, which are the last axis": not close(weights.sum(-1), 1.0, NEAR),
    }
    otherwise = f"each row must be the softmax of its allowed scores; {seen}"
    require_close(weights, right, otherwise, tolerance=NEAR)
    yield from ("padding gets exactly 0", "each row sums to 1", "the same as without padding")


@check("bilinear attention")
def check_bilinear_attention(attend: Callable[..., tuple[Tensor, Tensor]]) -> Steps:
    """Check attend(query, keys, W) -> (context, weights), with scores e_i = q . W k_i.

    Shapes: query (batch, d_query), keys (batch, key, d_key), W (d_query, d_key); returns
        (batch, d_key) and (batch, key).
    Source: Luong et al. 2015, section 3.1.
    """
    for batch, n_keys, d_query, d_key in ((3, 5, 2, 7), (2, 1, 5, 3), (5, 7, 1, 2)):
        query, keys, W = normals((batch, d_query), (batch, n_keys, d_key), (d_query, d_key))
        scores = torch.stack([own @ W.T @ q for q, own in zip(query, keys, strict=True)])
        right = scores.softmax(1)
        what = "two tensors, the context and the weights"
        context, weights = expect_pair(attend(query, keys, W), what)
        yield {"the weights come first; return the context first": close(context, right)}
        require_close(
            expect_tensor(weights, (batch, n_keys), hint=" for the weights"),
            right,
            "the weights are wrong: expected the softmax of e_i = q . W k_i over the keys i of "
            "the same sentence",
            {
                "these are the scores, before the softmax": scores,
                "the softmax runs over the batch; it must run over the keys": scores.softmax(0),
                "every weight is 1: the softmax runs over an axis of length 1": 1.0,
                "the scores are divided by the root of d_key; here nothing divides them": (
                    scores / d_key**0.5
                ).softmax(1),
                "a tanh is around the scores; here they stay as they are": scores.tanh().softmax(1),
            },
        )
        require_close(
            expect_tensor(context, (batch, d_key), hint=" for the context"),
            torch.stack([row @ own for row, own in zip(right, keys, strict=True)]),
            "the weights are right, the context is not: c = sum_i a_i k_i, with the keys "
            "themselves",
        )
    yield from ("the weights follow q . W k", "the context mixes the keys", "three sizes")


@check("additive attention")
def check_attend(attend: Callable[..., tuple[Tensor, Tensor]]) -> Steps:
    """Check attend(s, h, W_q, W_k, b, v) -> (context, weights) of additive attention.

    The scores are e_i = v . tanh(W_q s + W_k h_i + b).
    Shapes: s (d_query,), h (key, d_key), W_q (d_scorer, d_query), W_k (d_scorer, d_key), b and v
        (d_scorer,); returns (d_key,) and (key,).
    Source: Bahdanau et al. 2015, appendix A.1.2.
    """
    for n, d_query, d_key, d_scorer in ((5, 2, 7, 3), (1, 5, 3, 2), (7, 3, 2, 5)):
        inputs = normals(
            *((d_query,), (n, d_key), (d_scorer, d_query), (d_scorer, d_key)),
            *((d_scorer,), (d_scorer,)),
        )
        s, h, W_q, W_k, b, v = inputs
        inside = torch.stack([W_q @ s + W_k @ h_i + b for h_i in h])  # (key, d_scorer)
        scores = inside.tanh() @ v
        right = scores.softmax(0)
        context, weights = expect_pair(attend(*inputs), "two tensors, the context and the weights")
        yield {"the weights come first; return the context first": close(context, right)}
        require_close(
            expect_tensor(weights, (n,), hint=" for the weights, one for each state"),
            right,
            "the weights are wrong: expected the softmax over i of v . tanh(W_q s + W_k h_i + b)",
            {
                "these are the scores, before the softmax": scores,
                "the tanh is missing: without it the query adds the same to every score, and the "
                "softmax takes that out": (inside @ v).softmax(0),
                "b is missing": ((inside - b).tanh() @ v).softmax(0),
                "the query is missing: W_q s is added inside the tanh": (
                    (inside - W_q @ s).tanh() @ v
                ).softmax(0),
                "every weight is 1: the softmax runs over an axis of length 1": 1.0,
                "v is missing: it weighs the numbers that the tanh gives": (
                    inside.tanh().sum(1).softmax(0)
                ),
            },
        )
        require_close(
            expect_tensor(context, (d_key,), hint=" for the context"),
            right @ h,
            "the weights are right, the context is not: c = sum_i a_i h_i, with the states "
            "themselves",
            {
                "this is the plain mean of the states: use the weights": h.mean(0),
                "this is the sum over all states: use the weights": h.sum(0),
                "this is the state with the largest weight; mix them all": h[right.argmax()],
            },
        )
    yield from ("the weights follow the formula", "the context mixes the states", "three sizes")

"""Properties that attention must have, whoever wrote it; and loops too plain to be wrong."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from kit.shared.checks import Report, close, draw, expect_tensor, require

# (query, key, d_k, d_v): distinct primes, so that no two axes can be mixed up; and length 1.
SIZES = ((5, 7, 11, 3), (1, 7, 2, 13), (5, 1, 3, 2), (2, 3, 17, 5))


def attention_by_loops(
    query: Float[Tensor, "query d_k"],
    key: Float[Tensor, "key d_k"],
    value: Float[Tensor, "key d_v"],
    mask: Bool[Tensor, "query key"] | None = None,
) -> Float[Tensor, "query d_v"]:
    """Compute scaled dot-product attention one number at a time: the reference of the checks.

    Shapes: query (query, d_k), key (key, d_k), value (key, d_v); mask (query, key), True = may
        attend. Returns (query, d_v).
    Source: Attention Is All You Need, equation 1.
    """
    rows = []
    for i, q in enumerate(query):
        allowed = [j for j in range(len(key)) if mask is None or mask[i, j]]
        exponentials = [torch.exp((q * key[j]).sum() / math.sqrt(len(q))) for j in allowed]
        row = torch.zeros_like(value[0])
        for j, exponential in zip(allowed, exponentials, strict=True):
            row = row + exponential / sum(exponentials) * value[j]
        rows.append(row)
    return torch.stack(rows)


def check_attention(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Report:
    """Check attend(query, key, value), the scaled dot-product attention of one sequence or many.

    Shapes: query (*batch, query, d_k), key (*batch, key, d_k), value (*batch, key, d_v).
    Errors: CheckFailed, which names the mistake if it is a known one.
    """
    for sizes in SIZES:
        query, key, value = draw(*sizes)
        output = expect_tensor(attend(query, key, value), (sizes[0], sizes[3]))
        expected = attention_by_loops(query, key, value)
        require(close(output, expected), _diagnosis(output, query, key, value, expected))

    query, key, value = draw(5, 7, 11, 3)
    many = [torch.stack([x, 1 - 2 * x]) for x in (query, key, value)]
    batched = expect_tensor(attend(*many), (2, 5, 3))
    for one, output in zip((0, 1), batched, strict=True):
        alone = attention_by_loops(*(x[one] for x in many))
        require(
            close(output, alone),
            "with a batch axis in front, each sequence must be worked on alone; transpose the "
            "last two axes only: key.transpose(-2, -1)",
        )
    _require_gradients(attend, query, key, value)
    return Report(
        "attention",
        (
            f"equals the loops on {len(SIZES)} shapes, with d_v unlike d_k",
            "sequences of a batch do not mix",
            "gradients reach query, key and value",
        ),
    )


def check_weights(
    weights: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "..."] | None = None
) -> Report:
    """Check attention weights: none negative, 0 where masked, rows that sum to 1 (0 without keys).

    Shapes: weights (*batch, query, key); mask broadcasts to them.
    Errors: CheckFailed.
    """
    mask = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask
    mask = mask.expand(weights.shape)
    require(not (weights < 0).any(), "a weight is negative")
    require(not weights[~mask].any(), "a masked key has a weight: the softmax saw it")
    sums, wanted = weights.sum(-1), mask.any(-1).to(weights.dtype)
    tolerance = 4 * torch.finfo(weights.dtype).eps * weights.shape[-1]
    require(
        torch.allclose(sums, wanted, atol=tolerance, rtol=0),
        "rows must sum to 1: the softmax runs over the keys, which is the last axis; "
        f"the first row sums to {sums.flatten()[0].item():.3f}",
    )
    return Report("weights", ("none is negative", "0 where masked", "each row sums to 1"))


def check_equivariance(
    function: Callable[[Tensor], Tensor], x: Float[Tensor, "time d_in"]
) -> Report:
    """Check f(P x) = P f(x): permuting the positions permutes the output in the same way.

    Shapes: x (time, d_in), with two positions or more; function keeps the time axis first.
    Errors: CheckFailed.
    """
    order = torch.roll(torch.arange(len(x)), 1)
    require(
        close(function(x[order]), function(x)[order]),
        "the positions were permuted, and the outputs are not the same outputs permuted: "
        "something here depends on where a vector stands",
    )
    return Report("permutation equivariance", ("f(P x) = P f(x)",))


def _diagnosis(output: Tensor, query: Tensor, key: Tensor, value: Tensor, expected: Tensor) -> str:
    """Say which well-known mistake gives just this output, if one does."""
    (n_queries, d_k), (n_keys, d_v) = query.shape, value.shape
    products = query @ key.T
    scales = {"nothing": 1, "d_k itself": d_k, "the root of the number of keys": n_keys**0.5}
    scales |= {"the root of the number of queries": n_queries**0.5, "the root of d_v": d_v**0.5}
    for name, scale in scales.items():
        if close(output, (products / scale).softmax(-1) @ value):
            return f"the scores are divided by {name}; divide by the root of d_k, the last axis"
    if close(output, (products / d_k**0.5).softmax(0) @ value):
        return (
            "the softmax runs over the queries; it must run over the keys, which is the last axis"
        )
    if close(output, (products / d_k**0.5) @ value):
        return "the scores are used as weights; a softmax over the keys is missing"
    gap = (output - expected).abs().max().item()
    return f"expected softmax(Q K^T / sqrt(d_k)) V, got an output that is off by {gap:.2g}"


def _require_gradients(attend: Callable, query: Tensor, key: Tensor, value: Tensor) -> None:
    inputs = [x.clone().requires_grad_() for x in (query, key, value)]
    output = attend(*inputs)
    require(output.requires_grad, "no gradient: the output is cut off from the inputs")
    got = torch.autograd.grad(output.square().sum(), inputs, allow_unused=True)
    want = torch.autograd.grad(attention_by_loops(*inputs).square().sum(), inputs)
    for name, g, w in zip(("query", "key", "value"), got, want, strict=True):
        require(g is not None and close(g, w), f"the gradient of the {name} is wrong or missing")

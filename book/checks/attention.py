"""Properties that attention must have, however it is written; and loops too plain to be wrong."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from checks.framework import (
    CheckFailed,
    Steps,
    check,
    expect_tensor,
    normals,
    require,
    require_close,
    require_gradients,
)

# (query, key, d_k, d_v): distinct primes, so that no two axes can be mixed up; and length 1.
SIZES = ((5, 7, 11, 3), (1, 7, 2, 13), (5, 1, 3, 2), (2, 3, 17, 5))


def draw(n_queries: int, n_keys: int, d_k: int, d_v: int) -> list[Tensor]:
    """Draw query (query, d_k), key (key, d_k) and value (key, d_v) in float64."""
    return normals((n_queries, d_k), (n_keys, d_k), (n_keys, d_v), seed=n_queries * n_keys)


def attention_by_loops(
    query: Float[Tensor, "*batch query d_k"],
    key: Float[Tensor, "*batch key d_k"],
    value: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "query key"] | None = None,
) -> Float[Tensor, "*batch query d_v"]:
    """Compute scaled dot-product attention one number at a time: the reference of the checks.

    Shapes: query (*batch, query, d_k), key (*batch, key, d_k), value (*batch, key, d_v); mask
        (query, key), True = may attend. Returns (*batch, query, d_v).
    Source: Attention Is All You Need, equation 1.
    """
    if query.dim() > 2:
        each = zip(query, key, value, strict=True)
        return torch.stack([attention_by_loops(*one, mask) for one in each])
    rows = []
    for i, q in enumerate(query):
        allowed = [j for j in range(len(key)) if mask is None or mask[i, j]]
        exponentials = [torch.exp((q * key[j]).sum() / math.sqrt(len(q))) for j in allowed]
        row = torch.zeros_like(value[0])
        for j, exponential in zip(allowed, exponentials, strict=True):
            row = row + exponential / sum(exponentials) * value[j]
        rows.append(row)
    return torch.stack(rows)


def require_attention(
    output: Any,
    query: Float[Tensor, "*batch query d_k"],
    key: Float[Tensor, "*batch key d_k"],
    value: Float[Tensor, "*batch key d_v"],
    *,
    otherwise: str,
    **dimensions: int,
) -> None:
    """Require that `output` is scaled dot-product attention, and tell the well-known mistakes.

    Shapes: query (*batch, query, d_k), key (*batch, key, d_k), value (*batch, key, d_v).
    Args: otherwise, the message for any other mistake; dimensions, more sizes whose root is taken
        by mistake, each under its name.
    """
    want = attention_by_loops(query, key, value)
    got = expect_tensor(output, want.shape)
    d_k, products = query.shape[-1], query @ key.mT
    scores = products / d_k**0.5
    dimensions |= {"d_v": value.shape[-1], "the number of queries": query.shape[-2]}
    dimensions |= {"the number of keys": key.shape[-2]}
    scales = {"not divided": 1, "divided by d_k itself": d_k, "multiplied": d_k**-0.5}
    scales |= {f"divided by the root of {name}": size**0.5 for name, size in dimensions.items()}
    wrong = {how: (products / scale).softmax(-1) for how, scale in scales.items()}
    root = "divide by the root of d_k, the last axis"
    weights = {f"the scores are {how}; {root}": unlike for how, unlike in wrong.items()}
    keys = "it must run over the keys, which is the last axis"
    weights |= {
        f"the softmax runs over the queries; {keys}": scores.softmax(-2),
        f"the softmax runs over the batch; {keys}": scores.softmax(0),
        "the scores are used as weights; a softmax over the keys is missing": scores,
        "the weights are divided after the softmax; divide the scores before it": (
            products.softmax(-1) / d_k**0.5
        ),
    }
    if query.shape[-2] == key.shape[-2]:
        swapped = "queries and keys are swapped: row i of the scores belongs to query i"
        weights[swapped] = scores.mT.softmax(-1)
    if key.dim() == 3 and len({*query.shape, *key.shape}) == 1:
        mixed = "sequences of the batch mix: .T reverses all three axes, the batch too; swap the "
        mixed += "last two with key.transpose(-2, -1)"
        weights[mixed] = (query @ key.permute(2, 1, 0) / d_k**0.5).softmax(-1)
    results = {name: wrong @ value for name, wrong in weights.items()}
    if key.dim() == 3:
        q, k, v = (x.flatten(0, 1) for x in (query, key, value))
        joined = ((q @ k.T / d_k**0.5).softmax(-1) @ v).view_as(want)
        results["the softmax runs over the keys of all sequences of the batch"] = joined
    off = f"{otherwise}, got an output that is off by {(got - want).abs().max().item():.2g}"
    require_close(got, want, off, results)


@check("attention")
def check_attention(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Steps:
    """Check attend(query, key, value), the scaled dot-product attention of one sequence or many.

    Shapes: query (*batch, query, d_k), key (*batch, key, d_k), value (*batch, key, d_v).
    """
    expected = "expected softmax(Q K^T / sqrt(d_k)) V"
    for inputs in (draw(*sizes) for sizes in SIZES):
        require_attention(attend(*inputs), *inputs, otherwise=expected)
    yield f"equals the loops on {len(SIZES)} shapes, with d_v unlike d_k"

    many = [torch.stack([x, 1 - 2 * x]) for x in draw(*SIZES[0])]
    try:
        output = attend(*many)
    except CheckFailed as error:
        hint = "with a batch axis in front, transpose the last two axes only: key.transpose(-2, -1)"
        raise CheckFailed(f"{error}; {hint}") from error
    alone = "with a batch axis in front, expected the attention of each sequence by its own keys "
    require_attention(output, *many, otherwise=f"{alone}and values")
    yield "sequences of a batch do not mix"

    named = dict(zip(("query", "key", "value"), draw(*SIZES[0]), strict=True))
    require_gradients(attend, attention_by_loops, **named)
    yield "gradients reach query, key and value"


@check("weights")
def check_weights(
    weights: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "..."] | None = None
) -> Steps:
    """Check attention weights: none negative, 0 where masked, rows that sum to 1, or to 0
    if fully masked.

    Shapes: weights (*batch, query, key); mask broadcasts to them.
    """
    mask = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask
    mask = mask.expand(weights.shape)
    require(not (weights < 0).any(), "a weight is negative")
    require(not weights[~mask].any(), "a masked key has a weight: the softmax saw it")
    require_close(
        weights.sum(-1),
        mask.any(-1).to(weights.dtype),
        "rows must sum to 1: the softmax runs over the keys, which is the last axis; "
        f"the first row sums to {weights.sum(-1).flatten()[0].item():.3f}",
        tolerance=2 * torch.finfo(weights.dtype).eps * weights.shape[-1],
    )
    yield from ("none is negative", "0 where masked", "each row sums to 1")


@check("permutation equivariance")
def check_equivariance(
    function: Callable[[Tensor], Tensor], x: Float[Tensor, "time d_in"]
) -> Steps:
    """Check f(P x) = P f(x): permuting the positions permutes the output in the same way.

    Shapes: x (time, d_in), with two positions or more; function keeps the time axis first.
    """
    order = torch.roll(torch.arange(len(x)), 1)
    require_close(
        function(x[order]),
        function(x)[order],
        "the positions were permuted, and the outputs are not the same outputs permuted: "
        "something here depends on where a vector stands",
    )
    yield "f(P x) = P f(x)"

"""Properties that attention must have, whoever wrote it; and loops too plain to be wrong."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.checks import Report, require

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
    Source: Attention Is All You Need, equation 1. Chapter: 3 (The attention layer).
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
    Source: ours. Chapter: 3 (The attention layer).
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


def check_masked_attention(attend: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Report:
    """Check attend(query, key, value, mask), where True = may attend.

    Shapes: as in `check_attention`; mask (query, key).
    Errors: CheckFailed if a masked key is felt, or if a row without keys is not zero.
    Source: ours. Chapter: 6 (Masking).
    """
    query, key, value = draw(5, 7, 11, 3)
    mask = torch.rand(5, 7, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[:, 0] = True  # each row keeps a key, for now
    mask[:, 3] = False  # nobody may see key 3
    output = expect_tensor(attend(query, key, value, mask), (5, 3))
    inverted = attention_by_loops(query, key, value, ~mask)
    require(not close(output, inverted), "the mask is the wrong way round: here True = may attend")
    require(
        close(output, attention_by_loops(query, key, value, mask)),
        "the weights must be those of a softmax over the allowed keys alone: mask the scores "
        "before the softmax, not the weights after it",
    )
    key[3], value[3] = 50.0, -50.0
    require(
        torch.equal(attend(query, key, value, mask), output),
        "a key that nobody may attend to was changed, and the output changed with it",
    )
    mask[2] = False
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        inputs = [x.to(dtype).requires_grad_() for x in (query, key, value)]
        output = attend(*inputs, mask)
        require(not output.isnan().any(), f"NaN in {dtype}: no key is left for query 2")
        require(
            not output[2].any(),
            f"query 2 may attend to nothing, so its output must be 0; in {dtype} it is "
            f"{output[2].tolist()}",
        )
        output.sum().backward()
        for name, x in zip(("query", "key", "value"), inputs, strict=True):
            require(not x.grad.isnan().any(), f"NaN in the gradient of the {name} in {dtype}")
    return Report(
        "masked attention",
        (
            "a softmax over the allowed keys alone",
            "a masked key changes nothing, bit for bit",
            "a row without keys is zero, never NaN, in three precisions, forward and backward",
        ),
    )


def check_weights(
    weights: Float[Tensor, "*batch query key"], mask: Bool[Tensor, "..."] | None = None
) -> Report:
    """Check attention weights: none negative, 0 where masked, rows that sum to 1 (0 without keys).

    Shapes: weights (*batch, query, key); mask broadcasts to them.
    Errors: CheckFailed. Source: ours. Chapter: 3 (The attention layer).
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
    Errors: CheckFailed. Source: ours. Chapter: 4 (Self-attention).
    """
    order = torch.roll(torch.arange(len(x)), 1)
    require(
        close(function(x[order]), function(x)[order]),
        "the positions were permuted, and the outputs are not the same outputs permuted: "
        "something here depends on where a vector stands",
    )
    return Report("permutation equivariance", ("f(P x) = P f(x)",))


def copy_from_torch(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    """Make a layer of ours with the sizes, the type and the weights of torch's own.

    torch keeps W_Q, W_K and W_V on top of each other in one matrix where the input widths are
    equal, and apart where they are not.

    Errors: ValueError for bias_kv or zero attention, which the paper does not have.
    Source: torch's documentation. Chapter: 5 (Multi-head attention).
    """
    if theirs.bias_k is not None or theirs.add_zero_attn:
        raise ValueError("expected no bias_kv and no zero attention, got a layer with them")
    d_model, bias = theirs.embed_dim, theirs.in_proj_bias is not None
    ours = MultiHeadAttention(
        d_model,
        theirs.num_heads,
        d_key_in=theirs.kdim,
        d_value_in=theirs.vdim,
        bias=bias,
        dropout=theirs.dropout,
    ).to(theirs.out_proj.weight)
    packed = theirs.in_proj_weight
    apart = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    weights = apart if packed is None else packed.chunk(3)
    with torch.no_grad():
        for number, projection in enumerate((ours.w_q, ours.w_k, ours.w_v)):
            projection.weight.copy_(weights[number])
            if bias:
                projection.bias.copy_(theirs.in_proj_bias.chunk(3)[number])
        ours.w_o.load_state_dict(theirs.out_proj.state_dict())
    return ours


def draw(n_queries: int, n_keys: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw query (query, d_k), key (key, d_k) and value (key, d_v) in float64."""
    generator = torch.Generator().manual_seed(n_queries * n_keys)
    shapes = ((n_queries, d_k), (n_keys, d_k), (n_keys, d_v))
    return tuple(torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)


def close(a: Tensor, b: Tensor) -> bool:
    """Say whether two tensors of one shape agree to ten decimals."""
    return a.shape == b.shape and torch.allclose(a, b.to(a), rtol=1e-8, atol=1e-10)


def expect_tensor(output: object, shape: tuple[int, ...]) -> Tensor:
    """Return the answer if it is a tensor of that shape; an empty answer is not."""
    require(isinstance(output, Tensor), f"expected a tensor {shape}, got {output!r}")
    got = tuple(output.shape)
    require(got == shape, f"expected an output of shape {shape}, got {got}")
    return output


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

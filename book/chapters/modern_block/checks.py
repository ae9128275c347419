"""Properties of what the chapter has its readers write: the block and three of its parts."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from checks.framework import Steps, check, expect_tensor, normals, require_close, require_gradients
from lib.attention import scaled_dot_product_attention
from lib.masks import causal_mask
from lib.positions import Rotary

EPS = 1e-5


@check("RMSNorm")
def check_rms_norm(norm: Callable[[Tensor, Tensor], Tensor]) -> Steps:
    """Check norm(x, gain): x / sqrt(mean(x^2) + 1e-5) * gain, each position by itself.

    Shapes: x (*batch, d_model), gain (d_model,). Returns the shape of x.
    Source: Zhang and Sennrich 2019, equation 4.
    """

    def right(x: Tensor, gain: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * gain

    for shape in ((5, 3), (2, 7, 11), (13,)):
        x, gain = normals(shape, shape[-1:], seed=sum(shape))
        x = 0.2 * x + 0.1  # a mean that is not 0, and small enough for 1e-5 to count
        square = x.square()
        root = (square.mean(-1, keepdim=True) + EPS).sqrt()
        centred = x - x.mean(-1, keepdim=True)
        mistakes = {
            "the scale is missing": x / root,
            "the mean is subtracted: that is layer norm": right(centred, gain),
            "the divisor is the standard deviation: it subtracts the mean": (
                x / (centred.square().mean(-1, keepdim=True) + EPS).sqrt() * gain
            ),
            "the squares are summed, not averaged": (
                x / (square.sum(-1, keepdim=True) + EPS).sqrt() * gain
            ),
            "the root is missing": x / root.square() * gain,
            "the mean runs over all positions together": x / (square.mean() + EPS).sqrt() * gain,
            "the mean runs over the first axis": x / (square.mean(0) + EPS).sqrt() * gain,
        }
        otherwise = "expected x / sqrt(mean(x ** 2) + 1e-5) * gain, over the last axis"
        require_close(expect_tensor(norm(x, gain), shape), right(x, gain), otherwise, mistakes)
        require_gradients(norm, right, x=x, gain=gain)
    yield "equals the formula for one, two and three axes, values and gradients"

    zeros = torch.zeros(3, 5, dtype=torch.float64)
    got = expect_tensor(norm(zeros, torch.ones(5, dtype=torch.float64)), (3, 5))
    yield {"a vector of zeros gives 0 / 0: add 1e-5 under the root": bool(got.isnan().any())}
    yield "finite for a vector of zeros"


@check("shared key heads")
def check_grouped_attention(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Steps:
    """Check attend(query, key, value): each group of consecutive query heads has one key head.

    Shapes: query (heads, time, d_k), key (kv_heads, time, d_k), value (kv_heads, time, d_v).
        Returns (heads, time, d_v).
    Source: Ainslie et al. 2023, section 2.2.
    """

    def right(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        group = len(query) // len(key)
        heads = [
            scaled_dot_product_attention(q, key[i // group], value[i // group])
            for i, q in enumerate(query)
        ]
        return torch.stack(heads)

    for heads, kv_heads, time, d_k, d_v in ((6, 3, 5, 7, 11), (4, 1, 3, 2, 5), (3, 3, 5, 7, 2)):
        shapes = ((heads, time, d_k), (kv_heads, time, d_k), (kv_heads, time, d_v))
        query, key, value = normals(*shapes, seed=heads)
        group = heads // kv_heads
        tiled = [x.repeat(group, 1, 1) for x in (key, value)]
        spread = [x.repeat_interleave(group, dim=0) for x in (key, value)]
        mistakes = {
            "head i has key head i mod kv_heads: neighbours must share (repeat_interleave)": right(
                query, *tiled
            ),
            "every query head has the first key head": right(query, key[:1], value[:1]),
            "the key heads are averaged": right(
                query, key.mean(0, keepdim=True), value.mean(0, keepdim=True)
            ),
            "the values have other heads than the keys": right(query, spread[0], tiled[1]),
            "the scores are not divided by sqrt(d_k)": right(query * math.sqrt(d_k), key, value),
        }
        otherwise = "expected head i to attend with key and value head i // (heads / kv_heads)"
        output = expect_tensor(attend(query, key, value), (heads, time, d_v))
        require_close(output, right(query, key, value), otherwise, mistakes)
        require_gradients(attend, right, query=query, key=key, value=value)
    yield "6 heads with 3, 4 with 1 and 3 with 3 key heads: values and gradients"


@check("sliding window")
def check_window(mask: Callable[[int, int], Tensor]) -> Steps:
    """Check mask(time, window): position i may attend to its last `window` positions, its own too.

    Returns a boolean tensor (time, time), True = may attend, queries as rows.
    Source: Beltagy et al. 2020, section 3.1; Jiang et al. 2023, section 2.
    """
    for time, window in ((7, 3), (5, 1), (5, 11), (2, 2)):
        want = causal_mask(time, window=window)
        later = ~causal_mask(time)
        mistakes = {
            "one too many: the query's own counts as one of the window": causal_mask(
                time, window=window + 1
            ),
            "one too few: the query's own is one of the window's": want
            & ~torch.eye(time, dtype=torch.bool),
            "the window has no end: old positions stay visible": ~later,
            "later positions are visible": want | later,
            "True and False are exchanged: True means may attend": ~want,
            "queries are rows and keys columns: transpose it": want.mT,
        }
        if window > 1:
            mistakes["one too few: i - j must be below window"] = causal_mask(
                time, window=window - 1
            )
        got = expect_tensor(mask(time, window), (time, time), like=want)
        otherwise = f"expected mask[i, j] = i - {window} < j <= i"
        require_close(got, want, otherwise, mistakes)
    yield "right for windows of 1, 2, 3 and one longer than the text"


BLOCK_FAULTS = {
    "no residual": "the sub-layers' outputs replace x: they must be added to it",
    "post-norm": "the norms stand behind the sums: each must stand before its sub-layer",
    "no second norm": "the feed-forward network reads x without its norm",
    "no scales": "the scales of the norms are missing",
    "layer norm": "the mean is subtracted: that is layer norm",
    "no rotation": "queries and keys are not rotated, so the order of tokens is lost",
    "keys stay": "the queries are rotated and the keys are not",
    "values turn": "the values are rotated too: only queries and keys are",
    "no mask": "later positions are visible: a causal mask is missing",
    "undivided": "the scores are not divided by sqrt(d_k)",
    "tiled": "head i has key head i mod kv_heads: neighbours must share (repeat_interleave)",
    "gates swapped": "silu stands on x W_3: it belongs on x W_1, the gate",
    "no gate": "the product with x W_3 is missing: that is no gate",
    "relu": "the gate is a ReLU: it is silu",
}


def _block(
    x: Tensor, w: dict[str, Tensor], n_heads: int, n_kv_heads: int, fault: str = ""
) -> Tensor:
    """The block of LLaMA for one text, with shared key heads; or what it is with one fault."""

    def norm(x: Tensor, gain: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True) if fault == "layer norm" else x
        scaled = x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()
        return scaled if fault == "no scales" else scaled * gain

    def heads(x: Tensor, n: int, *, turned: bool) -> Tensor:
        parts = x.unflatten(-1, (n, -1)).transpose(0, 1)
        if not turned or fault == "no rotation":
            return parts
        return Rotary(parts.shape[-1]).to(x.dtype).rotate(parts[None])[0]

    def attend(x: Tensor) -> Tensor:
        q = heads(x @ w["q"], n_heads, turned=True)
        k = heads(x @ w["k"], n_kv_heads, turned=fault != "keys stay")
        v = heads(x @ w["v"], n_kv_heads, turned=fault == "values turn")
        group = n_heads // n_kv_heads
        if fault == "tiled":
            k, v = k.repeat(group, 1, 1), v.repeat(group, 1, 1)
        else:
            k, v = k.repeat_interleave(group, dim=0), v.repeat_interleave(group, dim=0)
        q = q * math.sqrt(q.shape[-1]) if fault == "undivided" else q
        mask = None if fault == "no mask" else causal_mask(len(x))
        found = scaled_dot_product_attention(q, k, v, mask)
        return found.transpose(0, 1).flatten(1) @ w["o"]

    def feed(x: Tensor) -> Tensor:
        gate, passed = x @ w["1"], x @ w["3"]
        if fault == "gates swapped":
            gate, passed = passed, gate
        opened = gate.relu() if fault == "relu" else F.silu(gate)
        return (opened if fault == "no gate" else opened * passed) @ w["2"]

    if fault == "post-norm":
        x = norm(x + attend(x), w["gain_1"])
        return norm(x + feed(x), w["gain_2"])
    keep = 0 if fault == "no residual" else 1
    x = keep * x + attend(norm(x, w["gain_1"]))
    return keep * x + feed(x if fault == "no second norm" else norm(x, w["gain_2"]))


def _of_x(block: Callable, *fixed: object) -> Callable[[Tensor], Tensor]:
    """The block as a function of x alone."""
    return lambda x: block(x, *fixed)


@check("the block")
def check_block(block: Callable[[Tensor, dict[str, Tensor], int, int], Tensor]) -> Steps:
    """Check block(x, w, n_heads, n_kv_heads), the block of LLaMA with shared key heads.

    Shapes: x (time, d_model); of w, "q" and "o" (d_model, d_model), "k" and "v" (d_model,
        n_kv_heads d_k), "1" and "3" (d_model, d_ff), "2" (d_ff, d_model), "gain_1" and "gain_2"
        (d_model).
    Source: Touvron et al. 2023 (LLaMA), section 2.2; Ainslie et al. 2023, section 2.2.
    """
    sizes_of = ((5, 4, 2, 6, 17), (7, 6, 1, 2, 11), (3, 3, 3, 4, 5))
    for time, n_heads, n_kv_heads, d_k, d_ff in sizes_of:
        d_model, d_kv = n_heads * d_k, n_kv_heads * d_k
        shapes: dict[str, tuple[int, ...]] = {
            "q": (d_model, d_model),
            "k": (d_model, d_kv),
            "v": (d_model, d_kv),
        }
        shapes |= {"o": (d_model, d_model), "1": (d_model, d_ff), "3": (d_model, d_ff)}
        shapes |= {"2": (d_ff, d_model), "gain_1": (d_model,), "gain_2": (d_model,)}
        x, *parameters = normals((time, d_model), *shapes.values(), seed=time)
        w = {
            name: 1 + one / 5 if one.dim() == 1 else one * 1.5 / math.sqrt(len(one))
            for name, one in zip(shapes, parameters, strict=True)
        }
        right = _block(x, w, n_heads, n_kv_heads)
        mistakes = {
            said: _block(x, w, n_heads, n_kv_heads, fault)
            for fault, said in BLOCK_FAULTS.items()
            if fault != "tiled" or 1 < n_kv_heads < n_heads
        }
        otherwise = (
            "expected x + attention(norm(x)), and of the sum y: y + (silu(n W_1) * n W_3) W_2 with "
            "n = norm(y)"
        )
        got = expect_tensor(block(x, w, n_heads, n_kv_heads), (time, d_model))
        require_close(got, right, otherwise, mistakes)
        fixed = w, n_heads, n_kv_heads
        require_gradients(_of_x(block, *fixed), _of_x(_block, *fixed), x=x)
    yield "4 heads with 2, 6 with 1 and 3 with 3 key heads: values and gradients"

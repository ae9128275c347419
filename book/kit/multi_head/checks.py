"""Properties of several heads side by side, held against a loop that works on one at a time."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from kit.shared.attention_checks import attention_by_loops
from kit.shared.checks import Steps, check, expect_tensor, normal, require, require_close
from lib.attention import MultiHeadAttention


def contributions_by_loops(
    layer: MultiHeadAttention, x: Float[Tensor, "batch time d_in"]
) -> Float[Tensor, "batch heads time d_out"]:
    """Compute what each head adds to a self-attention layer's output, one head at a time.

    Head i with the rows W_i^O that belong to it: head_i W_i^O. Their sum, plus the bias of W^O, is
    the output of the layer.

    Source: Attention Is All You Need, section 3.2.2.
    """
    queries, keys, values = (w(x) for w in (layer.w_q, layer.w_k, layer.w_v))
    n_heads = layer.n_heads
    d_k, d_v = queries.shape[-1] // n_heads, values.shape[-1] // n_heads
    rows = []
    for query, key, value in zip(queries, keys, values, strict=True):
        for i in range(n_heads):
            narrow, wide = slice(i * d_k, (i + 1) * d_k), slice(i * d_v, (i + 1) * d_v)
            head = attention_by_loops(query[:, narrow], key[:, narrow], value[:, wide])
            rows.append(head @ layer.w_o.weight[:, wide].T)
    return torch.stack(rows).unflatten(0, (len(x), n_heads))


@check("merge heads")
def check_merge_heads(merge: Callable[[Tensor], Tensor]) -> Steps:
    """Check merge(heads), which writes the heads of each position side by side.

    Shapes: heads (batch, heads, time, d_v); returns (batch, time, heads * d_v).
    """
    for sizes in ((2, 3, 5, 7), (1, 1, 3, 2), (3, 2, 1, 5)):
        batch, n_heads, time, d_v = sizes
        heads = torch.arange(float(batch * n_heads * time * d_v)).reshape(sizes)
        merged = expect_tensor(merge(heads), (batch, time, n_heads * d_v))
        mistakes = {
            "the positions are mixed: a reshape alone keeps the numbers in their old order, in "
            "which all positions of head 1 come first; "
            "bring the heads next to d_v beforehand": heads.reshape(merged.shape),
            "the heads are interleaved number by number; "
            "each head's d_v numbers stay together": heads.permute(0, 2, 3, 1).flatten(2),
        }
        for i in range(n_heads):
            block = slice(i * d_v, (i + 1) * d_v)
            wrong = {meaning: other[..., block] for meaning, other in mistakes.items()}
            otherwise = f"block {i} is not what head {i} found"
            require_close(merged[..., block], heads[:, i], otherwise, wrong)
    yield from ("each position keeps its own numbers", "heads in their order")


@check("contributions")
def check_contributions(contribute: Callable[[MultiHeadAttention, Tensor], Tensor]) -> Steps:
    """Check contribute(layer, x): what each head adds to the output of a self-attention layer.

    Shapes: x (batch, time, d_in); returns (batch, heads, time, d_out).
    """
    layer, x = _layer(), normal(2, 5, 7)
    with torch.no_grad():
        parts = expect_tensor(contribute(layer, x), (2, 3, 5, 13))
        output, bias = layer(x), layer.w_o.bias
        counted = (
            "the bias of W^O is in every part, so it counts three times; it belongs to no head"
        )
        otherwise = "the parts and the bias must add up to layer(x)"
        require_close(parts.sum(1) + bias, output, otherwise, {counted: output + 3 * bias})
        yield "they add up to layer(x)"

        require_close(
            parts,
            contributions_by_loops(layer, x),
            "the sum is right, but the parts are not head_i W_i^O: check which rows of W^O "
            "(columns of w_o.weight) belong to which head",
        )
        yield "each one is head_i W_i^O"


@check("keep heads")
def check_keep_heads(
    keep: Callable[[MultiHeadAttention, Sequence[int]], MultiHeadAttention],
) -> Steps:
    """Check keep(layer, kept): a smaller layer that does what the kept heads did.

    Source: Michel et al. 2019.
    """
    x = normal(2, 5, 7)
    for kept in ((0, 2), (1,), (2, 1, 0)):
        layer = _layer()
        before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
        small = keep(layer, kept)
        is_layer = isinstance(small, MultiHeadAttention)
        require(is_layer, f"expected a MultiHeadAttention, got {type(small).__name__}")
        for name, tensor in layer.state_dict().items():
            require(torch.equal(tensor, before[name]), f"the old layer was changed: {name}")
        require(small.n_heads == len(kept), f"expected {len(kept)} heads, got {small.n_heads}")
        for name in ("w_q", "w_k", "w_v", "w_o"):
            _require_size(name, getattr(small, name), getattr(layer, name), len(kept) / 3)
        with torch.no_grad():
            parts = contributions_by_loops(layer, x)
            output = small.double()(x) - layer.w_o.bias
            first = parts[:, : len(kept)].sum(1)
            require_close(
                output,
                parts[:, list(kept)].sum(1),
                f"the output must be that of heads {kept} and the bias of W^O, nothing else; "
                "copy the biases too",
                {f"asked to keep {kept}, it keeps the first {len(kept)}": first},
            )
    yield from ("as small as it should be", "the kept heads work as before")


def _require_size(name: str, small: nn.Linear, large: nn.Linear, share: float) -> None:
    across = name == "w_o"  # its heads are columns, those of the others are rows
    rows = large.out_features if across else round(large.out_features * share)
    columns = round(large.in_features * share) if across else large.in_features
    require(
        tuple(small.weight.shape) == (rows, columns),
        f"expected {name}.weight of shape {(rows, columns)}, got {tuple(small.weight.shape)}; "
        "a head keeps its width: give d_k and d_v, or d_model / n_heads makes it wider",
    )


def _layer() -> MultiHeadAttention:
    """Three heads, every width a different prime; float64, but exact in float32 as well."""
    layer = MultiHeadAttention(12, 3, d_k=11, d_v=5, d_query_in=7, d_key_in=7, d_out=13)
    generator = torch.Generator().manual_seed(5)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.4, generator=generator)
    return layer.double()

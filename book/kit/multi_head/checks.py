"""Properties of several heads side by side, held against a loop that works on one at a time."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from kit.shared.attention_checks import attention_by_loops
from kit.shared.checks import (
    Steps,
    check,
    close,
    expect_tensor,
    normal,
    require,
    require_close,
    require_gradients,
    short,
)
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
    d_k, d_v = queries.shape[-1] // layer.n_heads, values.shape[-1] // layer.n_heads
    parts = []
    for i in range(layer.n_heads):
        narrow, wide = slice(i * d_k, (i + 1) * d_k), slice(i * d_v, (i + 1) * d_v)
        head = attention_by_loops(queries[..., narrow], keys[..., narrow], values[..., wide])
        parts.append(head @ layer.w_o.weight[:, wide].T)
    return torch.stack(parts, dim=1)


@check("merge heads")
def check_merge_heads(merge: Callable[[Tensor], Tensor]) -> Steps:
    """Check merge(heads), which writes the heads of each position side by side.

    Shapes: heads (batch, heads, time, d_v); returns (batch, time, heads * d_v).
    """
    for sizes in ((2, 3, 5, 7), (1, 1, 3, 2), (3, 2, 1, 5)):
        batch, n_heads, time, d_v = sizes
        heads = torch.arange(float(batch * n_heads * time * d_v)).reshape(sizes)
        merged = expect_tensor(merge(heads), (batch, time, n_heads * d_v))
        want = torch.cat(heads.unbind(1), dim=-1)
        mistakes = {
            "the positions are mixed: a reshape alone keeps the numbers in their old order, in "
            "which all positions of head 1 come first; "
            "bring the heads next to d_v beforehand": heads.reshape(want.shape),
            "the heads are interleaved number by number; "
            "each head's d_v numbers stay together": heads.permute(0, 2, 3, 1).flatten(2),
            "the heads come in reverse": torch.cat(heads.flip(1).unbind(1), dim=-1),
        }
        first = f"expected {short(want[0, 0])} at the first position, got {short(merged[0, 0])}"
        require_close(merged, want, first, mistakes)
    require_gradients(merge, lambda heads: torch.cat(heads.unbind(1), dim=-1), heads=heads)
    yield from ("each position keeps its own numbers", "heads in their order")


@check("contributions")
@torch.no_grad()
def check_contributions(contribute: Callable[[MultiHeadAttention, Tensor], Tensor]) -> Steps:
    """Check contribute(layer, x): what each head adds to the output of a self-attention layer.

    Shapes: x (batch, time, d_in); returns (batch, heads, time, d_out).
    """
    layer, x = _layer(), normal(2, 5, 7)
    parts = contribute(layer, x)
    _require_untouched(layer)
    want, bias = contributions_by_loops(layer, x), layer.w_o.bias
    adds_up = close(expect_tensor(parts, want.shape).sum(1), want.sum(1))
    require_close(
        parts,
        want,
        "the sum is right, but the parts are not head_i W_i^O: check which rows of W^O "
        "(columns of w_o.weight) belong to which head"
        if adds_up
        else "the parts and the bias of W^O must add up to layer(x)",
        {
            "the bias of W^O is in every part, so it counts three times; it belongs to no head": (
                want + bias
            ),
            "the bias of W^O is shared out; it belongs to no head": want + bias / 3,
        },
    )
    yield from ("they add up to layer(x)", "each one is head_i W_i^O")


@check("keep heads")
@torch.no_grad()
def check_keep_heads(
    keep: Callable[[MultiHeadAttention, Sequence[int]], MultiHeadAttention],
) -> Steps:
    """Check keep(layer, kept): a smaller layer that does what the kept heads did.

    Source: Michel et al. 2019.
    """
    x = normal(2, 5, 7)
    for kept in ((0, 2), (1,), (2, 1, 0)):
        layer, n = _layer(), len(kept)
        small = keep(layer, kept)
        _require_untouched(layer)
        is_layer = isinstance(small, MultiHeadAttention)
        require(is_layer, f"expected a MultiHeadAttention, got {type(small).__name__}")
        require(small.n_heads == n, f"expected {n} heads, got {small.n_heads}")
        sizes = {"w_q": (11 * n, 7), "w_k": (11 * n, 7), "w_v": (5 * n, 7), "w_o": (13, 5 * n)}
        for name, size in sizes.items():
            got = tuple(getattr(small, name).weight.shape)
            require(
                got == size,
                f"expected {name}.weight of shape {size}, got {got}; a head keeps its width: "
                "give d_k and d_v, or d_model / n_heads makes it wider",
            )
        old, new = (dict(each.named_parameters()) for each in (layer, small))
        stores = {parameter.untyped_storage().data_ptr() for parameter in old.values()}
        shared = [name for name in new if new[name].untyped_storage().data_ptr() in stores]
        strange = [name for name in new if not torch.isin(new[name].double(), old[name]).all()]
        parts = contributions_by_loops(layer, x)
        first = parts[:, :n].sum(1) + layer.w_o.bias
        require_close(
            small.double()(x),
            parts[:, list(kept)].sum(1) + layer.w_o.bias,
            f"{' and '.join(strange)}: there stand numbers that the old layer does not have; copy "
            "the weights and biases of the kept heads"
            if strange
            else f"the output must be that of heads {kept} and the bias of W^O, nothing else; the "
            "heads stand in the same order in all four matrices",
            {f"asked to keep {kept}, it keeps the first {n}": first},
        )
        yield {f"the new layer shares {shared} with the old one: clone what you keep": bool(shared)}
    yield from ("as small as it should be", "the kept heads work as before")


def _layer() -> MultiHeadAttention:
    """Three heads, every width a different prime; float64, but exact in float32 as well."""
    layer = MultiHeadAttention(12, 3, d_k=11, d_v=5, d_query_in=7, d_key_in=7, d_out=13)
    generator = torch.Generator().manual_seed(5)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.4, generator=generator)
    return layer.double()


def _require_untouched(layer: MultiHeadAttention) -> None:
    for name, tensor in _layer().state_dict().items():
        same = torch.equal(layer.state_dict()[name], tensor)
        require(same, f"the old layer was changed: {name}; work on a copy")

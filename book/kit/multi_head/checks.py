"""Properties of several heads side by side, held against a loop that works on one at a time."""

import math
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
    queries_keys_values = (w(x).chunk(layer.n_heads, -1) for w in (layer.w_q, layer.w_k, layer.w_v))
    w_o = layer.w_o.weight.T.chunk(layer.n_heads)
    each = zip(*queries_keys_values, w_o, strict=True)
    return torch.stack([attention_by_loops(q, k, v) @ w for q, k, v, w in each], dim=1)


@check("merge heads")
def check_merge_heads(merge: Callable[[Tensor], Tensor]) -> Steps:
    """Check merge(heads), which writes the heads of each position side by side.

    Shapes: heads (batch, heads, time, d_v); returns (batch, time, heads * d_v).
    """

    def side_by_side(heads: Tensor) -> Tensor:
        return torch.cat(heads.unbind(1), dim=-1)

    for sizes in ((2, 3, 5, 7), (1, 1, 3, 2), (3, 2, 1, 5)):
        heads = torch.arange(float(math.prod(sizes))).reshape(sizes)
        want = side_by_side(heads)
        merged = expect_tensor(merge(heads), want.shape)
        mistakes = {
            "the positions are mixed: a reshape alone keeps the numbers in their old order, all "
            "positions of head 1 first; bring the heads next to d_v": heads.reshape(want.shape),
            "the heads are interleaved number by number; "
            "each head's d_v numbers stay together": heads.permute(0, 2, 3, 1).flatten(2),
        }
        rows, right = merged.flatten(0, 1), want.flatten(0, 1)
        i = int((rows != right).any(-1).int().argmax())
        shown = f"at position {i} expected {short(right[i])}, got {short(rows[i])}"
        require_close(merged, want, shown, mistakes)
    require_gradients(merge, side_by_side, heads=heads)
    yield from ("each position keeps its own numbers", "heads in their order")


@check("contributions")
@torch.no_grad()
def check_contributions(contribute: Callable[[MultiHeadAttention, Tensor], Tensor]) -> Steps:
    """Check contribute(layer, x): what each head adds to the output of a self-attention layer.

    Shapes: x (batch, time, d_in); returns (batch, heads, time, d_out).
    """
    x = normal(2, 5, 7)
    for layer in (_layer(), _layer(n_heads=2)):
        parts = contribute(layer, x)
        _require_untouched(layer)
        want, bias = contributions_by_loops(layer, x), layer.w_o.bias
        adds_up = close(expect_tensor(parts, want.shape).sum(1), want.sum(1))
        each = "they add up, but are not head_i W_i^O: check which columns of w_o.weight are whose"
        all_in_all = "the parts and the bias of W^O must add up to layer(x)"
        mistakes = {
            "the bias of W^O is in every part, so it counts once for each head": want + bias,
            "the bias of W^O is shared out; it belongs to no head": want + bias / layer.n_heads,
        }
        require_close(parts, want, each if adds_up else all_in_all, mistakes)
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
        old, new = (dict(each.named_parameters()) for each in (layer, small))
        for name, like in _layer(n).named_parameters():
            got, size = tuple(new[name].shape) if name in new else None, tuple(like.shape)
            widths = "a head keeps its width: give d_k and d_v, or d_model / n_heads makes it wider"
            require(got == size, f"expected {name} of shape {size}, got {got}; {widths}")
        parts, bias = contributions_by_loops(layer, x), layer.w_o.bias
        first = {f"asked to keep {kept}, it keeps the first {n}": parts[:, :n].sum(1) + bias}
        strange = [name for name in new if not torch.isin(new[name].double(), old[name]).all()]
        right = f"the output must be that of heads {kept} and the bias of W^O, nothing else; "
        why = f"{strange} have numbers that no head of the old layer has: copy weights and biases"
        order = "the heads must come in one order in all four matrices"
        want = parts[:, list(kept)].sum(1) + bias
        require_close(small.double()(x), want, right + (why if strange else order), first)
        stores = {parameter.untyped_storage().data_ptr() for parameter in old.values()}
        shared = [name for name in new if new[name].untyped_storage().data_ptr() in stores]
        yield {f"the new layer shares {shared} with the old one: clone what you keep": bool(shared)}
    yield from ("as small as it should be", "the kept heads work as before")


def _layer(n_heads: int = 3) -> MultiHeadAttention:
    """Every width a different prime; float64, but exact in float32 as well."""
    layer = MultiHeadAttention(12, n_heads, d_k=11, d_v=5, d_query_in=7, d_key_in=7, d_out=13)
    generator = torch.Generator().manual_seed(5)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.4, generator=generator)
    return layer.double()


def _require_untouched(layer: MultiHeadAttention) -> None:
    for name, tensor in _layer(layer.n_heads).state_dict().items():
        same = torch.equal(layer.state_dict()[name], tensor)
        require(same, f"the old layer was changed: {name}; work on a copy")

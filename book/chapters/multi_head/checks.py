"""Properties of several heads side by side, held against a loop that works on one at a time."""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from checks.attention import attention_by_loops
from checks.framework import (
    Steps,
    check,
    close,
    expect,
    expect_tensor,
    normal,
    require,
    require_close,
    require_gradients,
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
        first = (merged != want).flatten().int().argmax()
        at = [int(i) for i in torch.unravel_index(first, want.shape)]
        told = [_origin(x.flatten()[first], heads) for x in (want, merged)]
        require_close(merged, want, f"at {at} expected {told[0]}, got {told[1]}", mistakes)
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
        total = expect_tensor(parts, want.shape).sum(1)
        each = (
            "they add up, but part i is not head_i W_i^O: are these the parts of the single heads, "
            "in the order of the heads?"
        )
        all_in_all = (
            "the parts and the bias of W^O must add up to layer(x): are the heads right, and which "
            "columns of w_o.weight belong to each?"
        )
        mistakes = {
            "the bias of W^O is in every part, so it counts once for each head": want + bias,
            "the bias of W^O is shared out; it belongs to no head": want + bias / layer.n_heads,
            "the bias of W^V is missing": want - _of_value_bias(layer)[:, None],
        }
        whole = "the parts alone already add up to layer(x): the bias of W^O belongs to no head"
        adds_up = {each: close(total, want.sum(1)), whole: close(total, want.sum(1) + bias)}
        otherwise = next((told for told, so in adds_up.items() if so), all_in_all)
        require_close(parts, want, otherwise, mistakes)
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
        small = expect(keep(layer, kept), MultiHeadAttention, "a MultiHeadAttention")
        _require_untouched(layer)
        require(small.n_heads == n, f"expected {n} heads, got {small.n_heads}")
        old, new = (dict(each.named_parameters()) for each in (layer, small))
        for name, like in _layer(n).named_parameters():
            require(name in new, f"the new layer has no {name}; the old one has")
            got, size = tuple(new[name].shape), tuple(like.shape)
            pass_both = (
                "each head keeps its d_k and d_v: pass both, or the layer takes d_model / n_heads"
            )
            require(got == size, f"expected {name} of shape {size}, got {got}; {pass_both}")
        parts, bias = contributions_by_loops(layer, x), layer.w_o.bias
        first = {f"asked to keep {kept}, it keeps the first {n}": parts[:, :n].sum(1) + bias}
        strange = [name for name in new if not torch.isin(new[name].double(), old[name]).all()]
        right = f"the output must be that of heads {kept} and the bias of W^O, nothing else; "
        numbers = f"numbers in {', '.join(strange)} do not come from the old layer"
        why = f"{numbers}: copy matrices and biases"
        order = "all four matrices must be split into the same heads, in the same order"
        want = parts[:, list(kept)].sum(1) + bias
        require_close(small.double()(x), want, right + (why if strange else order), first)
        stores = {parameter.untyped_storage().data_ptr() for parameter in old.values()}
        shared = [name for name in new if new[name].untyped_storage().data_ptr() in stores]
        names = ", ".join(shared)
        yield {f"the new layer shares {names} with the old one: clone what you keep": bool(shared)}
    yield from ("as small as it should be", "the kept heads work as before")


def _origin(number: Tensor, heads: Tensor) -> str:
    """Where a number stands in heads that repeat none, or the number itself."""
    places = (heads == number).nonzero().tolist()
    return f"heads{places[0]}" if places else f"{number.item():.4g}"


def _layer(n_heads: int = 3) -> MultiHeadAttention:
    """Every dimension a different prime; float64, but exact in float32 as well."""
    layer = MultiHeadAttention(12, n_heads, d_k=11, d_v=5, d_query_in=7, d_key_in=7, d_out=13)
    generator = torch.Generator().manual_seed(5)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.4, generator=generator)
    return layer.double()


def _of_value_bias(layer: MultiHeadAttention) -> Tensor:
    """What the bias of W^V adds to the output through each head (heads, d_out)."""
    biases, w_o = layer.w_v.bias.chunk(layer.n_heads), layer.w_o.weight.T.chunk(layer.n_heads)
    return torch.stack([bias @ w for bias, w in zip(biases, w_o, strict=True)])


def _require_untouched(layer: MultiHeadAttention) -> None:
    for name, tensor in _layer(layer.n_heads).state_dict().items():
        same = torch.equal(layer.state_dict()[name], tensor)
        require(same, f"the layer that was given was changed: {name}; work on a copy")

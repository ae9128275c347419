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
    normals,
    require,
    require_close,
    require_gradients,
)
from lib.attention import MultiHeadAttention

# (batch, time, d_model, heads, d_k, d_v, d_out). In the first, as in the paper, all sizes fit each
# other: a W^O that is transposed, or heads that read a slice of x, raise no error. The number of
# positions does not divide the number of heads: else a `view` each way hides its own mistake.
LIKE_THE_PAPER = (2, 5, 12, 3, 4, 4, 12)
SIZES = (LIKE_THE_PAPER, (3, 5, 7, 2, 11, 3, 13), (1, 1, 5, 3, 2, 7, 2), (2, 7, 3, 1, 5, 2, 11))


def multi_head_by_loops(
    x: Float[Tensor, "batch time d_model"],
    w_q: Float[Tensor, "d_model all_k"],
    w_k: Float[Tensor, "d_model all_k"],
    w_v: Float[Tensor, "d_model all_v"],
    w_o: Float[Tensor, "all_v d_out"],
    n_heads: int,
) -> Float[Tensor, "batch time d_out"]:
    """Compute multi-head self-attention as a sum over heads, each with its own columns and rows.

    Source: Attention Is All You Need, section 3.2.2.
    """
    columns = (w.chunk(n_heads, dim=1) for w in (w_q, w_k, w_v))
    each = zip(*columns, w_o.chunk(n_heads), strict=True)
    return sum(attention_by_loops(x @ q, x @ k, x @ v) @ o for q, k, v, o in each)


@check("multi-head attention")
def check_multi_head(
    attend: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, int], Tensor],
) -> Steps:
    """Check attend(x, w_q, w_k, w_v, w_o, n_heads), multi-head self-attention without biases.

    Shapes: x (batch, time, d_model); w_q and w_k (d_model, heads * d_k), w_v (d_model,
        heads * d_v), w_o (heads * d_v, d_out); head i has the i-th d_k or d_v columns, and the i-th
        d_v rows of w_o. Returns (batch, time, d_out).
    """
    for sizes in SIZES:
        n_heads = sizes[3]
        x, w_q, w_k, w_v, w_o = _draw(*sizes)
        want = multi_head_by_loops(x, w_q, w_k, w_v, w_o, n_heads)
        got = attend(x, w_q, w_k, w_v, w_o, n_heads)
        merged = (*want.shape[:2], len(w_o))
        without = isinstance(got, Tensor) and got.shape == merged != want.shape
        hint = ": these are the heads side by side; W^O is missing" if without else ""
        got = expect_tensor(got, want.shape, hint=hint)
        off = (got - want).abs().max().item()
        otherwise = (
            "expected Concat(head_1, ..., head_h) W^O with head_i = softmax(Q_i K_i^T / sqrt(d_k)) "
            f"V_i, got an output that is off by {off:.2g}"
        )
        require_close(got, want, otherwise, _usual_mistakes(x, w_q, w_k, w_v, w_o, n_heads))
    yield "equals one attention for each head, concatenated and times W^O"
    yield f"on {len(SIZES)} shapes, with d_model, d_k, d_v and the output's dimension all different"

    names = ("x", "w_q", "w_k", "w_v", "w_o")
    n_heads = SIZES[1][3]

    def with_heads(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *leaves: function(*leaves, n_heads)

    leaves = dict(zip(names, _draw(*SIZES[1]), strict=True))
    require_gradients(with_heads(attend), with_heads(multi_head_by_loops), **leaves)
    yield "gradients reach the input and all four matrices"


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


def _draw(
    batch: int, time: int, d_model: int, n_heads: int, d_k: int, d_v: int, d_out: int
) -> list[Tensor]:
    """x and the four matrices, scaled so that no softmax is nearly hard."""
    shapes = [(batch, time, d_model), *[(d_model, n_heads * d_k)] * 2]
    shapes += [(d_model, n_heads * d_v), (n_heads * d_v, d_out)]
    x, *matrices = normals(*shapes, seed=time)
    return [x, *(w / math.sqrt(len(w)) for w in matrices)]


def _usual_mistakes(
    x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, h: int
) -> dict[str, Tensor]:
    """The output that each usual mistake gives, under what it means."""
    whole = query, key, value = x @ w_q, x @ w_k, x @ w_v

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (h, -1)).transpose(1, 2)  # (batch, heads, time, d)

    def merge(heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)

    def mixed(x: Tensor) -> Tensor:
        return x.reshape(len(x), h, x.shape[1], -1)

    def interleaved(x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, h)).permute(0, 3, 1, 2)

    def mean(
        q: Tensor, k: Tensor, v: Tensor, scale: int | float | None = None, dim: int = -1
    ) -> Tensor:
        scores = q @ k.mT / math.sqrt(q.shape[-1] if scale is None else scale)
        return scores.softmax(dim) @ v

    heads = q, k, v = split(query), split(key), split(value)
    apart = mean(interleaved(query), interleaved(key), interleaved(value))
    right, products = mean(*heads), q @ k.mT
    by_view = mean(mixed(query), mixed(key), mixed(value))
    a_view = (
        "positions are mixed: one reshape or view keeps the numbers in their old order; split the "
        "last axis into heads and d, then swap time and heads"
    )
    merged_wrongly = (
        "the concatenation is interleaved number by number; each head's d_v numbers stay together"
    )
    back = "the heads are merged without swapping time and heads back, so positions are mixed"
    numbers = "the heads are interleaved number by number; head i has d_k columns side by side"
    root = "divide by the root of d_k, the last axis of one head's queries"
    scales = {
        "not divided": 1.0,
        "divided by d_k itself": q.shape[-1] ** 2.0,
        "divided by the root of the number of heads": h,
        "divided by the root of the dimension of all heads together": query.shape[-1],
        "divided by the root of d_model": x.shape[-1],
        "divided by the root of d_v": v.shape[-1],
        "divided by the root of the number of positions": x.shape[1],
    }
    found = {
        a_view: by_view.reshape(*x.shape[:2], -1),
        f"{a_view}; the way back is right": merge(by_view),
        back: right.reshape(*x.shape[:2], -1),
        numbers: merge(apart),
        f"{numbers}, on the way back too": apart.permute(0, 2, 3, 1).flatten(2),
        merged_wrongly: right.permute(0, 2, 3, 1).flatten(2),
        "this is one head of all columns: the projections are not split into heads": mean(*whole),
        "queries and keys are swapped: row i of the scores belongs to query i": merge(
            mean(k, q, v)
        ),
        "the softmax runs over the queries; it must run over the keys": merge(mean(*heads, dim=-2)),
        "the softmax runs over the heads; it must run over the keys of one head": merge(
            mean(*heads, dim=1)
        ),
        "the scores are used as weights; a softmax over the keys is missing": merge(
            products / math.sqrt(q.shape[-1]) @ v
        ),
        "the heads are concatenated in another order": merge(right.flip(1)),
    }
    found |= {f"the scores are {how}; {root}": merge(mean(*heads, scale=by))
              for how, by in scales.items()}  # fmt: skip
    outputs = {meaning: concatenated @ w_o for meaning, concatenated in found.items()}
    if w_o.shape[0] == w_o.shape[1]:
        transposed = "W^O is transposed: the positions are rows, so it stands on the right as it is"
        outputs[transposed] = merge(right) @ w_o.T
        outputs["W^O is missing"] = merge(right)
    if w_q.shape == w_v.shape == (x.shape[-1], x.shape[-1]):
        slices = "each head reads only a slice of x; it has columns of the matrices, and all of x"
        parts = zip(*(z.chunk(h, -1) for z in (x, w_q, w_k, w_v)), range(h), strict=True)
        d = x.shape[-1] // h
        outputs[slices] = (
            torch.cat(
                [mean(*(one @ w[i * d : (i + 1) * d] for w in ws)) for one, *ws, i in parts], -1
            )
            @ w_o
        )
    return outputs


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

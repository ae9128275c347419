"""Chapter 5: right answers in several styles, and wrong ones with what each must be told."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from lib.attention import MultiHeadAttention, scaled_dot_product_attention


def split_in_heads(x, h):
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def in_one_view(x, h):
    return x.view(x.shape[0], h, x.shape[1], -1)


def number_by_number(x, h):
    return x.unflatten(-1, (-1, h)).permute(0, 3, 1, 2)


def concatenated(heads):
    return heads.transpose(1, 2).flatten(2)


def heads_at_once(
    split=split_in_heads,
    merge=concatenated,
    scale=lambda query, x: query.shape[-1] ** 0.5,
    dim=-1,
    softmax=True,
    swap=False,
    output=lambda heads, w_o: heads @ w_o,
):
    """The version without a loop, and what may go wrong in each of its lines."""

    def multi_head_attention(x, w_q, w_k, w_v, w_o, n_heads):
        if swap:
            w_q, w_k = w_k, w_q
        query, key, value = (split(x @ w, n_heads) for w in (w_q, w_k, w_v))
        scores = query @ key.transpose(-2, -1) / scale(query, x)
        weights = scores.softmax(dim) if softmax else scores
        return output(merge(weights @ value), w_o)

    return multi_head_attention


def heads_in_a_loop(x, w_q, w_k, w_v, w_o, n_heads):
    d_k, d_v, found = w_q.shape[1] // n_heads, w_v.shape[1] // n_heads, []
    for i in range(n_heads):
        qk, v = slice(i * d_k, (i + 1) * d_k), slice(i * d_v, (i + 1) * d_v)
        scores = (x @ w_q[:, qk]) @ (x @ w_k[:, qk]).mT / d_k**0.5
        found.append(scores.softmax(-1) @ x @ w_v[:, v])
    return torch.cat(found, dim=-1) @ w_o


def summed_over_heads(x, w_q, w_k, w_v, w_o, n_heads):
    each = [w.chunk(n_heads, dim=1) for w in (w_q, w_k, w_v)]
    out = 0
    for q, k, v, o in zip(*each, w_o.chunk(n_heads), strict=True):
        out = out + scaled_dot_product_attention(x @ q, x @ k, x @ v) @ o
    return out


def heads_in_the_batch(x, w_q, w_k, w_v, w_o, n_heads):
    """As the Annotated Transformer's descendants do: batch and heads as one axis."""
    batch, time, _ = x.shape
    query, key, value = (
        (x @ w)
        .reshape(batch, time, n_heads, -1)
        .permute(0, 2, 1, 3)
        .reshape(batch * n_heads, time, -1)
        for w in (w_q, w_k, w_v)
    )
    weights = torch.bmm(query, key.transpose(1, 2)).div(math.sqrt(query.size(-1))).softmax(2)
    heads = torch.bmm(weights, value).reshape(batch, n_heads, time, -1)
    return heads.permute(0, 2, 1, 3).reshape(batch, time, -1) @ w_o


def torchs_heads(x, w_q, w_k, w_v, w_o, n_heads):
    parts = (split_in_heads(F.linear(x, w.T), n_heads) for w in (w_q, w_k, w_v))
    return F.linear(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2), w_o.T)


def heads_by_einsum(x, w_q, w_k, w_v, w_o, n_heads):
    q, k, v = (w.unflatten(1, (n_heads, -1)) for w in (w_q, w_k, w_v))
    scores = torch.einsum("bnx,xhd,yhd,bmy->bhnm", x, q, k, x) / math.sqrt(q.shape[-1])
    o = w_o.unflatten(0, (n_heads, -1))
    return torch.einsum("bhnm,bmx,xhv,hvo->bno", scores.softmax(-1), x, v, o)


def slices_of_x(x, w_q, w_k, w_v, w_o, n_heads):
    """The heads share the input among them, where the dimensions allow it."""
    heads = []
    for i, part in enumerate(x.chunk(n_heads, -1)):
        own = slice(i * part.shape[-1], (i + 1) * part.shape[-1])
        blocks = (w.chunk(n_heads, 1)[i][own] for w in (w_q, w_k, w_v))
        heads.append(scaled_dot_product_attention(*(part @ block for block in blocks)))
    return torch.cat(heads, -1) @ w_o


def heads_averaged(x, w_q, w_k, w_v, w_o, n_heads):
    return heads_at_once(merge=lambda heads: heads.mean(1))(x, w_q, w_k, w_v, w_o, n_heads)


def w_o_drawn_inside(x, w_q, w_k, w_v, w_o, n_heads):
    """The output projection is made anew at every call, so it is never trained."""
    w_o = nn.Linear(*w_o.shape, bias=False, dtype=x.dtype, device=x.device)
    return w_o(heads_at_once(output=lambda heads, _: heads)(x, w_q, w_k, w_v, None, n_heads))


def scaled_in_place(x, w_q, w_k, w_v, w_o, n_heads):
    w_q /= math.sqrt(w_q.shape[1] // n_heads)
    return heads_at_once(scale=lambda *_: 1)(x, w_q, w_k, w_v, w_o, n_heads)


def merged_into(like):
    def merge_heads(heads):
        batch, n_heads, time, d_v = heads.shape
        out = like(heads, (batch, time, n_heads * d_v))
        for i in range(n_heads):
            out[:, :, i * d_v : (i + 1) * d_v] = heads[:, i]
        return out

    return merge_heads


def swapped_in_place(heads):
    return heads.transpose_(1, 2).flatten(2)


def doubled_in_place(heads):
    return heads.mul_(1.5).transpose(1, 2).flatten(2)


def parts(layer, x, *, bias=0.0, rows=True):
    """What each head adds; with the bias in every part, or with W^O's rows dealt out wrongly."""
    weights = layer.attention_weights(x)
    value = layer.w_v(x).unflatten(-1, (layer.n_heads, -1))  # (batch, key, heads, d_v)
    heads = torch.einsum("bhnm,bmhv->bhnv", weights, value)
    w_o = layer.w_o.weight.T
    cut = (
        w_o.unflatten(0, (layer.n_heads, -1))
        if rows
        else w_o.unflatten(0, (-1, layer.n_heads)).transpose(0, 1)
    )
    return torch.einsum("bhnv,hvo->bhno", heads, cut) + bias * layer.w_o.bias


def parts_head_by_head(layer, x):
    weights, value, found = layer.attention_weights(x), layer.w_v(x), []
    d_v = value.shape[-1] // layer.n_heads
    for i in range(layer.n_heads):
        own = slice(i * d_v, (i + 1) * d_v)
        found.append(weights[:, i] @ value[..., own] @ layer.w_o.weight[:, own].T)
    return torch.stack(found, dim=1)


def parts_from_the_start(layer, x):
    """All heads anew, each put between zeros and sent through W^O without its bias."""
    split = [w(x).unflatten(-1, (layer.n_heads, -1)) for w in (layer.w_q, layer.w_k, layer.w_v)]
    heads = scaled_dot_product_attention(*(part.transpose(1, 2) for part in split))
    found = []
    for i in range(layer.n_heads):
        alone = torch.zeros_like(heads)
        alone[:, i] = heads[:, i]
        found.append(nn.functional.linear(alone.transpose(1, 2).flatten(2), layer.w_o.weight))
    return torch.stack(found, dim=1)


def parts_by_a_hook(layer, x):
    """What W^O is given is seen on its way in."""
    given = []
    hook = layer.w_o.register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    layer(x_query=x)
    hook.remove()
    pairs = zip(
        given[0].chunk(layer.n_heads, -1), layer.w_o.weight.chunk(layer.n_heads, 1), strict=True
    )
    return torch.stack([head @ w.T for head, w in pairs]).transpose(0, 1)


def without(layer, i):
    """A copy with one head switched off."""
    other = copy.deepcopy(layer)
    with torch.no_grad():
        other.w_o.weight.unflatten(1, (layer.n_heads, -1))[:, i] = 0
    return other


def differences(layer, x):
    return torch.stack([layer(x) - without(layer, i)(x) for i in range(layer.n_heads)], dim=1)


def parts_by_switching_off(put_back):
    """The difference that each head makes, measured on the layer itself."""

    def contributions(layer, x):
        found, weight = [], layer.w_o.weight.data.clone()
        for i in range(layer.n_heads):
            before = layer(x)
            layer.w_o.weight.data.unflatten(1, (layer.n_heads, -1))[:, i] = 0
            found.append(before - layer(x))
            if put_back:
                layer.w_o.weight.data.copy_(weight)
        return torch.stack(found, 1)

    return contributions


def value_bias_forgotten(layer, x):
    other = copy.deepcopy(layer)
    other.w_v.bias.data.zero_()
    return parts(other, x)


def three_heads(layer, x):
    """With the number of heads of the first layer that came."""
    value = layer.w_v(x).unflatten(-1, (3, -1)).transpose(1, 2)
    w_o = layer.w_o.weight.T.unflatten(0, (3, -1))
    return layer.attention_weights(x) @ value @ w_o


def looked_at(layer, x):
    """With the map transposed: what each position gives, not what it gets."""
    value = layer.w_v(x).unflatten(-1, (layer.n_heads, -1)).transpose(1, 2)
    w_o = layer.w_o.weight.T.unflatten(0, (layer.n_heads, -1))
    return layer.attention_weights(x).mT @ value @ w_o


def heads_alone(layer, x):
    weights = layer.attention_weights(x)
    return weights @ layer.w_v(x).unflatten(-1, (layer.n_heads, -1)).transpose(1, 2)


def centred_in_place(layer, x):
    found = parts(layer, x)
    x -= x.mean()
    return found


def ends(layer):
    """The arguments of a layer with the same widths, also of each head."""
    return {
        "d_query_in": layer.w_q.in_features,
        "d_key_in": layer.w_k.in_features,
        "d_value_in": layer.w_v.in_features,
        "d_out": layer.w_o.out_features,
        "d_k": layer.w_q.out_features // layer.n_heads,
        "d_v": layer.w_v.out_features // layer.n_heads,
    }


def pruned(layer, kept, *, pick=True, bias=True, output=True, inputs="qkv"):
    """A smaller layer, with one thing forgotten."""
    h, kept = layer.n_heads, list(kept) if pick else list(range(len(kept)))
    small = MultiHeadAttention(12, len(kept), **ends(layer))
    for name in inputs:
        old, new = getattr(layer, f"w_{name}"), getattr(small, f"w_{name}")
        new.weight.data = old.weight.data.unflatten(0, (h, -1))[kept].flatten(0, 1)
        if bias:
            new.bias.data = old.bias.data.unflatten(0, (h, -1))[kept].flatten()
    if output:
        small.w_o.weight.data = layer.w_o.weight.data.unflatten(1, (h, -1))[:, kept].flatten(1)
    small.w_o.bias.data = layer.w_o.bias.data.clone()
    return small


def columns(layer, kept, name):
    """The rows of a projection that belong to these heads, as one tensor of indices."""
    d = getattr(layer, name).out_features // layer.n_heads
    return torch.cat([torch.arange(i * d, (i + 1) * d) for i in kept])


def copied_head_by_head(layer, kept):
    small = MultiHeadAttention(layer.n_heads, len(kept), **ends(layer))
    d_v = layer.w_v.out_features // layer.n_heads
    with torch.no_grad():
        for new, old in enumerate(kept):
            for name in ("w_q", "w_k", "w_v"):
                a, b = getattr(small, name), getattr(layer, name)
                d = b.out_features // layer.n_heads
                a.weight[new * d : new * d + d].copy_(b.weight[old * d : old * d + d])
                a.bias[new * d : new * d + d].copy_(b.bias[old * d : old * d + d])
            there, here = slice(old * d_v, old * d_v + d_v), slice(new * d_v, new * d_v + d_v)
            small.w_o.weight[:, here] = layer.w_o.weight[:, there]
        small.w_o.bias.copy_(layer.w_o.bias)
    return small


def by_state_dict(layer, kept):
    """The heads in ascending order: what they add up to does not depend on it."""
    kept = sorted(kept)
    state = {name: value.clone() for name, value in layer.state_dict().items()}
    for name in ("w_q", "w_k", "w_v"):
        for part in ("weight", "bias"):
            state[f"{name}.{part}"] = state[f"{name}.{part}"][columns(layer, kept, name)]
    state["w_o.weight"] = state["w_o.weight"][:, columns(layer, kept, "w_v")]
    small = MultiHeadAttention(1, len(kept), **ends(layer))
    small.load_state_dict(state)
    return small


def by_a_smaller_copy(layer, kept):
    small = copy.deepcopy(layer)
    small.n_heads = small.n_kv_heads = len(kept)
    for name in ("w_q", "w_k", "w_v"):
        old, rows = getattr(layer, name), columns(layer, kept, name)
        new = nn.Linear(old.in_features, len(rows))
        new.weight, new.bias = (nn.Parameter(w.detach()[rows]) for w in (old.weight, old.bias))
        setattr(small, name, new)
    rows = columns(layer, kept, "w_v")
    small.w_o = nn.Linear(len(rows), layer.w_o.out_features)
    small.w_o.weight.data = layer.w_o.weight.detach()[:, rows]
    small.w_o.bias.data = layer.w_o.bias.detach().clone()
    return small


def by_chunks(layer, kept):
    small = MultiHeadAttention(1, len(kept), **ends(layer))
    for name, old in layer.named_parameters():
        pieces = old.detach().chunk(layer.n_heads, dim=1 if name == "w_o.weight" else 0)
        new = old.detach().clone()
        if name != "w_o.bias":
            new = torch.cat([pieces[i] for i in kept], dim=1 if name == "w_o.weight" else 0)
        part, kind = name.split(".")
        setattr(getattr(small, part), kind, nn.Parameter(new))
    return small


def bias_in_proportion(layer, kept):
    small = pruned(layer, kept)
    small.w_o.bias.data *= len(kept) / layer.n_heads
    return small


def switched_off(layer, kept):
    """The old layer with zeros in W^O: the right output, and not a bit smaller."""
    for i in {*range(layer.n_heads)} - {*kept}:
        layer.w_o.weight.data.unflatten(1, (layer.n_heads, -1))[:, i] = 0
    return layer


def zeros_in_a_copy(layer, kept):
    return switched_off(copy.deepcopy(layer), kept)


def cut_in_place(layer, kept):
    """The right layer; but the old one is no longer what it was."""
    small = pruned(layer, kept)
    for name in ("w_q", "w_k", "w_v", "w_o"):
        setattr(layer, name, getattr(small, name))
    layer.n_heads = len(kept)
    return layer


def shared_bias(layer, kept):
    small = pruned(layer, kept)
    small.w_o.bias = layer.w_o.bias
    return small


def without_biases(layer, kept):
    return MultiHeadAttention(12, len(kept), bias=False, **ends(layer))


def of_equal_width(layer, kept):
    """d_model / n_heads decides the width: with fewer heads each one gets wider."""
    widths = {name: width for name, width in ends(layer).items() if name not in ("d_k", "d_v")}
    return MultiHeadAttention(12, len(kept), **widths)


def others(layer, kept):
    return pruned(layer, [i for i in range(layer.n_heads) if i not in kept])


def mixed_order(layer, kept):
    small, ascending = pruned(layer, kept), pruned(layer, sorted(kept))
    small.w_o = ascending.w_o
    return small


def output_scaled(layer, kept):
    small = pruned(layer, kept)
    small.w_o.weight.data *= layer.n_heads / len(kept)
    return small


RIGHT = {
    "multi_head_attention": [
        heads_at_once(),
        heads_in_a_loop,
        summed_over_heads,
        heads_in_the_batch,
        torchs_heads,
        heads_by_einsum,
    ],
    "merge_heads": [
        lambda heads: heads.permute(0, 2, 1, 3).reshape(heads.shape[0], heads.shape[2], -1),
        lambda heads: torch.cat(list(heads.unbind(1)), dim=-1),
        lambda heads: torch.dstack([heads[:, i] for i in range(heads.shape[1])]),
        lambda heads: (
            torch.einsum("bhtd->bthd", heads).contiguous().view(*heads[:, 0].shape[:2], -1)
        ),
        merged_into(torch.Tensor.new_zeros),
        merged_into(lambda heads, shape: torch.zeros(shape)),
        lambda heads: heads.movedim(1, 2).flatten(start_dim=-2),
        lambda heads: torch.stack(
            [torch.cat(tuple(heads[:, :, t].mT.mT.unbind(1)), -1) for t in range(heads.shape[2])], 1
        ),
    ],
    "contributions": [
        parts,
        parts_head_by_head,
        parts_from_the_start,
        parts_by_a_hook,
        differences,
        parts_by_switching_off(put_back=True),
        lambda layer, x: parts(layer, x).detach().contiguous().float(),
    ],
    "keep_heads": [
        pruned,
        copied_head_by_head,
        by_state_dict,
        by_a_smaller_copy,
        by_chunks,
        lambda layer, kept: pruned(layer, [*kept][::-1]),
    ],
}
WRONG = {
    "multi_head_attention": {
        heads_at_once(split=in_one_view): "the way back is right",
        heads_at_once(
            split=in_one_view, merge=lambda heads: heads.reshape(len(heads), heads.shape[2], -1)
        ): "positions are mixed: one reshape or view keeps the numbers in their old order",
        heads_at_once(
            merge=lambda heads: heads.reshape(len(heads), heads.shape[2], -1)
        ): "merged without swapping time and heads back",
        heads_at_once(split=number_by_number): "interleaved number by number; head i has d_k",
        heads_at_once(
            split=number_by_number, merge=lambda heads: heads.permute(0, 2, 3, 1).flatten(2)
        ): "on the way back too",
        heads_at_once(
            merge=lambda heads: heads.permute(0, 2, 3, 1).flatten(2)
        ): "the concatenation is interleaved",
        heads_at_once(
            split=lambda x, _: x, merge=lambda x: x
        ): "this is one head of all columns: the projections are not split",
        heads_at_once(scale=lambda *_: 1): "the scores are not divided",
        heads_at_once(scale=lambda query, x: query.shape[-1]): "divided by d_k itself",
        heads_at_once(
            scale=lambda query, x: query.size(1) ** 0.5
        ): "divided by the root of the number of heads",
        heads_at_once(
            scale=lambda query, x: (query.shape[1] * query.shape[-1]) ** 0.5
        ): "divided by the root of the dimension of all heads together",
        heads_at_once(
            scale=lambda query, x: query.shape[-2] ** 0.5
        ): "divided by the root of the number of positions",
        heads_at_once(dim=-2): "the softmax runs over the queries",
        heads_at_once(dim=1): "the softmax runs over the heads",
        heads_at_once(softmax=False): "the scores are used as weights",
        heads_at_once(swap=True): "queries and keys are swapped",
        heads_at_once(output=lambda heads, w_o: heads): "W^O is missing",
        heads_at_once(output=lambda heads, w_o: heads @ w_o.T): "W^O is transposed",
        heads_at_once(merge=lambda heads: concatenated(heads.flip(1))): "in another order",
        heads_averaged: "your function raised RuntimeError",
        slices_of_x: "each head reads only a slice of x",
        w_o_drawn_inside: "got an output that is off by",
        scaled_in_place: "argument 2 was changed",
        lambda x, *more: heads_at_once()(
            x.detach(), *more
        ): "the gradient of x is wrong or missing",
        lambda x, w_q, w_k, w_v, w_o, n: heads_at_once()(
            x.float(), *(w.float() for w in (w_q, w_k, w_v, w_o)), n
        ): "right to the digits of float32 only",
    },
    "merge_heads": {
        lambda heads: heads.flatten(2): "got (2, 3, 35)",
        lambda heads: heads.reshape(heads.shape[0], heads.shape[2], -1): "the positions are mixed",
        lambda heads: heads.permute(0, 2, 3, 1).flatten(2): "interleaved",
        lambda heads: torch.stack(heads.unbind(1), -1).flatten(2): "interleaved",
        lambda heads: heads.flip(1).transpose(1, 2).flatten(2): (
            "at [0, 0, 0] expected heads[0, 0, 0, 0], got heads[0, 2, 0, 0]"
        ),
        lambda heads: heads.mean(1): "got (2, 5, 7)",
        lambda heads: heads.sum(1): "got (2, 5, 7)",
        lambda heads: heads.transpose(1, 2): "got (2, 5, 3, 7)",
        lambda heads: torch.cat(list(heads.unbind(1)), dim=1): "got (2, 15, 7)",
        lambda heads: heads.detach().transpose(1, 2).flatten(2): "no gradient",
        lambda heads: heads.permute(2, 0, 1, 3).reshape(heads.shape[0], heads.shape[2], -1): (
            "at [0, 1, 0] expected heads[0, 0, 1, 0], got heads[1, 0, 0, 0]"
        ),
        lambda heads: tuple(heads.unbind(1)): "expected a tensor of shape (2, 5, 21)",
        swapped_in_place: "argument 1 was changed",
        doubled_in_place: "argument 1 was changed",
    },
    "contributions": {
        lambda layer, x: layer(x): "got (2, 5, 13)",
        lambda layer, x: parts(layer, x, bias=1.0): "counts once for each head",
        lambda layer, x: parts(layer, x, bias=1 / layer.n_heads): "the bias of W^O is shared out",
        lambda layer, x: parts(layer, x, rows=False): "columns of w_o.weight belong to each?",
        lambda layer, x: parts(layer, x).flip(1): "in the order of the heads?",
        lambda layer, x: (
            layer(x)[:, None].expand(-1, 3, -1, -1) / 3
        ): "the parts alone already add up",
        lambda layer, x: parts(layer, x).transpose(1, 2): "got (2, 5, 3, 13)",
        heads_alone: "got (2, 3, 5, 5)",
        three_heads: "your function raised",
        looked_at: "must add up to layer(x)",
        lambda layer, x: list(
            parts(layer, x).unbind(1)
        ): "expected a tensor of shape (2, 3, 5, 13)",
        value_bias_forgotten: "the bias of W^V is missing",
        parts_by_switching_off(put_back=False): "the layer that was given was changed: w_o.weight",
        centred_in_place: "argument 2 was changed",
    },
    "keep_heads": {
        switched_off: "the layer that was given was changed: w_o.weight",
        cut_in_place: "the layer that was given was changed: w_q.weight",
        zeros_in_a_copy: "expected 2 heads, got 3",
        of_equal_width: "pass both, or the layer takes d_model / n_heads",
        lambda layer, kept: pruned(layer, kept, pick=False): "keeps the first 2",
        lambda layer, kept: pruned(layer, kept, bias=False): "w_k.bias, w_v.bias do not come",
        lambda layer, kept: pruned(
            layer, kept, output=False
        ): "numbers in w_o.weight do not come from the old layer",
        lambda layer, kept: pruned(layer, kept, inputs="qk"): "numbers in w_v.weight, w_v.bias",
        others: "expected 2 heads, got 1",
        mixed_order: "the same heads, in the same order",
        output_scaled: "numbers in w_o.weight do not come",
        bias_in_proportion: "numbers in w_o.bias do not come",
        lambda layer, kept: pruned(layer, kept).forward: "expected a MultiHeadAttention, got ",
        without_biases: "the new layer has no w_q.bias; the old one has",
        shared_bias: "shares w_o.bias with",
    },
}

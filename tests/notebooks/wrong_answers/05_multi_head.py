"""Wrong answers to the exercises of chapter 5, each a mistake that people make."""

import torch

from lib.attention import MultiHeadAttention


def parts(layer, x, *, bias=0.0, rows=True):
    """What each head adds; with the bias in every part, or with W^O's rows dealt out wrongly."""
    _, weights = layer(x, return_weights=True)
    value = layer.w_v(x).unflatten(-1, (layer.n_heads, -1))  # (batch, key, heads, d_v)
    heads = torch.einsum("bhnm,bmhv->bhnv", weights, value)
    w_o = layer.w_o.weight.T
    cut = (
        w_o.unflatten(0, (layer.n_heads, -1))
        if rows
        else w_o.unflatten(0, (-1, layer.n_heads)).transpose(0, 1)
    )
    return torch.einsum("bhnv,hvo->bhno", heads, cut) + bias * layer.w_o.bias


def pruned(layer, kept, *, pick=True, bias=True, output=True):
    """A smaller layer, with one thing forgotten."""
    h, kept = layer.n_heads, list(kept) if pick else list(range(len(kept)))
    ends = {"d_query_in": layer.w_q.in_features, "d_key_in": layer.w_k.in_features}
    ends |= {"d_value_in": layer.w_v.in_features, "d_out": layer.w_o.out_features}
    ends |= {"d_k": layer.w_q.out_features // h, "d_v": layer.w_v.out_features // h}
    small = MultiHeadAttention(12, len(kept), **ends)
    for name in ("w_q", "w_k", "w_v"):
        old, new = getattr(layer, name), getattr(small, name)
        new.weight.data = old.weight.data.unflatten(0, (h, -1))[kept].flatten(0, 1)
        if bias:
            new.bias.data = old.bias.data.unflatten(0, (h, -1))[kept].flatten()
    if output:
        small.w_o.weight.data = layer.w_o.weight.data.unflatten(1, (h, -1))[:, kept].flatten(1)
    small.w_o.bias.data = layer.w_o.bias.data.clone()
    return small


def switched_off(layer, kept):
    """The old layer with zeros in W^O: the right output, and not a bit smaller."""
    for i in {*range(layer.n_heads)} - {*kept}:
        layer.w_o.weight.data.unflatten(1, (layer.n_heads, -1))[:, i] = 0
    return layer


def of_equal_width(layer, kept):
    """d_model / n_heads decides the width: with fewer heads each one gets wider."""
    ends = {"d_query_in": 7, "d_key_in": 7, "d_out": 13}
    return MultiHeadAttention(12, len(kept), **ends)


WRONG = {
    "merge_heads": [
        lambda heads: heads.flatten(2),  # each head's numbers joined, not each position's
        lambda heads: heads.reshape(heads.shape[0], heads.shape[2], -1),  # no swap
        lambda heads: heads.permute(0, 2, 3, 1).flatten(2),  # interleaved
        lambda heads: heads.flip(1).transpose(1, 2).flatten(2),  # the last head first
        lambda heads: heads.mean(1),
    ],
    "contributions": [
        lambda layer, x: layer(x),  # the sum
        lambda layer, x: parts(layer, x, bias=1.0),  # the bias three times
        lambda layer, x: parts(layer, x, bias=1 / 3),  # a third of it in each
        lambda layer, x: parts(layer, x, rows=False),
        lambda layer, x: parts(layer, x).flip(1),  # the right sum, the wrong heads
        lambda layer, x: layer(x)[:, None].expand(-1, 3, -1, -1) / 3,
    ],
    "keep_heads": [
        switched_off,
        of_equal_width,
        lambda layer, kept: pruned(layer, kept, pick=False),  # the first heads
        lambda layer, kept: pruned(layer, kept, bias=False),
        lambda layer, kept: pruned(layer, kept, output=False),
    ],
}

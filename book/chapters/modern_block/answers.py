"""Chapter 16: right answers in several styles, and wrong ones with what each must be told."""

import torch
from torch.nn import functional as F


def norm(divisor):
    """x over a divisor, times the gain."""
    return lambda x, gain: x / divisor(x) * gain


def root_of_mean(x, eps=1e-5):
    return (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()


def by_length(x, gain):
    d = x.shape[-1]
    return x * d**0.5 / ((x * x).sum(-1, keepdim=True) + d * 1e-5) ** 0.5 * gain


def changed_in_place(x, gain):
    x /= root_of_mean(x)
    return x * gain


def grouped(spread):
    """Attention with keys and values spread over the query heads."""

    def my_grouped_attention(query, key, value):
        group = len(query) // len(key)
        key, value = spread(key, group), spread(value, group)
        scores = query @ key.mT / query.shape[-1] ** 0.5
        return scores.softmax(dim=-1) @ value

    return my_grouped_attention


def by_groups(query, key, value):
    """The query heads of a group on an axis of their own: nothing is copied."""
    q = query.unflatten(0, (len(key), -1))
    scores = q @ key[:, None].mT / query.shape[-1] ** 0.5
    return (scores.softmax(-1) @ value[:, None]).flatten(0, 1)


def head_by_head(query, key, value):
    group = query.shape[0] // key.shape[0]
    heads = []
    for i in range(len(query)):
        scores = query[i] @ key[i // group].T / query.shape[2] ** 0.5
        heads.append(torch.softmax(scores, dim=1) @ value[i // group])
    return torch.stack(heads)


def by_torch(query, key, value):
    return F.scaled_dot_product_attention(query[None], key[None], value[None], enable_gqa=True)[0]


def undivided(query, key, value):
    group = len(query) // len(key)
    key, value = (x.repeat_interleave(group, 0) for x in (key, value))
    return (query @ key.mT).softmax(-1) @ value


def values_tiled(query, key, value):
    group = len(query) // len(key)
    scores = query @ key.repeat_interleave(group, 0).mT / query.shape[-1] ** 0.5
    return scores.softmax(-1) @ value.repeat(group, 1, 1)


def distance(time):
    position = torch.arange(time)
    return position[:, None] - position


def by_triangles(time, window):
    ones = torch.ones(time, time, dtype=torch.bool)
    return ones.tril() & ones.triu(1 - window)


def one_by_one(time, window):
    return torch.tensor([[0 <= i - j < window for j in range(time)] for i in range(time)])


def row_by_row(time, window):
    mask = torch.zeros(time, time, dtype=torch.bool)
    for i in range(time):
        mask[i, max(0, i - window + 1) : i + 1] = True
    return mask


def turned(x, halves=False):
    """(heads, time, d): pairs of entries as complex numbers, rotated by their position."""
    d = x.shape[-1]
    angle = torch.arange(x.shape[-2], dtype=x.dtype)[:, None]
    angle = angle / 10_000 ** (torch.arange(0, d, 2, dtype=x.dtype) / d)
    if halves:
        a, b = x.chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


RMS = norm(root_of_mean)


def block_with(
    turn=turned,
    first=RMS,
    second=RMS,
    causal=True,
    keep=1,
    inner=lambda a, b: F.silu(a) * b,
    turn_values=lambda v: v,
):
    """The block, head by head with torch's attention, and what a reader may do otherwise."""

    def my_block(x, w, n_heads, n_kv_heads):
        def split(x, n):
            return x.view(len(x), n, -1).permute(1, 0, 2)

        normed = first(x, w["gain_1"])
        q, k = turn(split(normed @ w["q"], n_heads)), turn(split(normed @ w["k"], n_kv_heads))
        v = turn_values(split(normed @ w["v"], n_kv_heads))
        found = F.scaled_dot_product_attention(
            q[None], k[None], v[None], is_causal=causal, enable_gqa=True
        )[0]
        x = keep * x + found.permute(1, 0, 2).reshape(len(x), -1) @ w["o"]
        normed = second(x, w["gain_2"])
        return keep * x + inner(normed @ w["1"], normed @ w["3"]) @ w["2"]

    return my_block


def norms_behind(x, w, n_heads, n_kv_heads):
    def same(x, gain):
        return x

    zeros = {**w, "2": torch.zeros_like(w["2"])}
    x = RMS(block_with(first=same, second=same)(x, zeros, n_heads, n_kv_heads), w["gain_1"])
    return RMS(x + (F.silu(x @ w["1"]) * (x @ w["3"])) @ w["2"], w["gain_2"])


RIGHT = {
    "my_block": [
        block_with(),
        block_with(inner=lambda a, b: a * torch.sigmoid(a) * b),
        block_with(first=by_length, second=lambda x, gain: F.rms_norm(x, gain.shape, gain, 1e-5)),
    ],
    "my_rms_norm": [
        norm(root_of_mean),
        by_length,
        lambda x, gain: F.rms_norm(x, gain.shape, gain, 1e-5),
        lambda x, gain: gain * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5),
    ],
    "my_grouped_attention": [
        grouped(lambda x, group: x.repeat_interleave(group, dim=0)),
        grouped(lambda x, group: x[:, None].expand(-1, group, -1, -1).flatten(0, 1)),
        by_groups,
        head_by_head,
        by_torch,
    ],
    "my_window_mask": [
        lambda time, window: (distance(time) >= 0) & (distance(time) < window),
        by_triangles,
        one_by_one,
        row_by_row,
    ],
}
WRONG = {
    "my_block": {
        block_with(keep=0): "they must be added to it",
        norms_behind: "each must stand before its sub-layer",
        block_with(second=lambda x, gain: x): "reads x without its norm",
        block_with(
            first=lambda x, gain: x / root_of_mean(x), second=lambda x, gain: x / root_of_mean(x)
        ): "the scales of the norms are missing",
        block_with(turn=lambda x: x): "the order of tokens is lost",
        block_with(turn=lambda x: turned(x, halves=True)): "and of the sum y",
        block_with(causal=False): "a causal mask is missing",
        block_with(inner=lambda a, b: a * F.silu(b)): "it belongs on x W_1",
        block_with(inner=lambda a, b: F.silu(a)): "that is no gate",
        block_with(inner=lambda a, b: a.relu() * b): "it is silu",
        block_with(turn_values=turned): "only queries and keys are",
    },
    "my_rms_norm": {
        lambda x, gain: x / root_of_mean(x): "the scale is missing",
        lambda x, gain: F.layer_norm(x, gain.shape, gain): "that is layer norm",
        norm(lambda x: (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()): "standard deviation",
        norm(lambda x: (x.square().sum(-1, keepdim=True) + 1e-5).sqrt()): "summed, not averaged",
        norm(lambda x: x.square().mean(-1, keepdim=True) + 1e-5): "the root is missing",
        norm(lambda x: (x.square().mean() + 1e-5).sqrt()): "over all positions together",
        norm(lambda x: root_of_mean(x, 0.0)): "expected x / sqrt",
        changed_in_place: "argument 1 was changed",
    },
    "my_grouped_attention": {
        grouped(lambda x, group: x.repeat(group, 1, 1)): "neighbours must share",
        grouped(lambda x, group: x[:1]): "the first key head",
        grouped(lambda x, group: x.mean(0, keepdim=True)): "the key heads are averaged",
        values_tiled: "other heads than the keys",
        undivided: "not divided by sqrt(d_k)",
        lambda q, k, v: q @ k.mT: "your function raised",
    },
    "my_window_mask": {
        lambda time, window: (distance(time) >= 0) & (distance(time) <= window): "one too many",
        lambda time, window: (distance(time) > 0) & (distance(time) < window): "one too few",
        lambda time, window: distance(time) >= 0: "old positions stay visible",
        lambda time, window: distance(time) < window: "later positions are visible",
        lambda time, window: ~one_by_one(time, window): "exchanged",
        lambda time, window: one_by_one(time, window).T: "transpose it",
        lambda time, window: one_by_one(time, window).float(): "expected True and False",
    },
}

"""Wrong answers to the exercises of chapter 8, each a mistake that people make."""

import torch
from torch import nn

from lib.attention import scaled_dot_product_attention
from lib.positions import ALiBi, Rotary, sinusoidal_table


class WrongExponent(nn.Module):
    """The cosine's exponent counts on: 2i + 1 instead of 2i."""

    def __init__(self, d_model, max_length):
        super().__init__()
        column = torch.arange(d_model)
        angle = torch.arange(max_length)[:, None] / 10_000 ** (column / d_model)
        self.register_buffer("table", torch.where(column % 2 == 0, angle.sin(), angle.cos()))

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class PlainAttribute(nn.Module):
    """Right values, but the table neither moves with .to() nor is a buffer."""

    def __init__(self, d_model, max_length):
        super().__init__()
        self.table = sinusoidal_table(max_length, d_model)

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class Trained(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.table = nn.Parameter(sinusoidal_table(max_length, d_model))

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class Buffer(nn.Module):
    """The right table as a buffer; what becomes of it differs."""

    def __init__(self, d_model, max_length):
        super().__init__()
        self.register_buffer("table", self.make(d_model, max_length))

    def make(self, d_model, max_length):
        return sinusoidal_table(max_length, d_model)

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class BatchForTime(Buffer):
    def forward(self, x):
        return x + self.table[: x.shape[0], None]


class FirstPositionOnly(Buffer):
    def forward(self, x):
        return x + self.table[0]


class Multiplied(Buffer):
    def forward(self, x):
        return x * self.table[: x.shape[1]]


class Concatenated(Buffer):
    def forward(self, x):
        return torch.cat([x, self.table[: x.shape[1]].expand_as(x)], dim=-1)


class Scaled(Buffer):
    def forward(self, x):
        return x * x.shape[-1] ** 0.5 + self.table[: x.shape[1]]


class CosineFirst(Buffer):
    def make(self, d_model, max_length):
        wide = sinusoidal_table(max_length, d_model + d_model % 2)
        return wide.unflatten(1, (-1, 2)).flip(-1).flatten(1)[:, :d_model]


class Halves(Buffer):
    def make(self, d_model, max_length):
        table = sinusoidal_table(max_length, d_model)
        return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)


class FromOne(Buffer):
    def make(self, d_model, max_length):
        return sinusoidal_table(max_length + 1, d_model)[1:]


def rotary(query, key, value, turned):
    turn = Rotary(query.shape[-1]).double().rotate
    query, key, value = (
        turn(x) if name in turned else x for name, x in zip("qkv", (query, key, value), strict=True)
    )
    return scaled_dot_product_attention(query, key, value)


def halves(query, key, value):
    """Entry i is paired with entry i + d_k / 2."""
    order = torch.arange(query.shape[-1]).view(2, -1).T.flatten()
    return rotary(query[..., order], key[..., order], value, "qk")


def backwards(query, key, value):
    """The key is turned the other way: the score depends on the sum of the positions."""
    turn = Rotary(query.shape[-1]).double().rotate
    conjugate = torch.tensor([1.0, -1.0], dtype=key.dtype).repeat(key.shape[-1] // 2)
    return scaled_dot_product_attention(turn(query), conjugate * turn(conjugate * key), value)


def time_and_heads_swapped(query, key, value):
    turn = Rotary(query.shape[-1]).double().rotate
    query, key = (turn(x.transpose(0, 1)).transpose(0, 1) for x in (query, key))
    return scaled_dot_product_attention(query, key, value)


def added(query, key, value):
    table = sinusoidal_table(*query.shape[1:], dtype=query.dtype)
    return scaled_dot_product_attention(query + table, key + table, value)


def alibi(n_heads, n, slopes=None, sign=-1):
    head = torch.arange(1, n_heads + 1)
    slopes = 2.0 ** (-8 * head / n_heads) if slopes is None else slopes(head)
    place = torch.arange(n)
    return sign * slopes[:, None, None] * (place[:, None] - place)


WRONG = {
    "FixedPositions": [
        WrongExponent,
        PlainAttribute,
        Trained,
        BatchForTime,
        FirstPositionOnly,
        Multiplied,
        Concatenated,
        Scaled,
        CosineFirst,
        Halves,
        FromOne,
    ],
    "rotary_attention": [
        lambda query, key, value: rotary(query, key, value, ""),
        lambda query, key, value: rotary(query, key, value, "q"),
        lambda query, key, value: rotary(query, key, value, "k"),
        lambda query, key, value: rotary(query, key, value, "qkv"),
        halves,
        backwards,
        time_and_heads_swapped,
        added,
        lambda query, key, value: rotary(query.detach(), key, value, "qk"),
    ],
    "alibi_bias": [
        lambda n_heads, n: alibi(n_heads, n, sign=1),
        lambda n_heads, n: alibi(n_heads, n, lambda head: 2.0**-head),  # only right for 8 heads
        lambda n_heads, n: alibi(n_heads, n, lambda head: 2.0 ** (-8 * (head - 1) / n_heads)),
        lambda n_heads, n: alibi(n_heads, n, lambda head: 8.0 * head / n_heads),
        lambda n_heads, n: alibi(n_heads, n).mT,  # rows for columns
        lambda n_heads, n: alibi(n_heads, n) * -ALiBi(1).bias(n, n) * 2**8,  # squared distance
        lambda n_heads, n: alibi(n_heads, n) - 1,  # itself at a distance
        lambda n_heads, n: alibi(n_heads, n).sum(0),  # one for all heads
        lambda n_heads, n: alibi(n_heads, n).flip(0),  # the heads in another order
    ],
}

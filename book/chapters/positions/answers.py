"""Right and wrong answers to the exercises of chapter 8; the wrong ones with what they are told."""

import math

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


class FromTheFourthOn(Buffer):
    """Wrong from its fourth row on."""

    def make(self, d_model, max_length):
        table = sinusoidal_table(max_length, d_model)
        return torch.cat([table[:3], table[4:], table[:1]])


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


class InHalves(Buffer):
    """Written into the columns; kept with the batch axis, and not saved."""

    def make(self, d_model, max_length):
        table = torch.zeros(1, max_length, d_model)
        place = torch.arange(max_length).unsqueeze(1)
        speed = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10_000) / d_model))
        table[0, :, 0::2] = torch.sin(place * speed)
        table[0, :, 1::2] = torch.cos(place * speed[: d_model // 2])
        return table

    def forward(self, x):
        return self.table[:, : x.size(1)] + x


class ByMath(nn.Module):
    """Number by number, in float64 until it is used."""

    def __init__(self, d_model, max_length):
        super().__init__()
        rows = [[self.entry(p, c, d_model) for c in range(d_model)] for p in range(max_length)]
        table = torch.tensor(rows, dtype=torch.float64)
        self.register_buffer("table", table, persistent=False)

    def entry(self, place, column, d_model):
        angle = place / 10_000 ** ((column - column % 2) / d_model)
        return math.cos(angle) if column % 2 else math.sin(angle)

    def forward(self, x):
        return x + self.table[: x.shape[-2]].to(x.dtype)


class InForward(nn.Module):
    """The table is made when it is needed, on the device and in the type of x."""

    def __init__(self, d_model, max_length):
        super().__init__()
        self.d_model = d_model

    def forward(self, x):
        return x + sinusoidal_table(x.shape[1], self.d_model, dtype=x.dtype, device=x.device)


class Frozen(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.rows = nn.Embedding.from_pretrained(sinusoidal_table(max_length, d_model))

    def forward(self, x):
        return x + self.rows(torch.arange(x.shape[1], device=x.device))


class Attribute(nn.Module):
    """nn.Buffer, and a copy of x that is added to."""

    def __init__(self, d_model, max_length):
        super().__init__()
        self.table = nn.Buffer(sinusoidal_table(max_length, d_model))

    def forward(self, x):
        out = x.clone()
        out += self.table.narrow(0, 0, x.shape[1])
        return out


class Complex(Buffer):
    """e^(j angle), of which sine and cosine are the parts."""

    def make(self, d_model, max_length):
        speed = 10_000 ** (-torch.arange(0, d_model, 2).double() / d_model)
        turns = torch.exp(1j * torch.outer(torch.arange(max_length).double(), speed))
        return torch.view_as_real(turns).flip(-1).flatten(1)[:, :d_model].float()


class KeptForTheDevice(InForward):
    """Made at the first call, and anew on another device."""

    table = None

    def forward(self, x):
        if self.table is None or self.table.device != x.device or len(self.table) < x.shape[1]:
            self.table = sinusoidal_table(x.shape[1], self.d_model, device=x.device)
        return x + self.table[: x.shape[1]]


class KeptForEver(KeptForTheDevice):
    """Made at the first call, where x lies then."""

    def forward(self, x):
        if self.table is None:
            self.table = sinusoidal_table(31, self.d_model, device=x.device)
        return x + self.table[: x.shape[1]]


class WithDropout(Buffer):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x), 0.3)


class InPlace(Buffer):
    def forward(self, x):
        return x.add_(self.table[: x.shape[1]])


class InFloat64(ByMath):
    def forward(self, x):
        return x + self.table[: x.shape[1]]


class EvenOnly(Buffer):
    """Cannot be made with an odd d_model."""

    def make(self, d_model, max_length):
        even = sinusoidal_table(max_length, d_model + d_model % 2)
        table = torch.zeros(max_length, d_model)
        table[:, 0::2], table[:, 1::2] = even[:, 0::2], even[:, 1::2]
        return table


class SineEverywhere(Buffer):
    def make(self, d_model, max_length):
        column = torch.arange(d_model)
        return (torch.arange(max_length)[:, None] / 10_000 ** (column // 2 * 2 / d_model)).sin()


class OtherBase(Buffer):
    def make(self, d_model, max_length):
        return sinusoidal_table(max_length, d_model, base=1_000.0)


class LastPositions(Buffer):
    def forward(self, x):
        return x + self.table[-x.shape[1] :]


class WholeTable(Buffer):
    """Only right for texts of max_length."""

    def forward(self, x):
        return x + self.table


class Ramp(Buffer):
    """The position itself."""

    def make(self, d_model, max_length):
        return torch.arange(max_length)[:, None].expand(-1, d_model).float()


def angles(x, first=0, step=2, base=10_000.0, dtype=None):
    time, d_k = x.shape[-2:]
    speed = base ** (-torch.arange(0, d_k, 2, dtype=dtype or x.dtype) * step / 2 / d_k)
    return torch.arange(first, first + time, dtype=speed.dtype)[:, None] * speed


def turned(x, angle):
    a, b = x[..., 0::2], x[..., 1::2]
    pair = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
    return torch.stack(pair, dim=-1).flatten(-2)


def with_angles(query, key, value, **options):
    angle = angles(query, **options)
    return scaled_dot_product_attention(turned(query, angle), turned(key, angle), value)


def float32_angles(query, key, value):
    return with_angles(query, key, value, dtype=torch.float32)


def complex_numbers(query, key, value):
    """And the attention by hand."""
    rows = torch.polar(torch.ones_like(angles(query)), angles(query))
    q, k = (
        torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * rows for x in (query, key)
    )
    scores = torch.einsum("hqd,hkd->hqk", q, k.conj()).real / math.sqrt(query.shape[-1])
    return scores.softmax(-1) @ value


def rotated_half(query, key, value):
    angle = angles(query).repeat_interleave(2, dim=-1)
    sin, cos = angle.sin(), angle.cos()

    def turn(x):
        x_turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)
        return x * cos + x_turned * sin

    return scaled_dot_product_attention(query=turn(query), key=turn(key), value=value)


def by_matrices(query, key, value):
    """A block-diagonal matrix for each position."""
    sin, cos = angles(query).sin(), angles(query).cos()
    matrices = []
    for place in range(query.shape[1]):
        blocks = [
            torch.tensor([[c, -s], [s, c]]) for s, c in zip(sin[place], cos[place], strict=True)
        ]
        matrices.append(torch.block_diag(*blocks).to(query))
    q, k = (torch.einsum("tij,htj->hti", torch.stack(matrices), x) for x in (query, key))
    return torch.nn.functional.scaled_dot_product_attention(q, k, value)


def written_into(query, key, value):
    """Entry by entry, into new tensors."""
    turned_query, turned_key = torch.empty_like(query), torch.empty_like(key)
    for old, new in ((query, turned_query), (key, turned_key)):
        for place in range(query.shape[1]):
            for i in range(query.shape[2] // 2):
                angle = place * 10_000 ** (-2 * i / query.shape[2])
                a, b = old[:, place, 2 * i], old[:, place, 2 * i + 1]
                new[:, place, 2 * i] = a * math.cos(angle) - b * math.sin(angle)
                new[:, place, 2 * i + 1] = a * math.sin(angle) + b * math.cos(angle)
    return scaled_dot_product_attention(turned_query, turned_key, value)


def both_at_once(query, key, value):
    """Queries and keys in one tensor, a matrix of rotation for each pair."""
    angle = angles(query)
    matrix = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1)
    pairs = torch.stack([query, key]).unflatten(-1, (-1, 2))
    q, k = torch.einsum("tpij,xhtpj->xhtpi", matrix.unflatten(-1, (2, 2)), pairs).flatten(-2)
    return (q @ k.mT / key.shape[-1] ** 0.5).softmax(-1) @ value


def first_half_only(query, key, value):
    angle = angles(query)
    angle[:, angle.shape[1] // 2 :] = 0
    return scaled_dot_product_attention(turned(query, angle), turned(key, angle), value)


def no_softmax(query, key, value):
    scores = turned(query, angles(query)) @ turned(key, angles(key)).mT
    return scores / query.shape[-1] ** 0.5 @ value


def query_in_place(query, key, value):
    query.copy_(turned(query, angles(query)))
    return scaled_dot_product_attention(query, turned(key, angles(key)), value)


def clockwise(query, key, value):
    return scaled_dot_product_attention(
        turned(query, -angles(query)), turned(key, -angles(key)), value
    )


def not_scaled(query, key, value):
    return (turned(query, angles(query)) @ turned(key, angles(key)).mT).softmax(-1) @ value


def sign_lost(query, key, value):
    def turn(x):
        a, b = x[..., 0::2], x[..., 1::2]
        sin, cos = angles(x).sin(), angles(x).cos()
        return torch.stack((a * cos + b * sin, a * sin + b * cos), dim=-1).flatten(-2)

    return scaled_dot_product_attention(turn(query), turn(key), value)


def not_interleaved(query, key, value):
    """Right pairs, but the turned ones stand in two halves: a permutation, alike for both."""

    def turn(x):
        return turned(x, angles(x)).unflatten(-1, (-1, 2)).mT.flatten(-2)

    return scaled_dot_product_attention(turn(query), turn(key), value)


def alibi_loops(n_heads, n):
    bias = torch.zeros(n_heads, n, n)
    for h in range(n_heads):
        for i in range(n):
            for j in range(i + 1):
                bias[h, i, j] = (j - i) * 2 ** (-8 * (h + 1) / n_heads)
    return bias


def alibi_powers(n_heads, n):
    """The slopes are a geometric series; nothing ahead is allowed."""
    ratio = 2 ** (-8 / n_heads)
    slopes = torch.tensor([ratio**h for h in range(1, n_heads + 1)])
    place = torch.arange(n).float()
    bias = torch.einsum("h,qk->hqk", slopes, place - place[:, None])
    return bias.masked_fill(place > place[:, None], -torch.inf)


def alibi_float64(n_heads, n):
    slopes = torch.logspace(-8 / n_heads, -8, n_heads, base=2, dtype=torch.float64)
    distance = torch.arange(n).view(-1, 1) - torch.arange(n).view(1, -1)
    return torch.stack([-slope * distance.abs() for slope in slopes])


def alibi_heads_last(n_heads, n):
    return alibi(n_heads, n).permute(1, 2, 0)


RIGHT = {
    "FixedPositions": [
        Buffer,
        InHalves,
        ByMath,
        InForward,
        Frozen,
        Attribute,
        Complex,
        KeptForTheDevice,
    ],
    "rotary_attention": [
        with_angles,
        float32_angles,
        complex_numbers,
        rotated_half,
        by_matrices,
        written_into,
        lambda query, key, value: rotary(query, key, value, "qk"),
        lambda query, key, value: with_angles(query, key, value, first=1),  # the distance counts
        not_interleaved,
        both_at_once,
        lambda query, key, value: rotary(query, key, value, "qk").float(),
    ],
    "alibi_bias": [
        lambda n_heads, n: alibi(n_heads, n),  # the keys ahead are not looked at
        lambda n_heads, n: ALiBi(n_heads, paper_formula=True).bias(n, n),
        alibi_loops,
        alibi_powers,
        alibi_float64,
        lambda n_heads, n: alibi(n_heads, n).masked_fill(
            ~torch.ones(n, n).tril().bool(), torch.nan
        ),
        lambda n_heads, n: torch.tensor(alibi_loops(n_heads, n).tolist()),
    ],
}

WRONG = {
    "FixedPositions": {
        InPlace: "an input was changed",
        InFloat64: "the output torch.float64",
        EvenOnly: "(3, 5, 7)",
        SineEverywhere: "expected PE(0)",
        KeptForEver: "does not follow",
        WithDropout: "differs between the sequences",
        OtherBase: "angle pos / 10000^(2i / d_model)",
        LastPositions: "position 0 comes first",
        WholeTable: "max_length is 31: your function raised RuntimeError",
        Ramp: "expected PE(0)",
        WrongExponent: "sin^2 + cos^2 of a pair is not 1",
        PlainAttribute: "does not follow",
        Trained: "is a parameter",
        BatchForTime: "differs between the sequences",
        FirstPositionOnly: "expected PE(1)",
        FromTheFourthOn: "expected PE(3)",
        Multiplied: "differs between the sequences",
        Concatenated: "got (3, 5, 12)",
        Scaled: "differs between the sequences",
        CosineFirst: "the sine comes first",
        Halves: "they must alternate",
        FromOne: "has the number 0",
    },
    "rotary_attention": {
        query_in_place: "argument 1 was changed",
        lambda query, key, value: rotary(query, key, value, ""): "nothing is rotated",
        lambda query, key, value: rotary(query, key, value, "q"): "only the queries are rotated",
        lambda query, key, value: rotary(query, key, value, "k"): "only the keys are rotated",
        lambda query, key, value: rotary(query, key, value, "qkv"): "the values are rotated too",
        lambda query, key, value: with_angles(
            query, key, value, base=1_000
        ): "the angle pos * 10000^(-2i / d_k)",
        lambda query, key, value: with_angles(
            query, key, value, step=1
        ): "the angle pos * 10000^(-2i / d_k)",
        halves: "entry i is paired with entry i + d_k / 2",
        backwards: "the angle pos * 10000^(-2i / d_k)",
        clockwise: "clockwise",
        not_scaled: "not divided by sqrt(d_k)",
        sign_lost: "(a cos - b sin, a sin + b cos)",
        first_half_only: "the angle pos * 10000^(-2i / d_k)",
        no_softmax: "expected softmax(q k^T / sqrt(d_k)) v",
        time_and_heads_swapped: "nothing is rotated",
        added: "the angle pos * 10000^(-2i / d_k)",
        lambda query, key, value: rotary(query.detach(), key, value, "qk"): "gradient of query",
    },
    "alibi_bias": {
        lambda n_heads, n: alibi(n_heads, n, sign=1): "the sign is wrong",
        lambda n_heads, n: alibi(n_heads, n, lambda head: 2.0**-head): "expected slopes",
        lambda n_heads, n: alibi(
            n_heads, n, lambda head: 2.0 ** (-8 * (head - 1) / n_heads)
        ): "expected slopes",
        lambda n_heads, n: alibi(n_heads, n, lambda head: 8.0 * head / n_heads): "expected slopes",
        lambda n_heads, n: alibi(n_heads, n, lambda head: 2.0 ** (-8 / head)): "expected slopes",
        lambda n_heads, n: alibi(n_heads, n, lambda head: head / n_heads): "expected slopes",
        lambda n_heads, n: alibi(
            n_heads, n, torch.ones_like
        ): "floating-point numbers",  # no slopes
        lambda n_heads, n: alibi(n_heads, n).mT: "rows are queries",  # rows for columns
        lambda n_heads, n: alibi(n_heads, n) * -ALiBi(1).bias(n, n) * 2**8: "in proportion",
        lambda n_heads, n: alibi(n_heads, n) - 1: "at distance 0",  # itself at a distance
        lambda n_heads, n: alibi(n_heads, n).sum(0): "got (7, 7)",  # one for all heads
        lambda n_heads, n: alibi(n_heads, n).flip(0): "expected slopes",
        lambda n_heads, n: alibi(n_heads, n).exp(): "at distance 0",
        lambda n_heads, n: alibi(n_heads, n).long(): "floating-point numbers",
        alibi_heads_last: "got (7, 7, 8)",
        lambda n_heads, n: alibi(n_heads, n)[None]: "got (1, 8, 7, 7)",
        lambda n_heads, n: alibi(
            n_heads, n, lambda head: 2.0 ** (-8 / n_heads) + 0 * head
        ): "expected slopes",
    },
}

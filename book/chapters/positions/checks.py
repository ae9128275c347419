"""Properties that schemes of positions must have: fixed tables, rotary queries and keys, ALiBi.

Tables are rounded to float32 on their way, so no more than CLOSE is asked of what they give."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from checks.framework import (
    CLOSE,
    CheckFailed,
    Steps,
    check,
    expect,
    expect_tensor,
    guarded,
    normal,
    normals,
    require,
    require_close,
    require_gradients,
    short,
)
from checks.shifts import shift_matrix
from lib.attention import scaled_dot_product_attention
from lib.positions import ALiBi, Rotary, sinusoidal_table


@check("fixed positions")
def check_fixed_positions(make: Callable[[int, int], nn.Module]) -> Steps:
    """Check make(d_model, max_length), a module that adds sinusoidal positions to x.

    Shapes: module(x) takes and returns (batch, time, d_model).
    """
    for d_model in (6, 7, 1):
        x = normal(3, 5, d_model).float()
        try:
            output = guarded(expect(make(d_model, 31), nn.Module, "a module"))(x)
        except CheckFailed as error:
            sizes = f"x is (batch, time, d_model) = {tuple(x.shape)} and max_length is 31"
            raise CheckFailed(f"where {sizes}: {error}") from error
        added = (expect_tensor(output, (3, 5, d_model), like=x) - x).double()
        require(output.dtype == x.dtype, f"x is {x.dtype}, and the output {output.dtype}")
        alike = (
            "what is added differs between the sequences of a batch, or depends on x: position t "
            "is x[:, t], and its encoding is added to whatever stands there"
        )
        require_close(added, added[:1].expand_as(added), alike, tolerance=CLOSE)
        table, column = sinusoidal_table(6, d_model, dtype=torch.float64), torch.arange(d_model)
        want, even, position = table[:5], column % 2 == 0, torch.arange(5)[:, None]
        angle, shared = (position / 10_000 ** (c / d_model) for c in (column, column // 2 * 2))
        two_angles = (
            "sin^2 + cos^2 of a pair is not 1: entries 2i and 2i + 1 must share one angle, "
            "pos / 10000^(2i / d_model); the cosine's exponent is 2i too"
        )
        mistakes = {
            two_angles: torch.where(even, angle.sin(), angle.cos()),
            "the cosines stand in even columns: in each pair the sine comes first": torch.where(
                even, shared.cos(), shared.sin()
            ),
            "all sines stand first, then all cosines: they must alternate": torch.cat(
                [want[:, 0::2], want[:, 1::2]], dim=1
            ),
            "the first position has the number 0, not 1": table[1:],
        }
        row = int((~added[0].isclose(want, CLOSE, CLOSE)).any(dim=1).int().argmax())
        seen = (
            f"expected PE({row}) = {short(want[row])}, got {short(added[0, row])}: position 0 "
            "comes first; sin in even columns, cos in odd ones; angle pos / 10000^(2i / d_model)"
        )
        require_close(added[0], want, seen, mistakes, CLOSE)
    yield "sine and cosine of one angle in each pair, an odd d_model too"

    module = make(6, 31)
    trained = any(parameter.requires_grad for parameter in module.parameters())
    require(not trained, "the table is a parameter, so training would change it")
    table = module(torch.zeros(1, 31, 6))[0]
    shifted = table[:-5] @ shift_matrix(5, 6).T.float()
    require_close(shifted, table[5:], "M_5 PE(pos) is not PE(pos + 5)", tolerance=CLOSE)
    yield "M_k leads from each position to the one k further on"

    require_gradients(module, lambda x: x + table[:5], CLOSE, x=normal(2, 5, 6).float())
    try:
        module.to("meta").forward(torch.zeros(2, 5, 6, device="meta"))  # as on another processor
    except RuntimeError:
        require(False, "the table does not follow .to(): keep it with register_buffer")
    yield "the table is a buffer: it follows .to() and is not trained"


@check("rotary attention")
def check_rotary_attention(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Steps:
    """Check attend(query, key, value): attention whose scores know the offset, by rotary positions.

    Shapes: query, key and value (heads, time, d_k), output the same; base 10,000, no mask.
    """
    for shape in ((3, 7, 10), (2, 5, 2), (5, 1, 4)):
        inputs = query, key, value = normals(shape, shape, shape)
        halves = torch.arange(shape[-1]).view(-1, 2).T.flatten()
        order = halves.argsort()  # entries i and i + d_k / 2 as neighbours
        paired = _rotary(*(x[..., order] for x in inputs))[..., halves]
        plain, by_query, by_key, all_three = (
            _rotary(*inputs, turn=it) for it in ("", "q", "k", "qkv")
        )
        mirror = query.new_tensor([1, -1]).repeat(shape[-1] // 2)
        mistakes = {
            "nothing is rotated by its position: the scores do not know the positions": plain,
            "only the queries are rotated: the score then depends on the query's own "
            "position": by_query,
            "only the keys are rotated: the score then depends on the key's own position": by_key,
            "the values are rotated too: the output then depends on where the values stood, and "
            "not only on how far away; rotate what makes the scores": all_three,
            "entry i is paired with entry i + d_k / 2; "
            "here the pairs are neighbours, 2i, 2i + 1": paired,
            "the pairs are rotated clockwise: check the signs of the sines": _rotary(
                query * mirror, key * mirror, value
            ),
            "the scores are not divided by sqrt(d_k)": _rotary(
                query * shape[-1] ** 0.5, key, value
            ),
        }
        output = expect_tensor(attend(*inputs), shape, like=query)
        other = (
            "expected softmax(q k^T / sqrt(d_k)) v, where pair i, (a, b), of each q and k is made "
            "(a cos - b sin, a sin + b cos) of the angle pos * 10000^(-2i / d_k)"
        )
        require_close(output, _rotary(*inputs), other, mistakes, CLOSE)
    yield "queries and keys rotated by their positions, pair by pair"
    yield "values untouched"

    query, key, value = normals((3, 7, 10), (3, 7, 10), (3, 7, 10))
    require_gradients(attend, _rotary, 10 * CLOSE, query=query, key=key, value=value)
    yield "gradients reach all three"


def _rotary(query: Tensor, key: Tensor, value: Tensor, *, turn: str = "qk") -> Tensor:
    rotary = Rotary(query.shape[-1]).double()
    query = rotary.rotate(query) if "q" in turn else query
    key = rotary.rotate(key) if "k" in turn else key
    value = rotary.rotate(value) if "v" in turn else value
    return scaled_dot_product_attention(query, key, value)


@check("ALiBi")
def check_alibi_bias(make: Callable[[int, int], Tensor]) -> Steps:
    """Check make(n_heads, n), what ALiBi adds to the scores of each head.

    Shapes: returns (heads, query, key); only keys up to the query are looked at.
    """
    for n_heads, n in ((8, 7), (3, 5), (1, 2), (2, 1)):
        want = ALiBi(n_heads, paper_formula=True).double().bias(n, n).tril()
        got = expect_tensor(make(n_heads, n), (n_heads, n, n), like=torch.ones(1)).double().tril()
        sign = (
            "the sign is wrong: distant keys would win; the bias is -slope times the distance; or "
            "rows and columns are swapped: rows are queries"
        )
        own = "a position is at distance 0 from itself, and its bias is 0"
        yield {own: got.diagonal(dim1=1, dim2=2).any()}
        slopes, right = (short(-bias[:, 1:2, 0].flatten()) for bias in (got, want))
        rule = f"2^(-8h / {n_heads}) for h = 1 ... {n_heads}"
        seen = f"expected slopes {rule}, {right}, got {slopes}"
        grows = "the bias must grow in proportion to the distance"
        require_close(got, want, grows if slopes == right else seen, {sign: -want}, CLOSE)
    yield from ("0 at the position itself", "less for each step back", "a slope for each head")

"""Properties that schemes of positions must have: fixed tables, rotary queries and keys, ALiBi."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from kit.shared.checks import (
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
    short,
)
from lib.attention import scaled_dot_product_attention
from lib.positions import ALiBi, Rotary, shift_matrix, sinusoidal_table

NEAR = 1e-5  # the tables are rounded to float32 on their way, so this is all that can be asked


@check("fixed positions")
def check_fixed_positions(make: Callable[[int, int], nn.Module]) -> Steps:
    """Check make(d_model, max_length), a module that adds sinusoidal positions to x.

    Shapes: module(x) takes and returns (batch, time, d_model).
    """
    max_length = 31
    for d_model in (6, 7, 1):
        module = expect(make(d_model, max_length), nn.Module, "a module")
        x = normal(3, 5, d_model).float()
        try:
            output = expect_tensor(module(x), (3, 5, d_model))
        except RuntimeError as error:
            require(False, f"x is (batch, time, d_model) = {(3, 5, d_model)}: {error}")
        added = (output - x).double()
        require_close(
            added,
            added[:1].expand_as(added),
            "what is added differs between the sequences of a batch, or depends on x: position t "
            "is x[:, t], and its encoding is added to whatever stands there",
            tolerance=NEAR,
        )
        wanted = sinusoidal_table(5, d_model, dtype=torch.float64)
        require(close(added[0], wanted, NEAR), _table_fault(added[0], d_model))
    yield "sine and cosine of one angle in each pair, odd widths too"

    module = make(6, max_length)
    require(
        not list(module.parameters()),
        "the table is a parameter, so training would change it; a buffer is not trained",
    )
    module.double()
    table = module(torch.zeros(1, max_length, 6, dtype=torch.float64))[0]
    is_buffer = any(buffer.dtype == torch.float64 for buffer in module.buffers())
    require(
        is_buffer and table.dtype == torch.float64,
        "the table does not follow .to(): keep it with register_buffer, not as an attribute",
    )
    for k in (1, 5):
        gap = (table[:-k] @ shift_matrix(k, 6).T - table[k:]).abs().max().item()
        require(gap < NEAR, f"M_{k} PE(pos) misses PE(pos + {k}) by {gap:.2g}")
    yield "M_k leads from each position to the one k further on"

    x = normal(2, 5, 6).requires_grad_()
    (gradient,) = torch.autograd.grad(module(x).sum(), x)
    require_close(gradient, 1.0, "expected a gradient of 1 for each entry of x")
    yield "the table is a buffer: it follows .to() and is not trained"


def _table_fault(added: Tensor, d_model: int) -> str:
    if not added.any():
        return "nothing is added"
    pairs = d_model // 2
    if pairs:
        lengths = added[:, 0 : 2 * pairs : 2] ** 2 + added[:, 1 : 2 * pairs : 2] ** 2
        if not close(lengths, 1.0, NEAR):
            return (
                "sin^2 + cos^2 of a pair is not 1: entries 2i and 2i + 1 must share one angle, "
                "pos / 10000^(2i / d_model); the cosine's exponent is 2i too"
            )
        if close(added[0, 0], 1.0, NEAR):
            return "the cosines come first: even entries are sines"
    return f"expected PE(1) = {short(sinusoidal_table(2, d_model)[1])}, got {short(added[1])}"


@check("rotary attention")
def check_rotary_attention(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Steps:
    """Check attend(query, key, value): attention whose scores know the offset, by rotary positions.

    Shapes: query, key and value (heads, time, d_k), output the same; base 10,000, no mask.
    """
    for shape in ((3, 7, 10), (2, 5, 2), (5, 1, 4)):
        query, key, value = normals(shape, shape, shape)
        halves = torch.arange(shape[-1]).view(-1, 2).T.flatten()
        order = halves.argsort()  # entries i and i + d_k / 2 as neighbours
        paired = _rotary(query[..., order], key[..., order], value[..., order])[..., halves]
        plain, by_query, by_key, right, all_three = (
            _rotary(query, key, value, turn) for turn in ("", "q", "k", "qk", "qkv")
        )
        mistakes = {
            "nothing is turned: the scores do not know the positions": plain,
            "only the queries are turned: the score then depends on the query's own "
            "position": by_query,
            "only the keys are turned: the score then depends on the key's own position": by_key,
            "the values are turned too: the output then depends on where the values stood, and "
            "not only on how far away; turn what makes the scores": all_three,
            "entry i is paired with entry i + d_k / 2; "
            "here the pairs are neighbours, 2i, 2i + 1": paired,
        }
        output = expect_tensor(attend(query, key, value), shape)
        other = "the scores are not those of q and k turned by pos * 10000^(-2i / d_k) in pair i"
        require_close(output, right, other, mistakes, NEAR)
    yield "queries and keys turned by their positions, pair by pair"
    yield "values untouched"

    query, key, value = normals((3, 7, 10), (3, 7, 10), (3, 7, 10))
    require_gradients(attend, _rotary, 10 * NEAR, query=query, key=key, value=value)
    yield "gradients reach all three"


def _rotary(query: Tensor, key: Tensor, value: Tensor, turn: str = "qk") -> Tensor:
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
        bias = expect_tensor(make(n_heads, n), (n_heads, n, n)).double()
        got, want = bias.tril(), ALiBi(n_heads).double().bias(n, n).tril()
        slopes, right = -got[:, 1:2, 0], -want[:, 1:2, 0]  # none for a single position
        far = n > 1 and close(got, -want, NEAR)
        at_itself = close(got.diagonal(dim1=1, dim2=2), 0.0, NEAR)
        yield {
            "the sign is wrong: distant keys would win; the bias is -slope times the distance": far,
            "a position is at distance 0 from itself, and its bias is 0": not at_itself,
            f"expected slopes 2^(-8h / {n_heads}) for h = 1 ... {n_heads}, "
            f"{short(right.flatten())}, got {short(slopes.flatten())}; "
            "rows are queries, columns keys": not close(slopes, right, NEAR),
            "the bias must grow in proportion to the distance": not close(got, want, NEAR),
        }
    yield from ("0 at the position itself", "less for each step back", "a slope for each head")

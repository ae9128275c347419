"""Properties that schemes of positions must have: fixed tables, rotary queries and keys, ALiBi."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from kit.shared.checks import Report, expect_tensor, require
from lib.attention import scaled_dot_product_attention
from lib.positions import ALiBi, Rotary, shift_matrix, sinusoidal_table


def check_fixed_positions(make: Callable[[int, int], nn.Module]) -> Report:
    """Check make(d_model, max_length), a module that adds sinusoidal positions to x.

    Shapes: module(x) takes and returns (batch, time, d_model).
    Errors: CheckFailed, which names the mistake if it is a known one.
    """
    max_length = 31
    for d_model in (6, 7, 1):
        module = make(d_model, max_length)
        require(isinstance(module, nn.Module), f"expected a module, got {module!r}")
        x = _normal(3, 5, d_model).float()
        try:
            output = expect_tensor(module(x), (3, 5, d_model))
        except RuntimeError as error:
            require(False, f"x is (batch, time, d_model) = {(3, 5, d_model)}: {error}")
        added = (output - x).double()
        require(
            _near(added, added[:1].expand_as(added)),
            "what is added differs between the sequences of a batch, or depends on x: position t "
            "is x[:, t], and its encoding is added to whatever stands there",
        )
        wanted = sinusoidal_table(5, d_model, dtype=torch.float64)
        require(_near(added[0], wanted), _table_fault(added[0], d_model))
    module = make(6, max_length)
    require(
        not list(module.parameters()),
        "the table is a parameter, so training would change it; a buffer is not trained",
    )
    module.double()
    x = torch.zeros(1, max_length, 6, dtype=torch.float64)
    require(
        any(buffer.dtype == torch.float64 for buffer in module.buffers())
        and module(x).dtype == torch.float64,
        "the table does not follow .to(): keep it with register_buffer, not as an attribute",
    )
    _require_shift(module(x)[0])
    x = _normal(2, 5, 6).requires_grad_()
    module(x).sum().backward()
    require(_near(x.grad, torch.ones_like(x)), "expected a gradient of 1 for each entry of x")
    return Report(
        "fixed positions",
        (
            "sine and cosine of one angle in each pair, odd widths too",
            "M_k leads from each position to the one k further on",
            "the table is a buffer: it follows .to() and is not trained",
        ),
    )


def _table_fault(added: Tensor, d_model: int) -> str:
    if not added.any():
        return "nothing is added"
    pairs = d_model // 2
    if pairs:
        lengths = added[:, 0 : 2 * pairs : 2] ** 2 + added[:, 1 : 2 * pairs : 2] ** 2
        if not _near(lengths, torch.ones_like(lengths)):
            return (
                "sin^2 + cos^2 of a pair is not 1: entries 2i and 2i + 1 must share one angle, "
                "pos / 10000^(2i / d_model); the cosine's exponent is 2i too"
            )
        if _near(added[0, 0], torch.ones(()).double()):
            return "the cosines come first: even entries are sines"
    return f"expected PE(1) = {_row(sinusoidal_table(2, d_model)[1])}, got {_row(added[1])}"


def _require_shift(table: Tensor) -> None:
    for k in (1, 5):
        moved = table[:-k] @ shift_matrix(k, table.shape[1]).T
        gap = (moved - table[k:]).abs().max().item()
        require(gap < 1e-5, f"M_{k} PE(pos) misses PE(pos + {k}) by {gap:.2g}")


def check_rotary_attention(attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Report:
    """Check attend(query, key, value): attention whose scores know the offset, by rotary positions.

    Shapes: query, key and value (heads, time, d_k), output the same; base 10,000, no mask.
    Errors: CheckFailed, which names the mistake if it is a known one.
    """
    for heads, time, d_k in ((3, 7, 10), (2, 5, 2), (5, 1, 4)):
        query, key, value = (_normal(heads, time, d_k, seed=s) for s in range(3))
        output = expect_tensor(attend(query, key, value), (heads, time, d_k))
        wanted = _rotary(query, key, value)
        require(_near(output, wanted), _rotary_fault(output, query, key, value))
    query, key, value = (_normal(3, 7, 10, seed=s).requires_grad_() for s in range(3))
    attend(query, key, value).square().sum().backward()
    for name, x in (("query", query), ("key", key), ("value", value)):
        require(x.grad is not None and bool(x.grad.any()), f"no gradient reaches the {name}")
    return Report(
        "rotary attention",
        (
            "queries and keys turned by their positions, pair by pair",
            "values untouched",
            "gradients reach all three",
        ),
    )


def _rotary(query: Tensor, key: Tensor, value: Tensor, turn: str = "qk") -> Tensor:
    rotary = Rotary(query.shape[-1]).double()
    query = rotary.rotate(query) if "q" in turn else query
    key = rotary.rotate(key) if "k" in turn else key
    value = rotary.rotate(value) if "v" in turn else value
    return scaled_dot_product_attention(query, key, value)


def _rotary_fault(output: Tensor, query: Tensor, key: Tensor, value: Tensor) -> str:
    turns = {
        "": "nothing is turned: the scores do not know the positions",
        "q": "only the queries are turned: the score then depends on the query's own position",
        "k": "only the keys are turned: the score then depends on the key's own position",
        "qkv": "the values are turned too: the output then depends on where the values stood, and "
        "not only on how far away; turn what makes the scores",
    }
    for turn, message in turns.items():
        if _near(output, _rotary(query, key, value, turn)):
            return message
    halves = torch.arange(query.shape[-1]).view(-1, 2).T.flatten()
    order = halves.argsort()  # entries i and i + d_k / 2 as neighbours
    paired = _rotary(query[..., order], key[..., order], value[..., order])[..., halves]
    if _near(output, paired):
        return "entry i is paired with entry i + d_k / 2; here the pairs are neighbours, 2i, 2i + 1"
    return "the scores are not those of q and k turned by pos * 10000^(-2i / d_k) in pair i"


def check_alibi_bias(make: Callable[[int, int], Tensor]) -> Report:
    """Check make(n_heads, n), what ALiBi adds to the scores of each head.

    Shapes: returns (heads, query, key); only keys up to the query are looked at.
    Errors: CheckFailed, which names the mistake if it is a known one.
    """
    for n_heads, n in ((8, 7), (3, 5), (1, 2), (2, 1)):
        bias = expect_tensor(make(n_heads, n), (n_heads, n, n)).double()
        seen = torch.ones(n, n, dtype=torch.bool).tril()
        wanted = ALiBi(n_heads).double().bias(n, n)
        got = torch.where(seen, bias, 0.0)
        want = torch.where(seen, wanted, 0.0)
        require(
            not _near(got, -want) or n == 1,
            "the sign is wrong: distant keys would win; the bias is -slope times the distance",
        )
        require(
            _near(got.diagonal(dim1=1, dim2=2), torch.zeros(n_heads, n).double()),
            "a position is at distance 0 from itself, and its bias is 0",
        )
        if n > 1:
            slopes = -got[:, 1, 0]
            require(
                _near(slopes, -want[:, 1, 0]),
                f"expected slopes 2^(-8h / {n_heads}) for h = 1 ... {n_heads}, "
                f"{_row(-want[:, 1, 0])}, got {_row(slopes)}; rows are queries, columns keys",
            )
        require(_near(got, want), "the bias must grow in proportion to the distance")
    return Report(
        "ALiBi",
        ("0 at the position itself", "less for each step back", "a slope for each head"),
    )


def _near(a: Tensor, b: Tensor) -> bool:
    """The tables are rounded to float32 on their way, so this is all that can be asked."""
    return a.shape == b.shape and torch.allclose(a, b.to(a), rtol=0, atol=1e-5)


def _normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _row(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]

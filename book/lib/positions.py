"""Where a token stands: four ways to tell the model, behind one interface.

Attention alone treats its inputs as a set: it cannot tell first from last. A scheme can say it in
three places, and `Positions` has one method for each, which does nothing unless overridden:

    add     to the embeddings, below the first layer    Sinusoidal, Learned
    rotate  queries and keys, in each self-attention    Rotary
    bias    the scores, in each self-attention          ALiBi

A scheme of the last two kinds is given to each self-attention layer when that is made.
Cross-attention gets none: its queries and keys count in different sequences. In step-by-step
decoding the tokens of one call are not the first ones: `offset` says how many came before, and
`bias` takes its queries as the last of the keys, as `lib.masks` does.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lib.layers import _require_sizes

FIRST_ROWS = 4096  # of a table, however many it may get


class Positions(nn.Module):
    """No positions at all, and what each scheme has in common.

    `in_attention` says whether a scheme acts inside the attention layers, by `rotate` or `bias`.
    Errors: ValueError for a negative offset, vectors of another dimension than the scheme's, and
        for fewer keys than queries.
    Source: Attention Is All You Need, section 3.5.
    """

    in_attention = False

    def add(
        self, x: Float[Tensor, "*batch time d_model"], offset: int = 0
    ) -> Float[Tensor, "*batch time d_model"]:
        """Mark embeddings with their positions offset, offset + 1, ..."""
        return x

    def rotate(
        self, x: Float[Tensor, "*batch time d_k"], offset: int = 0
    ) -> Float[Tensor, "*batch time d_k"]:
        """Turn queries or keys by positions offset, offset + 1, ..."""
        return x

    def bias(self, n_queries: int, n_keys: int) -> Float[Tensor, "heads query key"] | None:
        """Return what is added to the scores; the queries are the last of the keys."""
        if not 0 <= n_queries <= n_keys:
            raise ValueError(
                f"expected the queries to be the last of the keys, got {n_queries} queries and "
                f"{n_keys} keys; cross-attention has no scheme of positions"
            )
        return None


def _require_place(offset: int, x: Tensor, width: int) -> None:
    if offset < 0:
        raise ValueError(f"expected an offset of 0 or more, got {offset}; it counts positions")
    if x.dim() < 2 or x.shape[-1] != width:  # a dimension of 1 would be broadcast
        raise ValueError(
            f"expected an input (..., time, {width}), got {tuple(x.shape)}; make the scheme with "
            "the dimension of what it marks or rotates"
        )


def sinusoidal_table(
    n_positions: int,
    d_model: int,
    *,
    base: float = 10_000.0,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> Float[Tensor, "{n_positions} {d_model}"]:
    """PE(pos, 2i) = sin(pos / base^(2i/d_model)), PE(pos, 2i+1) = cos of the same angle.

    With an odd d_model the last sine stands alone.

    Shapes: returns (time, d_model), computed in float64, then rounded to `dtype` (torch's default
        type unless given).
    Errors: ValueError for sizes below 1 or a base not above 0.
    Source: Attention Is All You Need, section 3.5.
    """
    if n_positions < 1 or d_model < 1 or not base > 0:
        raise ValueError(
            "expected n_positions and d_model of at least 1 and a base above 0, "
            f"got {n_positions}, {d_model} and {base}"
        )
    position = torch.arange(n_positions, dtype=torch.float64, device=device)
    even = torch.arange(0, d_model, 2, dtype=torch.float64, device=device)  # 2i
    angle = position[:, None] / base ** (even / d_model)  # (time, pairs)
    table = torch.empty(n_positions, d_model, dtype=torch.float64, device=device)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()[:, : d_model // 2]
    return table.to(dtype or torch.get_default_dtype())


class _Tabled(Positions):
    """Rows of a fixed table, one for each position; it grows when a position lies beyond it."""

    table: Tensor

    def __init__(self, width: int, base: float, max_length: int):
        super().__init__()
        self.width, self.base = width, base
        # A buffer moves with .to(); it is not saved, for it can be computed again.
        table = self._make_table(min(max_length, FIRST_ROWS)).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def _make_table(self, n_positions: int) -> Tensor:
        return sinusoidal_table(n_positions, self.width, base=self.base, dtype=torch.float64)

    def _apply(self, *args: Any, **kwargs: Any) -> "_Tabled":
        """Follow .to(), .half() and .double() with a table that is made again and rounded once.

        It keeps 32 bits at least: angles add up.
        """
        before = self.table.dtype
        super()._apply(*args, **kwargs)
        if self.table.dtype != before:
            dtype = torch.promote_types(self.table.dtype, torch.float32)
            self.table = self._make_table(len(self.table)).to(dtype).to(self.table.device)
        return self

    def _rows(self, x: Tensor, offset: int) -> Tensor:
        _require_place(offset, x, self.width)
        end = offset + x.shape[-2]
        if end > len(self.table):
            table = self._make_table(2 * end).to(self.table.dtype)
            self.table = table.to(self.table.device)
        return self.table[offset:end]


class Sinusoidal(_Tabled):
    """Add `sinusoidal_table` to the embeddings: fixed, and defined for any position.

    Source: Attention Is All You Need, section 3.5.
    """

    def __init__(self, d_model: int, *, base: float = 10_000.0, max_length: int = 512):
        super().__init__(d_model, base, max_length)

    def add(
        self, x: Float[Tensor, "*batch time d_model"], offset: int = 0
    ) -> Float[Tensor, "*batch time d_model"]:
        """x + PE(position)."""
        return x + self._rows(x, offset).to(x.dtype)


class Learned(Positions):
    """Add a vector that is learned for each position; beyond `max_length` there is none.

    Errors: ValueError for a position beyond max_length or below 0, or vectors of another dimension.
    Source: Gehring et al. 2017; Attention Is All You Need, section 3.5 and table 3, row E.
    """

    def __init__(self, d_model: int, *, max_length: int = 512):
        super().__init__()
        _require_sizes(d_model=d_model, max_length=max_length)
        self.weight = nn.Parameter(torch.empty(max_length, d_model))
        nn.init.normal_(self.weight, std=0.5)  # not much less than the tokens that they join

    def add(
        self, x: Float[Tensor, "*batch time d_model"], offset: int = 0
    ) -> Float[Tensor, "*batch time d_model"]:
        """x + the learned row of each position."""
        _require_place(offset, x, self.weight.shape[1])
        end = offset + x.shape[-2]
        if end > len(self.weight):
            raise ValueError(
                f"expected at most max_length={len(self.weight)} positions, got {end}; "
                "make the model with a larger max_length, or choose another scheme"
            )
        return x + self.weight[offset:end]


class Rotary(_Tabled):
    """Turn each pair of entries of queries and keys by an angle that grows with the position.

    A pair (a, b) stands for a + bj; pair i at pos is multiplied by exp(j pos w_i), where
    w_i = base^(-2i/d_k). Of the two turns only the difference of the positions is left in q . k.

    Errors: ValueError for an odd d_k.
    Source: Su et al. 2021 (RoFormer), equations 13 to 16.
    """

    in_attention = True

    def __init__(self, d_k: int, *, base: float = 10_000.0, max_length: int = 512):
        if d_k % 2:
            raise ValueError(f"expected an even d_k, got {d_k}: rotary positions turn pairs")
        super().__init__(d_k, base, max_length)

    def _make_table(self, n_positions: int) -> Tensor:
        return super()._make_table(n_positions).unflatten(-1, (-1, 2)).flip(-1)  # pairs (cos, sin)

    def rotate(
        self, x: Float[Tensor, "*batch time d_k"], offset: int = 0
    ) -> Float[Tensor, "*batch time d_k"]:
        """x * exp(j position w), pair by pair."""
        rows = self._rows(x, offset)  # (time, d_k / 2, 2)
        rows = rows.to(torch.promote_types(rows.dtype, x.dtype))  # no complex half precision
        pairs = x.to(rows.dtype).unflatten(-1, (-1, 2))  # (*batch, time, d_k / 2, 2)
        # `view_as_complex` reads two neighbours in memory as one number and copies nothing. So the
        # entries of a pair must lie side by side (stride 1), and each pair must begin at an even
        # place, counted from the start of the storage: the first one (the offset), and those that
        # any other axis leads to (its stride). Heads split from one projection lie like that; a
        # slice that begins at an odd entry, or one that is transposed, is copied first.
        places = (*pairs.stride()[:-1], pairs.storage_offset())
        if pairs.stride(-1) != 1 or any(place % 2 for place in places):
            pairs = pairs.clone(memory_format=torch.contiguous_format)
        turned = torch.view_as_complex(pairs) * torch.view_as_complex(rows)
        return torch.view_as_real(turned).flatten(-2).to(x.dtype)  # (*batch, time, d_k)


class ALiBi(Positions):
    """Subtract from each score the distance of query and key, times a slope of the head's own.

    bias[h, i, j] = -slope_h |i - j|, slope_h = 2^(-8 h / n_heads) for h = 1 ... n_heads

    Under a causal mask |i - j| is i - j, as in the paper; without one, in an encoder, both
    directions count alike.

    Where n_heads is no power of two, the authors' code leaves the formula, and published models
    have its slopes: with m the power of two below, those of m heads, then the first, third, fifth,
    ... of 2m heads.

    Args:
        n_heads: heads of queries.
        paper_formula: take the formula for every number of heads.
    Errors: ValueError for n_heads below 1, and for fewer keys than queries.
    Source: Press et al. 2022, section 3; get_slopes in their code, fairseq/models/transformer.py.
    """

    in_attention = True
    slopes: Tensor  # (heads)

    def __init__(self, n_heads: int, *, paper_formula: bool = False):
        super().__init__()
        _require_sizes(n_heads=n_heads)
        slopes = self._formula(n_heads)
        power = 2 ** (n_heads.bit_length() - 1)  # the largest that is not above n_heads
        if power < n_heads and not paper_formula:
            between = self._formula(2 * power)[::2]
            slopes = torch.cat([self._formula(power), between[: n_heads - power]])
        self.register_buffer("slopes", slopes, persistent=False)

    @staticmethod
    def _formula(n_heads: int) -> Float[Tensor, " heads"]:
        return 2.0 ** (-8.0 * torch.arange(1, n_heads + 1) / n_heads)

    def bias(self, n_queries: int, n_keys: int) -> Float[Tensor, "heads query key"]:
        """-slope_h |i - j|, the queries being the last of the keys."""
        super().bias(n_queries, n_keys)
        key = torch.arange(n_keys, device=self.slopes.device)
        query = key[n_keys - n_queries :]
        distance = (query[:, None] - key).abs()  # (query, key)
        return -self.slopes[:, None, None] * distance  # (heads, query, key)


SCHEMES = ("none", "sinusoidal", "learned", "rotary", "alibi")


def make_positions(
    scheme: str, d_model: int, n_heads: int, *, max_length: int = 512, base: float = 10_000.0
) -> Positions:
    """Make the scheme of that name: "none", "sinusoidal", "learned", "rotary" or "alibi".

    Args:
        scheme: its name.
        d_model: the model's dimension.
        n_heads: its heads.
        max_length: the most positions of "learned"; the others have no limit.
        base: of the wavelengths of "sinusoidal" and "rotary".
    Errors: ValueError for another name, and for n_heads below 1.
    """
    _require_sizes(n_heads=n_heads)
    if scheme == "none":
        return Positions()
    if scheme == "sinusoidal":
        return Sinusoidal(d_model, base=base, max_length=max_length)
    if scheme == "learned":
        return Learned(d_model, max_length=max_length)
    if scheme == "rotary":
        return Rotary(d_model // n_heads, base=base, max_length=max_length)
    if scheme == "alibi":
        return ALiBi(n_heads)
    raise ValueError(f"expected a scheme out of {', '.join(SCHEMES)}, got {scheme!r}")

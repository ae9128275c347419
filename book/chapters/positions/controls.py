"""Controls for the experiments on positions: other tables and angles, and offsets that end."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from lib.attention import scaled_dot_product_attention
from lib.positions import Rotary, Sinusoidal, sinusoidal_table

TABLES = (
    "sinusoidal",
    "wrong exponent",
    "random walk",
    "equal steps",
    "random rows",
    "shuffled",
)
SIMILAR = 0.97  # the cosine of neighbours in the random walk, that of the sinusoids with 64 entries


def make_table(
    name: str, n_positions: int, d_model: int, *, trained: int
) -> Float[Tensor, "{n_positions} {d_model}"]:
    """A table of positions with or without a shift matrix, with or without similar neighbours.

    "sinusoidal" has both. "wrong exponent" gives the cosine of a pair a frequency of its own, so
    no rotation of pairs moves it on, but neighbours stay similar. "random walk" has no waves at
    all: each row is the one before with a little noise. "equal steps" spaces the frequencies
    evenly, from above 0 to below pi: a rotation of pairs moves it on, and `d_model` positions in a
    row are at right angles. "random rows" have nothing to do with each other. "shuffled" is the
    sinusoidal table with its rows in a random order, the first `trained` among themselves, so that
    two rows are alike wherever they stand. Random rows are as long as those of the sinusoids.

    Errors: ValueError for another name.
    """
    position = torch.arange(n_positions)[:, None]
    if name == "sinusoidal":
        return sinusoidal_table(n_positions, d_model)
    if name == "shuffled":
        later = trained + torch.randperm(n_positions - trained)
        order = torch.cat([torch.randperm(trained), later])
        return sinusoidal_table(n_positions, d_model)[order]
    if name in ("random walk", "random rows"):
        kept = SIMILAR if name == "random walk" else 0.0
        rows = [F.normalize(torch.randn(d_model), dim=0)]
        for noise in torch.randn(n_positions - 1, d_model):
            across = F.normalize(noise - (noise @ rows[-1]) * rows[-1], dim=0) if kept else noise
            rows.append(F.normalize(kept * rows[-1] + math.sqrt(1 - kept**2) * across, dim=0))
        return torch.stack(rows) * math.sqrt(d_model / 2)
    column = torch.arange(d_model)
    if name == "wrong exponent":
        angle = position / 10_000 ** (column / d_model)
    elif name == "equal steps":
        angle = position * math.pi * (2 * (column // 2) + 1) / d_model
    else:
        raise ValueError(f"expected a table out of {', '.join(TABLES)}, got {name!r}")
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


@contextmanager
def clipped_offsets(
    limit: int, pairs: Bool[Tensor, " pairs"], *, base: float = 10_000.0
) -> Iterator[None]:
    """Meanwhile, rotary attention turns these pairs by an offset of `limit` at most.

    The scores of nearer keys stay as they are, and all keys are kept. It is slow: the turn
    belongs to query and key together, so each pair has a product of its own.

    Args: pairs, True for each pair of entries of a head to clip; the others turn freely. base, of
        the model's rotary positions.
    """

    def attend(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: object
    ) -> Tensor:
        n_queries, n_keys, d_k = query.shape[-2], key.shape[-2], query.shape[-1]
        offset = torch.arange(n_keys - n_queries, n_keys)[:, None] - torch.arange(n_keys)
        q, k = (torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) for x in (query, key))
        scores = query.new_zeros(*query.shape[:-1], n_keys)
        for i, clipped in enumerate(pairs.tolist()):
            turn = (offset.clamp(max=limit) if clipped else offset) / base ** (2 * i / d_k)
            product = q[..., i, None] * k[..., None, :, i].conj()  # (*batch, query, key)
            scores += (product * torch.polar(torch.ones_like(turn), turn).to(product)).real
        bias = scores / math.sqrt(d_k)
        nothing = torch.zeros_like(query)
        return scaled_dot_product_attention(nothing, key, value, mask, bias=bias)

    with (
        mock.patch.object(Rotary, "rotate", lambda self, x, offset=0: x),
        mock.patch("lib.attention.scaled_dot_product_attention", attend),
    ):
        yield


def freeze_slow_pairs(positions: Rotary, length: int) -> Bool[Tensor, " pairs"]:
    """Let the pairs whose wavelength is above `length` never turn; return which they are."""
    d_k = positions.width
    wavelength = 2 * math.pi * positions.base ** (torch.arange(0, d_k, 2) / d_k)  # (pairs,)
    slow = wavelength > length
    positions.table[:, slow] = torch.tensor([1.0, 0.0]).to(positions.table)  # cos 0 and sin 0
    return slow


class StartsAnywhere(Sinusoidal):
    """Sinusoidal positions which start at a random one in each sequence of a training batch.

    The last position of a sequence is below `max_length`. At inference the first one is `offset`.
    """

    def add(
        self, x: Float[Tensor, "*batch time d_model"], offset: int = 0
    ) -> Float[Tensor, "*batch time d_model"]:
        if not self.training:
            return super().add(x, offset)
        time = x.shape[-2]
        start = torch.randint(len(self.table) - time + 1, (*x.shape[:-2], 1))
        return x + self.table[start + torch.arange(time)]

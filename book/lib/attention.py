"""The attention layer: each query takes home a weighted mean of the values.

What is here: one attention map (`attention_weights`) and what it gives
(`scaled_dot_product_attention`), the keys and values kept while decoding (`KeyValueCache`), several
maps side by side (`MultiHeadAttention`), for self- and for cross-attention alike, and a look at
every map of a model (`attention_maps`).
What is not: masks, which are made in `lib.masks`; positions, residuals and norms."""

import inspect
import math
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.layers import _require_sizes
from lib.masks import fit_mask
from lib.positions import Positions

FIRST_ROOM = 32  # positions; doubled whenever it is full


def attention_weights(
    query: Float[Tensor, "*batch query d_k"],
    key: Float[Tensor, "*batch key d_k"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    bias: Float[Tensor, "..."] | None = None,
) -> Float[Tensor, "*batch query key"]:
    """softmax(Q K^T / sqrt(d_k)): how much of each value each query takes, one row for a query.

    Weights are 0 where masked and a row of them sums to 1; a fully masked row is all 0.

    Shapes: mask broadcasts to (*batch, query, key), True = may attend; where *batch is (batch,
        heads), three axes mean (batch, query, key).
    Args:
        query: what is looked for.
        key: what is compared with it.
        mask: which keys each query may attend to, all unless given.
        bias: a term added to the scores, which broadcasts to them.
    Errors: ValueError for other batch axes and for a mask that is not boolean or does not fit.
    Source: Attention Is All You Need, section 3.2.1, equation 1.
    """
    _require_fitting(query, key, key)
    # Q is divided before the product: fewer numbers to divide, and no overflow in float16.
    scores = (query / math.sqrt(query.shape[-1])) @ key.transpose(-2, -1)  # (*batch, query, key)
    if bias is not None:
        scores = scores + bias.to(scores.dtype).expand(scores.shape)
    if mask is None:
        return scores.softmax(dim=-1)
    hidden = ~fit_mask(mask, scores.shape) & (scores < torch.inf)  # NaN stays, as in the kernel
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1).masked_fill(hidden, 0.0)  # a fully masked row: zeros


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch query d_k"],
    key: Float[Tensor, "*batch key d_k"],
    value: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    bias: Float[Tensor, "..."] | None = None,
    dropout: float = 0.0,
) -> Float[Tensor, "*batch query d_v"]:
    """softmax(Q K^T / sqrt(d_k)) V: for each query a mean of the values, weighted by its scores.

    It is `attention_weights(query, key, mask) @ value`, with the same gradients, but torch's fused
    kernel computes it, which never stores a query x key matrix. The output of a fully masked row is
    all 0. Keys and values must be finite, masked ones too: NaN there makes every output of its
    sequence NaN.

    Args:
        query: what is looked for.
        key: what is compared with it.
        value: what is taken from there.
        mask: which keys each query may attend to, see `attention_weights`.
        bias: a term added to the scores, which broadcasts to them.
        dropout: the fraction of weights set to 0 at this call; at inference, pass 0.
    Errors: ValueError for other batch axes, another number of values than keys, and a mask that is
        not boolean or does not fit; torch's RuntimeError for other dimensions or types.
    Source: Attention Is All You Need, section 3.2.1, equation 1.
    """
    _require_fitting(query, key, value)
    added = _mask_and_bias(mask, bias, query, key)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=added, dropout_p=dropout)


def _mask_and_bias(
    mask: Tensor | None, bias: Tensor | None, query: Tensor, key: Tensor
) -> Tensor | None:
    """The one argument that torch's kernel takes for both: "masked" is -inf in the bias."""
    scores_shape = (*query.shape[:-1], key.shape[-2])
    if mask is not None:
        mask = fit_mask(mask, scores_shape)
    if bias is None:
        return mask
    bias = bias.to(query.dtype).expand(scores_shape)
    return bias if mask is None else torch.where(mask, bias, -torch.inf)


def _require_fitting(query: Tensor, key: Tensor, value: Tensor) -> None:
    """An error for what the kernel would broadcast, or read only a part of."""
    if query.shape[:-2] != key.shape[:-2] or key.shape[:-1] != value.shape[:-1]:
        raise ValueError(
            "expected the same batch axes in all three, and one value for each key, got query "
            f"{tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}; take keys "
            "and values from the same positions, and use expand for what all sequences share"
        )


class Readers(NamedTuple):
    """Which of the sequences in a store each row of a batch reads: beams of one source share it.

    sequence  the number of each row's sequence
    column    how many rows before it read the same one
    n         sequences in the store
    most      rows that read one sequence, at the most
    """

    sequence: Int[Tensor, " rows"]
    column: Int[Tensor, " rows"]
    n: int
    most: int

    @staticmethod
    def one_each(n: int, device: torch.device) -> "Readers":
        """Row i reads sequence i."""
        rows = torch.arange(n, device=device)
        return Readers(rows, torch.zeros_like(rows), n, 1)

    def select(self, rows: Int[Tensor, " rows"]) -> tuple["Readers", Int[Tensor, " kept"] | None]:
        """The readers that go on, and the sequences to keep: None for all.

        Sequences that nobody reads are dropped once they are half of the store, so that in all no
        more is copied than the store held at first.
        Errors: torch's IndexError for rows that there are not.
        """
        sequence, kept = self.sequence[rows], None
        count = torch.bincount(sequence, minlength=self.n)
        used = count > 0
        if 2 * int(used.sum()) <= self.n:
            kept, count = used.nonzero()[:, 0], count[used]
            sequence = (used.cumsum(0) - 1)[sequence]
        order, column = sequence.argsort(stable=True), torch.empty_like(sequence)
        before = (count.cumsum(0) - count)[sequence[order]]
        column[order] = torch.arange(len(rows), device=rows.device) - before
        return Readers(sequence, column, len(count), max(count.tolist(), default=0)), kept

    def in_table(self, x: Tensor) -> Tensor:
        """(rows, ...) as (n, most, ...), with a line for each sequence; 0 where no row reads."""
        table = x.new_zeros(self.n, self.most, *x.shape[1:])
        table[self.sequence, self.column] = x
        return table


class KeyValueCache:
    """Room for the keys and values of one attention layer, filled from the left.

    The room is allocated ahead and doubled when full, so that n steps copy O(n) numbers in all;
    concatenating old and new at each step would copy O(n^2). `length` counts the positions stored.

    Args: grows, True for self-attention, whose keys become more with each step. False for
        cross-attention: its keys, those of the source, are stored once and then only read, by all
        hypotheses of a beam, see `Readers`.

    Source: ours; the idea is as old as decoding with the Transformer.
    """

    def __init__(self, *, grows: bool = True) -> None:
        self.grows = grows
        self.length = 0
        self.readers: Readers | None = None  # of a store that several rows of a batch share
        self._key = self._value = torch.empty(0, 0, 0, 0)

    def append(
        self, key: Float[Tensor, "batch heads new d_k"], value: Float[Tensor, "batch heads new d_v"]
    ) -> tuple[Float[Tensor, "batch heads key d_k"], Float[Tensor, "batch heads key d_v"]]:
        """Store new positions; return the keys and values of all so far.

        Shapes: key (batch, heads, new, d_k), value (batch, heads, new, d_v). Returns
            (batch, heads, length, d_k) and (batch, heads, length, d_v), views of the store.
        Errors: ValueError for another batch, other heads or dimensions, or another type than
            before, and for a cache that is full and does not grow; it stays as it was.
        """
        if self.length and not self.grows:
            raise ValueError(
                f"expected a cache that grows, got one with grows=False that holds {self.length} "
                "positions; read it"
            )
        self._require_alike(key, value)
        start, self.length = self.length, self.length + key.shape[2]
        if not start or self.length > self._key.shape[2]:
            room = max(FIRST_ROOM, 2 * self._key.shape[2], self.length)
            self._key = _moved(self._key, start, key, room)
            self._value = _moved(self._value, start, value, room)
        self._key[:, :, start : self.length] = key
        self._value[:, :, start : self.length] = value
        return self.read()

    def _require_alike(self, key: Tensor, value: Tensor) -> None:
        """An error unless the new positions continue what is stored."""
        for new, old in ((key, self._key), (value, self._value)):
            same = new.shape[:2] == old.shape[:2] and new.shape[3:] == old.shape[3:]
            if self.length and not (same and (new.dtype, new.device) == (old.dtype, old.device)):
                raise ValueError(
                    f"expected (batch, heads, new, d) as stored, {tuple(old.shape)} of {old.dtype} "
                    f"on {old.device}, got {tuple(new.shape)} of {new.dtype} on {new.device}; "
                    "append what the same layer made, and use select to keep some of the sequences"
                )
        if not key.dim() == value.dim() == 4 or key.shape[:3] != value.shape[:3]:
            raise ValueError(
                "expected keys and values (batch, heads, new, d), one value for each key, got "
                f"{tuple(key.shape)} and {tuple(value.shape)}; append what one layer made"
            )

    def read(
        self,
    ) -> tuple[Float[Tensor, "batch heads key d_k"], Float[Tensor, "batch heads key d_v"]]:
        """Return the keys and values of all positions so far."""
        key, value = self.stored()
        if self.readers is None:
            return key, value
        return key[self.readers.sequence], value[self.readers.sequence]

    def stored(
        self,
    ) -> tuple[Float[Tensor, "sequences heads key d_k"], Float[Tensor, "sequences heads key d_v"]]:
        """The same, but what several rows of the batch share only once."""
        return self._key[:, :, : self.length], self._value[:, :, : self.length]

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValueCache":
        """Return a cache that holds these sequences of the batch, in this order, each any number of
        times: a beam goes on with some hypotheses and drops others.

        A cache that grows copies them, since each will go on in its own way. One that does not is
        shared: only who reads what is noted.
        Errors: torch's IndexError for rows that it does not have.
        """
        if not self.grows and self.length:
            return self.read_by(*self.readers_after(rows))
        chosen = copy(self)
        if self.length:
            chosen._key, chosen._value = self._key[rows], self._value[rows]
        return chosen

    def readers_after(
        self, rows: Int[Tensor, " rows"]
    ) -> tuple[Readers, Int[Tensor, " kept"] | None]:
        """Who reads which sequence once these rows are selected, and the sequences to keep."""
        readers = self.readers or Readers.one_each(len(self._key), rows.device)
        return readers.select(rows)

    def read_by(self, readers: Readers, kept: Int[Tensor, " kept"] | None) -> "KeyValueCache":
        """Return a cache with other readers and only the sequences `kept`, from `Readers.select`.

        The layers of a stack have the same readers, so these are worked out once for all.
        """
        chosen = copy(self)
        chosen.readers = readers
        if kept is not None:
            chosen._key, chosen._value = self._key[kept], self._value[kept]
        return chosen


def _moved(old: Tensor, length: int, new: Tensor, room: int) -> Tensor:
    """An empty store for `room` positions like `new`, with the first `length` taken from `old`."""
    batch, heads, _, d = new.shape
    store = new.new_empty(batch, heads, room, d)
    if length:
        store[:, :, :length] = old[:, :, :length]
    return store


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_h) W^O, where head_i = Attention(X_Q W_i^Q, X_K W_i^K, X_V W_i^V).

    Given one input it is self-attention; given a second one, which the keys and values are taken
    from, it is cross-attention. The parameters and the code are the same.

    With n_kv_heads below n_heads it is grouped-query attention: each n_heads / n_kv_heads
    consecutive heads have their own queries and share one head of keys and values. With 1 it is
    multi-query attention. A cache holds n_kv_heads heads only.

    Shapes: see `forward`.
    Args:
        d_model: the model's dimension, which the sizes below follow unless they are given.
        n_heads: heads of queries, and attention maps.
        n_kv_heads: heads of keys and values; n_heads unless given.
        d_k: dimension of one head's queries and keys; d_model / n_heads unless given.
        d_v: dimension of one head's values; d_model / n_heads unless given.
        d_query_in: dimension of x_query; d_model unless given.
        d_key_in: dimension of x_key; d_model unless given.
        d_value_in: dimension of x_value; d_key_in unless given.
        d_out: dimension of the output; d_model unless given.
        bias: whether each of the four projections has one.
        dropout: of the attention weights, in training; the paper has none there.
        positions: a scheme of `lib.positions` that rotates queries and keys or adds to the scores,
            for self-attention; the layers of a stack share one.
    Errors: ValueError for d_model or n_heads below 1, a dropout that is not from 0 to below 1, and
        if n_heads does not divide d_model where d_k or d_v follows from it, or n_kv_heads not
        n_heads.
    Source: Attention Is All You Need, section 3.2.2; Shazeer 2019 (multi-query); Ainslie et al.
        2023 (grouped-query).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_k: int | None = None,
        d_v: int | None = None,
        d_query_in: int | None = None,
        d_key_in: int | None = None,
        d_value_in: int | None = None,
        d_out: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        positions: Positions | None = None,
    ):
        super().__init__()
        _require_sizes(d_model=d_model, n_heads=n_heads)
        if d_model % n_heads and (d_k is None or d_v is None):
            raise ValueError(
                f"expected d_model to be a multiple of n_heads, got d_model={d_model} and "
                f"n_heads={n_heads}; change one of them, or give both d_k and d_v"
            )
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        if n_kv_heads < 1 or n_heads % n_kv_heads:
            raise ValueError(
                f"expected n_kv_heads to divide n_heads, got n_kv_heads={n_kv_heads} and "
                f"n_heads={n_heads}; each group has n_heads / n_kv_heads query heads"
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"expected a dropout of at least 0 and below 1, got {dropout!r}")
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.dropout = dropout
        self.positions = positions
        d_k = d_model // n_heads if d_k is None else d_k
        d_v = d_model // n_heads if d_v is None else d_v
        d_query_in = d_model if d_query_in is None else d_query_in
        d_key_in = d_model if d_key_in is None else d_key_in
        d_value_in = d_key_in if d_value_in is None else d_value_in
        d_out = d_model if d_out is None else d_out

        # The matrices W_1 ... W_h of all heads stand side by side in one.
        self.w_q = nn.Linear(d_query_in, n_heads * d_k, bias=bias)
        self.w_k = nn.Linear(d_key_in, n_kv_heads * d_k, bias=bias)
        self.w_v = nn.Linear(d_value_in, n_kv_heads * d_v, bias=bias)
        self.w_o = nn.Linear(n_heads * d_v, d_out, bias=bias)
        for projection in (self.w_q, self.w_k, self.w_v, self.w_o):
            # Keeps the variance of what passes through: the reason for 1/sqrt(d_k) assumes it.
            nn.init.xavier_uniform_(projection.weight)
            if bias:
                nn.init.zeros_(projection.bias)

    def forward(
        self,
        x_query: Float[Tensor, "batch query d_query_in"],
        x_key: Float[Tensor, "sequences key d_key_in"] | None = None,
        x_value: Float[Tensor, "sequences key d_value_in"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        *,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch query d_out"]:
        """Let each position of `x_query` attend to the positions of `x_key`.

        Args:
            x_query: the positions that ask.
            x_key: the positions that are asked; x_query itself unless given.
            x_value: what is taken from there; x_key itself unless given.
            mask: (query, key), (batch, query, key) or (batch, heads, query, key), each axis full
                or 1, True = may attend.
            cache: while decoding. One that grows gets the new keys and values, and the queries
                attend to all that it holds; another is filled by the first call, read by the next.
        Errors: ValueError for lengths, batch axes or a mask that do not fit; torch's RuntimeError
            for another dimension than the layer was made for.
        Source: Attention Is All You Need, section 3.2.2.
        """
        x_key = x_query if x_key is None else x_key
        x_value = x_key if x_value is None else x_value
        query = self._split_heads(self.w_q, x_query)
        if cache is not None and cache.length and not cache.grows:
            # In cross-attention the source does not change: it was projected at the first step.
            attended = self.attend(query, mask=mask, cache=cache)
        else:
            key = self._split_heads(self.w_k, x_key)
            value = self._split_heads(self.w_v, x_value)
            attended = self.attend(query, key, value, mask, cache=cache)
        # (batch, heads, query, d_v) -> (batch, query, heads, d_v) -> (batch, query, heads * d_v)
        return self.w_o(attended.transpose(1, 2).flatten(2))  # (batch, query, d_out)

    def attend(
        self,
        query: Float[Tensor, "batch heads query d_k"],
        key: Float[Tensor, "sequences kv_heads key d_k"] | None = None,
        value: Float[Tensor, "sequences kv_heads key d_v"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        *,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch heads query d_v"]:
        """What `forward` does between the projections: each head attends by itself.

        Args: as in `forward`. Without key and value, those that the cache holds.
        Errors: as in `forward`, and ValueError for keys or values alone, or neither and no cache.
        Source: Attention Is All You Need, section 3.2.2.
        """
        # In self-attention the positions of this call come after those that the cache holds.
        offset = cache.length if cache is not None and cache.grows else 0
        query = self._rotated(query, offset)
        if key is None and value is None and cache is not None:
            key, value = cache.stored()
        elif key is None or value is None:
            raise ValueError(
                "expected both keys and values, or a cache that holds them, got "
                f"{(key is not None) + (value is not None)} of the two; project what is attended to"
            )
        else:
            key = self._rotated(key, offset)
            if cache is not None:
                key, value = cache.append(key, value)  # from here on, with all earlier ones
        readers = None if cache is None else cache.readers
        dropout = self.dropout if self.training else 0.0
        bias = self._bias(query, key)
        if readers is None:
            return _attend_in_groups(query, key, value, mask, bias, dropout)
        return _attend_to_shared(query, key, value, mask, bias, dropout, readers)

    def attention_weights(
        self,
        x_query: Float[Tensor, "batch query d_query_in"],
        x_key: Float[Tensor, "sequences key d_key_in"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        *,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch heads query key"]:
        """Return the attention map of each head: what `forward` weighs the values by.

        Dropout leaves them alone. Arguments and errors are those of `forward`; a cache is read as
        `forward` has left it, with the keys of this call's positions in it.
        """
        query = self._split_heads(self.w_q, x_query)
        if cache is not None:
            key, _ = cache.read()
            query = self._rotated(query, cache.length - query.shape[2] if cache.grows else 0)
        else:
            key = self._rotated(self._split_heads(self.w_k, x_query if x_key is None else x_key))
            query = self._rotated(query)
        bias = self._bias(query, key)
        key = key.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1)
        return attention_weights(query, key, mask, bias=bias)

    def _split_heads(self, projection: nn.Module, x: Tensor) -> Tensor:
        """Project: (batch, time, d) -> (batch, time, heads * d_k) -> (batch, heads, time, d_k)."""
        if x.dim() != 3:
            raise ValueError(
                f"expected an input (batch, time, {projection.in_features}), got {tuple(x.shape)}; "
                "add a batch of one to a single sequence: x[None]"
            )
        n_heads = self.n_heads if projection is self.w_q else self.n_kv_heads
        return projection(x).unflatten(-1, (n_heads, -1)).transpose(1, 2)

    def _rotated(self, x: Tensor, offset: int = 0) -> Tensor:
        return x if self.positions is None else self.positions.rotate(x, offset)

    def _bias(self, query: Tensor, key: Tensor) -> Tensor | None:
        return None if self.positions is None else self.positions.bias(query.shape[2], key.shape[2])


def _attend_in_groups(
    query: Float[Tensor, "batch heads query d_k"],
    key: Float[Tensor, "batch kv_heads key d_k"],
    value: Float[Tensor, "batch kv_heads key d_v"],
    mask: Tensor | None,
    bias: Tensor | None,
    dropout: float,
) -> Float[Tensor, "batch heads query d_v"]:
    """Attention of heads of queries, of which each group shares one head of keys and values."""
    n_heads, n_kv_heads = query.shape[1], key.shape[1]
    if n_heads == n_kv_heads:
        return scaled_dot_product_attention(query, key, value, mask, bias=bias, dropout=dropout)
    if mask is None and bias is None:
        # A group's queries become more queries of one head: a step of decoding reads each key once.
        stacked = query.unflatten(1, (n_kv_heads, -1)).flatten(2, 3)  # (batch, kv_heads, ..., d_k)
        attended = scaled_dot_product_attention(stacked, key, value, dropout=dropout)
        return attended.unflatten(2, (n_heads // n_kv_heads, -1)).flatten(1, 2)
    _require_fitting(query[:, :n_kv_heads], key, value)
    added = _mask_and_bias(mask, bias, query, key)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask=added, dropout_p=dropout, enable_gqa=True
    )


def _attend_to_shared(
    query: Float[Tensor, "rows heads query d_k"],
    key: Float[Tensor, "sequences kv_heads key d_k"],
    value: Float[Tensor, "sequences kv_heads key d_v"],
    mask: Tensor | None,
    bias: Tensor | None,
    dropout: float,
    readers: Readers,
) -> Float[Tensor, "rows heads query d_v"]:
    """Attention of rows that share keys and values, none of which is copied.

    Each kernel call has one query of a row, as if each row had keys of its own, so the numbers are
    the same to the last bit; it is made for a line or for a column of the table of readers,
    whichever are fewer.
    """
    queries, masks = readers.in_table(query), None
    if mask is not None:  # each row has its own, or all have one
        rows = mask.expand(len(query), *mask.shape[mask.dim() > 2 :])
        masks = readers.in_table(rows)

    def attend(of: Any, key: Tensor, value: Tensor) -> Tensor:
        its_mask = None if masks is None else masks[of]
        return _attend_in_groups(queries[of], key, value, its_mask, bias, dropout)

    if readers.n < readers.most:
        parts = [
            attend(i, *(x[i].expand(readers.most, *x.shape[1:]) for x in (key, value)))
            for i in range(readers.n)
        ]
        table = torch.stack(parts)
    else:
        parts = [attend((slice(None), j), key, value) for j in range(readers.most)]
        table = torch.stack(parts, dim=1)
    return table[readers.sequence, readers.column]


@torch.no_grad()
def attention_maps(
    model: nn.Module, *inputs: Any, **options: Any
) -> dict[str, Float[Tensor, "batch heads query key"]]:
    """Run the model and return every attention map, under the name of the layer that made it.

    E.g. "decoder.layers.0.cross_attention". A hook asks each attention layer for its weights after
    it has run; the model is called as always and is left as it was.
    """
    maps, hooks = {}, []

    def keep(name: str, layer: MultiHeadAttention, args: tuple, kwargs: dict, output: Tensor):
        asked = inspect.signature(layer.forward).bind(*args, **kwargs).arguments
        asked.pop("x_value", None)
        maps[name] = layer.attention_weights(**asked)

    for name, layer in model.named_modules():
        if isinstance(layer, MultiHeadAttention):
            keep_its_map = partial(keep, name.removesuffix(".sublayer"))
            hooks.append(layer.register_forward_hook(keep_its_map, with_kwargs=True))
    try:
        model(*inputs, **options)
    finally:
        for hook in hooks:
            hook.remove()
    return maps

"""The attention layer: each query takes home a weighted mean of the values.

What is here: one attention map (`scaled_dot_product_attention`), the keys and values kept while
decoding (`KeyValueCache`), several maps side by side (`MultiHeadAttention`), for self- and for
cross-attention alike, and a look at every map of a model (`attention_maps`).
What is not: masks, which are made in `lib.masks`; positions, residuals and norms."""

import math
from copy import copy
from functools import partial
from typing import Any, Literal, overload

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.layers import _require_sizes
from lib.masks import fit_mask
from lib.positions import Positions

FIRST_ROOM = 32  # positions; doubled whenever it is full


@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    return_weights: Literal[False] = False,
) -> Tensor: ...


@overload
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    return_weights: bool,
) -> Tensor | tuple[Tensor, Tensor]: ...


def scaled_dot_product_attention(
    query: Float[Tensor, "*batch query d_k"],
    key: Float[Tensor, "*batch key d_k"],
    value: Float[Tensor, "*batch key d_v"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    bias: Float[Tensor, "..."] | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
) -> (
    Float[Tensor, "*batch query d_v"]
    | tuple[Float[Tensor, "*batch query d_v"], Float[Tensor, "*batch query key"]]
):
    """softmax(Q K^T / sqrt(d_k)) V: for each query a mean of the values, weighted by its scores.

    Without the weights torch's fused kernel computes it, which never stores a query x key matrix.
    Asked for the weights, the formula below does. Both give the same values and gradients.

    Shapes: query (*batch, query, d_k), key (*batch, key, d_k), value (*batch, key, d_v). mask:
        boolean, True = may attend, broadcasts to (*batch, query, key); where *batch is (batch,
        heads), three axes mean (batch, query, key). Returns (*batch, query, d_v), with the weights
        (*batch, query, key) if asked. Weights are 0 where masked and a row of them sums to 1; a
        fully masked row is all 0, and so is its output. Keys and values must be finite, masked ones
        too: NaN there makes every output of its sequence NaN, with the weights and without.
    Args: bias, a term added to the scores, which broadcasts to (*batch, query, key). dropout, the
        fraction of weights set to 0 at this call (at inference, pass 0); the weights are returned
        as they were before it.
    Errors: ValueError for shapes or types that do not fit, a mask that is not boolean, and a
        dropout that is not from 0 to below 1.
    Source: Attention Is All You Need, section 3.2.1, equation 1.
    """
    _require_fitting(query, key, value)
    _require_fraction(dropout)
    d_k = query.shape[-1]
    if mask is not None:
        mask = fit_mask(mask, (*query.shape[:-1], key.shape[-2]))
    if bias is not None:
        bias = _fitting(bias.to(query.dtype), (*query.shape[:-1], key.shape[-2]))
    if not return_weights:
        if bias is not None:  # the kernel takes one or the other: "masked" becomes -inf in the bias
            mask = bias if mask is None else torch.where(mask, bias, -torch.inf)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)

    # Q is divided before the product: fewer numbers to divide, and no overflow in float16.
    scores = (query / math.sqrt(d_k)) @ key.transpose(-2, -1)  # (*batch, query, key)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        hidden = ~mask & (scores < torch.inf)  # NaN stays and spreads, as in the kernel
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(hidden, 0.0)  # a fully masked row: zeros
    output = F.dropout(weights, dropout) @ value  # (*batch, query, d_v)
    return output, weights


class KeyValueCache:
    """Room for the keys and values of one attention layer, filled from the left.

    The room is allocated ahead and doubled when full, so that n steps copy O(n) numbers in all;
    concatenating old and new at each step would copy O(n^2). `length` counts the positions stored.

    Args: grows, True for self-attention, whose keys become more with each step. False for
        cross-attention: its keys, those of the source, are stored once and then only read.

    Source: ours; the idea is as old as decoding with the Transformer.
    """

    def __init__(self, *, grows: bool = True) -> None:
        self.grows = grows
        self.length = 0
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
        """An error unless the two go together, and continue what is stored."""
        if not key.dim() == value.dim() == 4:
            shapes = f"{tuple(key.shape)}, {tuple(value.shape)}"
            raise ValueError(f"expected keys and values (batch, heads, new, d), got {shapes}")
        if self.length and len(key) != len(self._key):
            raise ValueError(
                f"expected a batch of {len(self._key)} as at the first step, got {len(key)}; "
                "use select to keep some of the sequences"
            )
        first = self._key if self.length else key
        for new, old in ((key, first), (value, self._value if self.length else value)):
            wanted = (*first.shape[:2], key.shape[2], old.shape[3])
            if new.shape != wanted or (new.dtype, new.device) != (first.dtype, first.device):
                got = f"{tuple(new.shape)} of {new.dtype} on {new.device}"
                stored = f"keys and values {wanted} of {first.dtype} on {first.device}"
                raise ValueError(f"expected {stored}, got {got}; append what the same layer made")

    def read(
        self,
    ) -> tuple[Float[Tensor, "batch heads key d_k"], Float[Tensor, "batch heads key d_v"]]:
        """Return the keys and values of all positions so far."""
        return self._key[:, :, : self.length], self._value[:, :, : self.length]

    def select(self, rows: Int[Tensor, " rows"]) -> "KeyValueCache":
        """Return a cache that holds these sequences of the batch, in this order, each any number of
        times: a beam goes on with some hypotheses and drops others.

        Errors: ValueError for rows that it does not have.
        """
        chosen = copy(self)
        if self.length:
            chosen._key, chosen._value = _rows(self._key, rows), _rows(self._value, rows)
        return chosen


def _rows(stored: Tensor, rows: Tensor) -> Tensor:
    try:
        if rows.dim() != 1 or rows.dtype not in (torch.int32, torch.int64):
            raise IndexError("these are no numbers of rows")
        return stored[rows]
    except IndexError as e:
        raise ValueError(f"expected rows of a batch {list(stored.shape[:1])}, got {rows}") from e


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
    Args: d_model and n_heads as in the paper; n_kv_heads is n_heads unless given. d_k and d_v, the
        dimensions of one head, are d_model / n_heads unless given. d_query_in, d_key_in,
        d_value_in, the dimensions of the inputs, and d_out, that of the output, are d_model unless
        given (d_value_in: d_key_in). bias adds a bias to each of the four projections. dropout acts
        on the attention weights, in training; the paper has none there. positions, a scheme of
        `lib.positions` that rotates queries and keys or adds to the scores, for self-attention; the
        layers of a stack share one.
    Errors: ValueError for a size below 1, a dropout that is not from 0 to below 1, and if n_heads
        does not divide d_model where d_k or d_v follows from it, or n_kv_heads not n_heads.
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
        _require_fraction(dropout)
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
        _require_sizes(d_k=d_k, d_v=d_v, d_query_in=d_query_in, d_key_in=d_key_in, d_out=d_out)

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
        x_key: Float[Tensor, "batch key d_key_in"] | None = None,
        x_value: Float[Tensor, "batch key d_value_in"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        *,
        cache: KeyValueCache | None = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "batch query d_out"]
        | tuple[Float[Tensor, "batch query d_out"], Float[Tensor, "batch heads query key"]]
    ):
        """Let each position of `x_query` attend to the positions of `x_key`.

        Shapes: x_query (batch, query, d_query_in); x_key (batch, key, d_key_in), x_query itself
            unless given; x_value (batch, key, d_value_in), x_key itself unless given. mask (query,
            key), (batch, query, key) or (batch, heads, query, key), each axis full or 1. Returns
            (batch, query, d_out), with the weights (batch, heads, query, key) if asked.
        Args: cache, while decoding: one that grows gets the new keys and values, and the queries
            attend to all that it holds; another is filled by the first call, read by the next ones.
        Errors: ValueError for dimensions, lengths or a mask that do not fit.
        Source: Attention Is All You Need, section 3.2.2.
        """
        offset = cache.length if cache is not None and cache.grows else 0
        x_key = x_query if x_key is None else x_key
        x_value = x_key if x_value is None else x_value
        query = self._split_heads(self._project("w_q", x_query), self.n_heads)
        if self.positions is not None:
            query = self.positions.rotate(query, offset)
        if cache is not None and cache.length and not cache.grows:
            key, value = cache.read()
        else:
            key = self._split_heads(self._project("w_k", x_key), self.n_kv_heads)
            value = self._split_heads(self._project("w_v", x_value), self.n_kv_heads)
            if self.positions is not None:
                key = self.positions.rotate(key, offset)
            if cache is not None:
                key, value = cache.append(key, value)
        bias = None
        if self.positions is not None:
            bias = self.positions.bias(query.shape[-2], key.shape[-2])
        heads, weights = _attend_in_groups(
            query,
            key,
            value,
            mask,
            bias=bias,
            dropout=self.dropout if self.training else 0.0,
            return_weights=return_weights,
        )
        # (batch, heads, query, d_v) -> (batch, query, heads, d_v) -> (batch, query, heads * d_v)
        output = self.w_o(heads.transpose(1, 2).flatten(2))  # (batch, query, d_out)
        return output if weights is None else (output, weights)

    @staticmethod
    def _split_heads(x: Tensor, n_heads: int) -> Tensor:
        """(batch, time, heads * d) -> (batch, time, heads, d) -> (batch, heads, time, d)."""
        return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)

    def _project(self, name: str, x: Tensor) -> Tensor:
        """x W, with an error that speaks of the input and not of a matrix product."""
        projection = getattr(self, name)
        if x.dim() != 3 or x.shape[-1] != projection.in_features:
            raise ValueError(
                f"expected an input (batch, time, {projection.in_features}) for {name}, "
                f"got {tuple(x.shape)}; the dimensions are set when the layer is made: "
                "d_query_in, d_key_in, d_value_in"
            )
        return projection(x)


def _attend_in_groups(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    bias: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attention of heads of queries, of which each group shares one head of keys and values.

    Shapes: query (batch, heads, query, d_k), key (batch, kv_heads, key, d_k), value (batch,
        kv_heads, key, d_v). Returns (batch, heads, query, d_v), and the weights if asked.
    """
    batch, n_heads, n_queries, _ = query.shape
    group = n_heads // key.shape[1]
    if group > 1 and mask is None and bias is None:
        # A group's queries become more queries of one head: a step of decoding reads each key once.
        query = query.unflatten(1, (-1, group)).flatten(2, 3)  # (batch, kv_heads, ..., d_k)
    elif group > 1:
        key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
    attended = scaled_dot_product_attention(query, key, value, mask, bias=bias, **options)
    heads, weights = attended if isinstance(attended, tuple) else (attended, None)
    if query.shape[1] < n_heads:
        heads = heads.reshape(batch, n_heads, n_queries, -1)
        weights = None if weights is None else weights.reshape(batch, n_heads, n_queries, -1)
    return heads, weights


def _require_fitting(query: Tensor, key: Tensor, value: Tensor) -> None:
    q, k, v = query.shape, key.shape, value.shape
    if min(len(q), len(k), len(v)) < 2:
        wanted, remedy = "at least two axes (time, d)", "add a batch of one"
    elif q[-1] != k[-1]:
        wanted, remedy = "query and key of the same dimension d_k", "project one of them"
    elif k[-2] != v[-2]:
        wanted, remedy = "one value for each key", "take both from the same positions"
    elif not q[:-2] == k[:-2] == v[:-2]:
        wanted, remedy = "the same batch axes in all three", "use expand"
    elif not query.dtype == key.dtype == value.dtype or not query.is_floating_point():
        kinds = f"query {query.dtype}, key {key.dtype}, value {value.dtype}"
        raise ValueError(f"expected one type of real numbers, got {kinds}; convert with .to(dtype)")
    else:
        return
    shapes = f"query {tuple(q)}, key {tuple(k)}, value {tuple(v)}"
    raise ValueError(f"expected {wanted}, got {shapes}; {remedy}")


def _fitting(bias: Tensor, shape: tuple[int, ...]) -> Tensor:
    try:
        bias.expand(shape)
    except RuntimeError as error:
        got = f"{shape}, got {tuple(bias.shape)}"
        raise ValueError(f"expected a bias that broadcasts to the scores {got}") from error
    return bias


def _require_fraction(dropout: float) -> None:
    if not 0 <= dropout < 1:
        raise ValueError(f"expected a dropout of at least 0 and below 1, got {dropout!r}")


@torch.no_grad()
def attention_maps(
    model: nn.Module, *inputs: Tensor
) -> dict[str, Float[Tensor, "batch heads query key"]]:
    """Run the model and return every attention map, under the name of the layer that made it.

    E.g. "decoder.layers.0.cross_attention". Hooks ask each attention layer for its weights; the
    model is called as always and is left as it was.
    """
    maps, hooks = {}, []

    def ask(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return args, {**kwargs, "return_weights": True}

    def keep(name: str, module: nn.Module, args: tuple, result: tuple) -> Tensor:
        output, maps[name] = result
        return output

    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            hooks.append(module.register_forward_pre_hook(ask, with_kwargs=True))
            hooks.append(
                module.register_forward_hook(partial(keep, name.removesuffix(".sublayer")))
            )
    try:
        model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return maps

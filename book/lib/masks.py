"""Who may attend to whom: boolean masks, True = may attend.

What is here: the masks of the paper (padding, causal), the window of its section 4, and a way to
combine them. Rows are queries, columns are keys.
What is not: their use. `lib.attention` applies a mask; nothing here looks at a model.
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(
    lengths: Int[Tensor, "batch"] | Int[Tensor, "batch query"], n_keys: int
) -> Bool[Tensor, "batch #query {n_keys}"]:
    """Let each query attend to the first `lengths` keys only: mask[b, i, j] = j < lengths[b, i].

    Shapes: lengths (batch,), one for each sequence, gives (batch, 1, key), alike for all queries;
        lengths (batch, query), one for each query, gives (batch, query, key). A length of 0
        makes a fully masked row, which attends to nothing and whose output is zero.
    Errors: ValueError for lengths that are not integers or have another number of axes.
    Source: ours; the paper batches sentences of similar length (section 5.1).
    """
    if lengths.dim() not in (1, 2) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise ValueError(
            "expected integer lengths of shape (batch,) or (batch, query), "
            f"got {lengths.dtype} of shape {tuple(lengths.shape)}; for a mask of token ids "
            "count the real tokens first: (ids != PAD).sum(-1)"
        )
    position = torch.arange(n_keys, device=lengths.device)  # (key,)
    if lengths.dim() == 1:
        lengths = lengths[:, None]  # (batch, 1)
    return position < lengths[..., None]  # (batch, query or 1, key)


def causal_mask(
    n_queries: int,
    n_keys: int | None = None,
    *,
    window: int | None = None,
    device: torch.device | None = None,
) -> Bool[Tensor, "{n_queries} key"]:
    """Let no position attend to a later one: mask[i, j] = j <= i.

    With a sliding window, each position attends to the last `window` positions only, itself
    included: mask[i, j] = i - window < j <= i.

    With more keys than queries the queries are the last positions of the sequence, as in decoding
    with a cache of earlier keys: mask[i, j] = j <= i + (n_keys - n_queries).

    Shapes: (query, key), where key = query unless given.
    Errors: ValueError for fewer keys than queries, or a window below 1.
    Source: Attention Is All You Need, section 3.2.3; Beltagy et al. 2020 (the sliding window).
    """
    distance = _distance(n_queries, n_keys, device)
    if window is None:
        return distance <= 0
    if window < 1:
        raise ValueError(f"expected a window of 1 or more, got {window}; 1 is the query itself")
    return (distance <= 0) & (distance > -window)


def window_mask(
    n_queries: int, radius: int, n_keys: int | None = None, *, device: torch.device | None = None
) -> Bool[Tensor, "{n_queries} key"]:
    """Let each position attend to its neighbours only: mask[i, j] = |i - j| <= radius.

    With more keys than queries the queries are the last positions, as in `causal_mask`.

    Shapes: (query, key), where key = query unless given.
    Errors: ValueError for a negative radius or for fewer keys than queries.
    Source: Attention Is All You Need, section 4, restricted self-attention.
    """
    if radius < 0:
        raise ValueError(f"expected a radius of 0 or more, got {radius}; 0 is the query itself")
    return _distance(n_queries, n_keys, device).abs() <= radius


def combine_masks(*masks: Bool[Tensor, "..."] | None) -> Bool[Tensor, "..."] | None:
    """Allow what every mask allows: logical and, with broadcasting; None stands for "all allowed".

    Shapes: (query, key), (batch, query, key) and (batch, heads, query, key) in any mixture, each
        axis full or 1. The result has the longest of these shapes; None if every mask is None.
    Errors: ValueError for a mask that is not boolean; torch's RuntimeError for shapes that do not
        fit together.
    Source: Attention Is All You Need, section 3.2.3.
    """
    given = [mask for mask in masks if mask is not None]
    for mask in given:
        _require_boolean(mask)
    if any(mask.dim() == 4 for mask in given):
        given = [_add_heads_axis(mask) for mask in given]
    combined = None
    for mask in given:
        combined = mask if combined is None else combined & mask
    return combined


def fit_mask(mask: Bool[Tensor, "..."], shape: tuple[int, ...]) -> Bool[Tensor, "..."]:
    """Check a mask against the scores that it is for, and give it their number of axes.

    Shapes: scores (batch, heads, query, key) take masks (query, key), (batch, query, key) and
        (batch, heads, query, key); other scores (*batch, query, key) take any mask that broadcasts.
        Each axis is full or 1. Returned as given, with a heads axis put into a mask of 3 axes.
    Errors: ValueError for a mask that is not boolean or does not broadcast to `shape`.
    """
    _require_boolean(mask)
    fitted = _add_heads_axis(mask) if len(shape) == 4 else mask
    ends = shape[len(shape) - fitted.dim() :]
    if not 2 <= fitted.dim() <= len(shape) or any(
        size not in (1, full) for size, full in zip(fitted.shape, ends, strict=True)
    ):
        raise ValueError(
            "expected a mask (query, key), (batch, query, key) or with all axes of the scores, "
            f"that broadcasts to the scores {tuple(shape)}, got {tuple(mask.shape)}; give each "
            "axis its full size or 1: padding of the keys is (batch, 1, key)"
        )
    return fitted


def _distance(
    n_queries: int, n_keys: int | None, device: torch.device | None
) -> Int[Tensor, "{n_queries} key"]:
    """Position of key j minus position of query i; the last query stands at the last key."""
    n_keys = n_queries if n_keys is None else n_keys
    if not 0 <= n_queries <= n_keys:
        raise ValueError(
            f"expected at least as many keys as queries, got {n_queries} queries and {n_keys} "
            "keys; the keys are the whole sequence, the queries its last positions"
        )
    key = torch.arange(n_keys, device=device)
    query = torch.arange(n_keys - n_queries, n_keys, device=device)
    return key - query[:, None]  # (query, key)


def _add_heads_axis(mask: Tensor) -> Tensor:
    """(batch, query, key) -> (batch, 1, query, key): without it, batch would line up with heads."""
    return mask.unsqueeze(1) if mask.dim() == 3 else mask


def _require_one_each(lengths: Tensor, tokens: Tensor) -> None:
    if tokens.dim() != 2 or lengths.shape != tokens.shape[:1]:  # one for two would be broadcast
        raise ValueError(
            "expected tokens (batch, time) and one length for each sequence, got "
            f"{tuple(tokens.shape)} and {tuple(lengths.shape)}; count the real tokens of each"
        )


def _require_boolean(mask: Tensor) -> None:
    if mask.dtype != torch.bool:
        raise ValueError(
            f"expected a boolean mask, True = may attend, got {mask.dtype}; turn 0/1 into it with "
            "mask.bool(), an additive mask with mask == 0"
        )

"""A builder of masks: rules and single cells, who feels whom, and the conventions of others."""

from collections.abc import Mapping, Sequence

import torch
import traitlets
from jaxtyping import Bool
from torch import Tensor

from kit.shared import validate
from kit.shared.widget import BookWidget, static_table
from lib.masks import causal_mask, combine_masks, padding_mask, window_mask

MOST = 64  # queries and keys; few are shown as a table, more as a picture
MOST_LAYERS = 12
TARGET = "<bos> deux dollars canadiens , six milles carrés et il y a"
SOURCE = "two canadian dollars , six square miles and three weeks ago <eos>"
QUERY_TOKENS, KEY_TOKENS = tuple(TARGET.split()), tuple(SOURCE.split())


class MaskBuilder(BookWidget):
    """Build a mask from rules and by hand; see which inputs each output feels, layer after layer.

    Args: n_queries, the rows; n_keys, the columns of cross-attention, None for self-attention,
        where the queries are the keys. lengths, how many keys are real: one number for the
        sequence, or a list with one for each query. causal and radius as in `causal_mask` and
        `window_mask`. by_hand, single cells: {(query, key): may attend}. n_layers, how many layers
        of self-attention follow each other. query_tokens and key_tokens, the labels of the first
        positions; later ones, at most 64, show their number alone.
    Errors: ValueError for sizes, lengths or cells that do not fit, and for a causal mask or a
        window in cross-attention, which compares no positions of one sequence.
    Source: Attention Is All You Need, sections 3.2.3 and 4, made to move.
    """

    _module = "mask_builder"
    query_tokens = traitlets.List().tag(sync=True)
    key_tokens = traitlets.List().tag(sync=True)
    most = traitlets.Int(MOST).tag(sync=True)
    most_layers = traitlets.Int(MOST_LAYERS).tag(sync=True)
    kind = traitlets.Unicode().tag(sync=True)
    n_queries = traitlets.Int().tag(sync=True)
    n_keys = traitlets.Int().tag(sync=True)
    padding = traitlets.Unicode().tag(sync=True)
    length = traitlets.Int().tag(sync=True)
    lengths = traitlets.Unicode().tag(sync=True)
    causal = traitlets.Bool().tag(sync=True)
    radius = traitlets.Int().tag(sync=True)  # as many as there can be keys, or more: no window
    by_hand = traitlets.Unicode().tag(sync=True)  # cells such as 2.4t_3.0f: row, column, allowed
    n_layers = traitlets.Int().tag(sync=True)
    row = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        n_queries: int = 7,
        n_keys: int | None = None,
        *,
        lengths: int | Sequence[int] | None = None,
        causal: bool = False,
        radius: int | None = None,
        by_hand: Mapping[tuple[int, int], bool] | None = None,
        n_layers: int = 1,
        query_tokens: Sequence[str] = QUERY_TOKENS,
        key_tokens: Sequence[str] = KEY_TOKENS,
    ):
        query_tokens = _labels(query_tokens, "query_tokens")
        key_tokens = _labels(key_tokens, "key_tokens")
        validate.whole(n_queries, 1, MOST, "n_queries")
        if n_keys is not None:
            validate.whole(n_keys, 1, MOST, "n_keys")
            if causal or radius is not None:
                raise ValueError(
                    "expected neither causal nor radius in cross-attention, got "
                    f"n_keys={n_keys}, causal={causal}, radius={radius}; both compare positions "
                    "within one sequence, so leave out n_keys or the rule"
                )
        size = (n_queries, n_keys or n_queries)
        single = isinstance(lengths, int)
        each = [lengths] if single else list(lengths or [])
        for number in each:
            validate.whole(number, 0, size[1], "lengths")
        if lengths is not None and not single and len(each) != n_queries:
            raise ValueError(
                f"lengths: expected one number, or one for each of {n_queries} queries, got {each}"
            )
        if radius is not None:
            validate.whole(radius, 0, size[1] - 1, "radius")
        for cell in by_hand or {}:
            for place, most, name in zip(cell, size, ("row", "column"), strict=True):
                validate.whole(place, 0, most - 1, f"by_hand, {name} of {cell}")
        validate.whole(n_layers, 1, MOST_LAYERS, "n_layers")
        stairs = [min(row + 1, size[1]) for row in range(n_queries)]
        super().__init__(
            query_tokens=query_tokens,
            key_tokens=key_tokens,
            kind="self" if n_keys is None else "cross",
            n_queries=n_queries,
            n_keys=n_keys or n_queries,
            padding="none" if lengths is None else "sequence" if single else "queries",
            length=lengths if single else size[1],
            lengths=", ".join(map(str, stairs if single or lengths is None else each)),
            causal=causal,
            radius=MOST if radius is None else radius,
            by_hand="_".join(f"{i}.{j}{'ft'[v]}" for (i, j), v in sorted((by_hand or {}).items())),
            n_layers=n_layers,
            row=min(2, n_queries - 1),
        )

    def mask(self) -> Bool[Tensor, "query key"]:
        """The mask that the widget starts with, made by `lib.masks`."""
        n_keys = self.n_queries if self.kind == "self" else self.n_keys
        mask = torch.ones(self.n_queries, n_keys, dtype=torch.bool)
        if self.padding == "sequence":
            mask = combine_masks(mask, padding_mask(torch.tensor([self.length]), n_keys))[0]
        if self.padding == "queries":
            each = torch.tensor([[int(number) for number in self.lengths.split(",")]])
            mask = combine_masks(mask, padding_mask(each, n_keys))[0]
        if self.causal:
            mask = combine_masks(mask, causal_mask(self.n_queries, n_keys))
        if self.radius < n_keys:
            mask = combine_masks(mask, window_mask(self.n_queries, self.radius, n_keys))
        for cell in filter(None, self.by_hand.split("_")):
            row, column = cell[:-1].split(".")
            mask[int(row), int(column)] = cell[-1] == "t"
        return mask

    def summary(self) -> str:
        mask = self.mask()
        return (
            f"MaskBuilder: {self.kind}-attention, {mask.shape[0]} queries, {mask.shape[1]} keys, "
            f"{mask.sum()} of {mask.numel()} pairs allowed"
        )

    def static_html(self) -> str:
        mask = self.mask()
        queries = _named(self.query_tokens, len(mask))
        keys = _named(self.query_tokens if self.kind == "self" else self.key_tokens, mask.shape[1])
        header = ("query", *keys)
        rows = [
            (token, *("True" if allowed else "–" for allowed in row))
            for token, row in zip(queries, mask.tolist(), strict=True)
        ]
        caption = "The mask: True where the query of the row may attend to the key of the column"
        return static_table(caption, header, rows)


def _labels(value: Sequence[str], name: str) -> list[str]:
    found = validate.tokens(value, name)
    if not 2 <= len(found) <= MOST:
        raise ValueError(f"{name}: expected 2 to {MOST} tokens, got {len(found)}")
    return found


def _named(tokens: list[str], size: int) -> list[str]:
    return [tokens[i] if i < len(tokens) else str(i) for i in range(size)]

"""A builder of masks: rules, single cells, what depends on what, the conventions of others."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import traitlets
from jaxtyping import Bool
from torch import Tensor
from traitlets import Bunch, Enum, Int, Unicode, validate

from lib.masks import causal_mask, padding_mask, window_mask
from widgets import domain
from widgets.base import BookWidget, static_table

MOST = 64  # queries and keys; few are shown as a table, more as a picture
TARGET = "<bos> deux dollars canadiens , six milles carrés et il y a"
SOURCE = "two canadian dollars , six square miles and three weeks ago <eos>"
QUERY_TOKENS, KEY_TOKENS = tuple(TARGET.split()), tuple(SOURCE.split())


class MaskBuilder(BookWidget):
    """Build a mask from rules and by hand; see what each output depends on, layer after layer.

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
    query_tokens = domain.Fixed()
    key_tokens = domain.Fixed()
    kind = Enum(("self", "cross"), "self")
    n_queries = Int(7, min=1, max=MOST)
    n_keys = Int(7, min=1, max=MOST)
    padding = Enum(("none", "sequence", "queries"), "none")
    length = Int(MOST, min=0, max=MOST)  # as many as there are keys, or more: all of them are real
    lengths = Unicode("1")  # numbers with commas between them
    causal = traitlets.Bool()
    radius = Int(MOST, min=0, max=MOST)  # as many as there can be keys, or more: no window
    by_hand = Unicode()  # cells such as 2.4t_3.0f: row, column, allowed
    n_layers = Int(1, min=1, max=12)
    row = Int(0, min=0, max=MOST)  # past the last one: the last one

    def __init__(
        self,
        n_queries: int = 7,
        n_keys: int | None = None,
        *,
        lengths: int | Sequence[int] | None = None,
        radius: int | None = None,
        by_hand: Mapping[tuple[int, int], bool] | None = None,
        query_tokens: Sequence[str] = QUERY_TOKENS,
        key_tokens: Sequence[str] = KEY_TOKENS,
        **start: Any,
    ):
        alone = n_keys is None
        if not alone and (start.get("causal") or radius is not None):
            raise ValueError(
                "expected neither causal nor radius in cross-attention, got n_keys="
                f"{n_keys}, causal={start.get('causal', False)}, radius={radius}; both compare "
                "positions within one sequence, so leave out n_keys or the rule"
            )
        domain.whole(n_queries, "n_queries", 1, MOST)
        n_keys = domain.whole(n_queries if alone else n_keys, "n_keys", 1, MOST)
        single = isinstance(lengths, int)
        each = [lengths] if isinstance(lengths, int) else list(lengths or [])
        for number in each:
            domain.whole(number, "lengths", 0, n_keys)
        if lengths is not None and not single and len(each) != n_queries:
            domain.refuse("lengths", f"one number, or one for each of {n_queries} queries", each)
        if radius is not None:
            domain.whole(radius, "radius", 0, n_keys - 1)
        cells = sorted((by_hand or {}).items())
        for cell, _ in cells:
            domain.whole(cell[0], f"by_hand, row of {cell}", 0, n_queries - 1)
            domain.whole(cell[1], f"by_hand, column of {cell}", 0, n_keys - 1)
        if single or lengths is None:  # what the reader finds on turning to one for each
            each = [min(row + 1, n_keys) for row in range(n_queries)]
        super().__init__(
            query_tokens=_labels(query_tokens, "query_tokens"),
            key_tokens=_labels(key_tokens, "key_tokens"),
            kind="self" if alone else "cross",
            n_queries=n_queries,
            n_keys=n_keys,
            padding="none" if lengths is None else "sequence" if single else "queries",
            length=lengths if single else n_keys,
            lengths=", ".join(map(str, each)),
            radius=MOST if radius is None else radius,
            by_hand="_".join(f"{i}.{j}{'ft'[allowed]}" for (i, j), allowed in cells),
            **{"row": min(2, n_queries - 1)} | start,
        )

    @validate("lengths")
    def _numbers(self, proposal: Bunch) -> str:
        if not re.fullmatch(r"\s*[0-9]+\s*(,\s*[0-9]+\s*)*", proposal.value):
            expected = "whole numbers with commas between them"
            domain.refuse("lengths", expected, repr(proposal.value))
        return proposal.value

    @validate("by_hand")
    def _cells(self, proposal: Bunch) -> str:
        if not re.fullmatch(r"([0-9]+\.[0-9]+[tf](_[0-9]+\.[0-9]+[tf])*)?", proposal.value):
            domain.refuse("by_hand", "cells such as 2.4t_3.0f", repr(proposal.value))
        return proposal.value

    def mask(self) -> Bool[Tensor, "query key"]:
        """The mask that the widget shows, made by `lib.masks`.

        As in the page, a rule that cannot hold is left out: causal and window between two
        sequences, lengths that do not fit the queries or the keys, and cells beyond the mask.
        """
        n_queries, alone = self.n_queries, self.kind == "self"
        n_keys = n_queries if alone else self.n_keys
        mask = torch.ones(n_queries, n_keys, dtype=torch.bool)
        each = [int(number) for number in self.lengths.split(",")]
        if self.padding == "sequence":
            each = [min(self.length, n_keys)] * n_queries
        fits = len(each) == n_queries and max(each) <= n_keys
        if self.padding != "none" and fits:
            mask &= padding_mask(torch.tensor([each]), n_keys)[0]
        if self.causal and alone:
            mask &= causal_mask(n_queries, n_keys)
        if self.radius < n_keys and alone:
            mask &= window_mask(n_queries, self.radius, n_keys)
        for cell in filter(None, self.by_hand.split("_")):
            row, column = map(int, cell[:-1].split("."))
            if row < n_queries and column < n_keys:
                mask[row, column] = cell[-1] == "t"
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
    if isinstance(value, str) or not 2 <= len(value) <= MOST:
        domain.refuse(
            name, f"2 to {MOST} tokens", repr(value) if isinstance(value, str) else len(value)
        )
    return list(value)


def _named(tokens: list[str], size: int) -> list[str]:
    return [tokens[i] if i < len(tokens) else str(i) for i in range(size)]

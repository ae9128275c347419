"""How good translations are: the share that is exactly right, and how it falls with length."""

from collections.abc import Sequence
from itertools import pairwise
from math import nan
from typing import NamedTuple

from lib.text import Pair


class LengthBin(NamedTuple):
    """Sentences whose source has from `shortest` to `longest` tokens, both included.

    `accuracy` is the share translated exactly, from 0 to 1; nan if `count` is 0.
    Chapter: 1 (Sequence to sequence).
    """

    shortest: int
    longest: int
    count: int
    accuracy: float


def exact_match(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> float:
    """Return the share of predictions that equal their reference token by token, from 0 to 1.

    Args: sentences as tokens, in the same order.
    Errors: ValueError for unequal numbers of sentences, for none, or for uncut text.
    Source: ours. Chapter: 1 (Sequence to sequence).
    """
    right = _right(predictions, references)
    return sum(right) / len(right)


def accuracy_by_length(
    predictions: Sequence[Sequence[str]], pairs: Sequence[Pair], edges: Sequence[int]
) -> list[LengthBin]:
    """Return exact match for short and long sources apart; length is in source tokens.

    Args: `edges` are the shortest length, then the longest of each bin: (1, 5, 10, 15) makes the
    bins 1 to 5, 6 to 10 and 11 to 15.
    Errors: ValueError for edges that do not rise, a source outside all bins, and as exact_match.
    Source: ours. Chapter: 1 (Sequence to sequence).
    """
    if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)):
        raise ValueError(f"expected at least two rising edges, got {tuple(edges)}")
    right = _right(predictions, [pair.target for pair in pairs])
    lengths = [len(pair.source) for pair in pairs]
    if min(lengths) < edges[0] or max(lengths) > edges[-1]:
        got = f"lengths from {min(lengths)} to {max(lengths)}"
        message = f"expected sources of {edges[0]} to {edges[-1]} tokens, got {got}"
        raise ValueError(f"{message}; widen the edges so that no sentence is left out")
    bins = []
    starts = [edges[0], *(edge + 1 for edge in edges[1:-1])]
    for shortest, longest in zip(starts, edges[1:], strict=True):
        inside = [ok for ok, n in zip(right, lengths, strict=True) if shortest <= n <= longest]
        accuracy = sum(inside) / len(inside) if inside else nan
        bins.append(LengthBin(shortest, longest, len(inside), accuracy))
    return bins


def _right(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> list[bool]:
    if not predictions or len(predictions) != len(references):
        got = f"{len(predictions)} predictions and {len(references)} references"
        raise ValueError(f"expected one prediction for each reference, at least one, got {got}")
    for sentence in (*predictions, *references):
        if isinstance(sentence, str):
            raise ValueError(
                f"expected tokens, got the text {sentence!r}; cut it into tokens first"
            )
    return [tuple(p) == tuple(r) for p, r in zip(predictions, references, strict=True)]

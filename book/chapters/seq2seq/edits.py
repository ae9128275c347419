"""How an output differs from its reference: the fewest edits, and the words that survive them.

Compared position by position, one inserted word makes every later word wrong. Aligned first, it
costs one edit.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

# Costs of an edit. In place of another word costs a trace more, so that of several ways with the
# fewest edits the one with the most right words wins. The kit's scripts use the same costs.
EDIT = 1000
SWAP = 1001


class Edit(NamedTuple):
    """A word and what became of it: "missing" for a word of the reference, else of the output."""

    word: str
    kind: Literal["right", "wrong", "missing"]


def edits(output: Sequence[str], reference: Sequence[str]) -> list[Edit]:
    """Align an output with its reference by the fewest insertions, deletions and substitutions.

    Returns: the words in reading order. "right" stands in both, "wrong" only in the output (in
    place of another word, or too much), "missing" only in the reference.
    Errors: ValueError for a text that is not split into tokens.
    Source: Wagner and Fischer 1974.
    """
    for sentence in (output, reference):
        if isinstance(sentence, str):
            raise ValueError(f"expected tokens, got the text {sentence!r}; tokenise it first")
    cost = _costs(output, reference)
    found: list[Edit] = []
    i = j = 0
    while i < len(output) or j < len(reference):
        both = i < len(output) and j < len(reference)
        same = both and output[i] == reference[j]
        if both and cost[i][j] == cost[i + 1][j + 1] + (0 if same else SWAP):
            found.append(Edit(output[i], "right" if same else "wrong"))
            i, j = i + 1, j + 1
        elif i < len(output) and cost[i][j] == cost[i + 1][j] + EDIT:
            found.append(Edit(output[i], "wrong"))
            i += 1
        else:
            found.append(Edit(reference[j], "missing"))
            j += 1
    return found


def words_right(output: Sequence[str], reference: Sequence[str]) -> int:
    """How many words of the reference the output has, after alignment.

    Errors: those of `edits`.
    """
    return sum(edit.kind == "right" for edit in edits(output, reference))


def _costs(output: Sequence[str], reference: Sequence[str]) -> list[list[int]]:
    """At [i][j], the least cost that turns output[i:] into reference[j:]."""
    n, m = len(output), len(reference)
    cost = [[EDIT * (n - i + m - j) for j in range(m + 1)] for i in range(n + 1)]
    for i in reversed(range(n)):
        for j in reversed(range(m)):
            swap = cost[i + 1][j + 1] + (0 if output[i] == reference[j] else SWAP)
            cost[i][j] = min(swap, cost[i + 1][j] + EDIT, cost[i][j + 1] + EDIT)
    return cost

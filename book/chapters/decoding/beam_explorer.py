"""A beam search to step through: what is kept, what is pruned, and what ends with which score."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from traitlets import Bool, Float, Int

from chapters.decoding.prefix_table import PrefixTable, Rows
from lib.data import EOS, SPECIAL
from lib.decoding import beam_search
from widgets import domain
from widgets.base import BookWidget, static_table

MOST_BEAM, MOST_ALPHA, MOST_STEPS = 5, 2.0, 60
DIGITS = 4
END = SPECIAL[EOS]


class BeamExplorer(BookWidget):
    """Search a small table of next-token probabilities with any beam and length penalty.

    The search runs in the page; it is that of `lib.decoding`. Of equal continuations the one that
    stands first in the table goes first.

    Args: examples, for each name the rows of a `PrefixTable`: prefixes, and the probability of
        each next token; beam, 1 to 5; alpha, 0 to 2; example, which one to start with, and step,
        how far, counted from 0 and 1; pruned, whether to show all that was pruned; max_length, in
        tokens.
    Errors: ValueError for rows that are no table, for a prefix that a search would need and
        that is not listed, or for a start that the controls cannot reach.
    Source: Wu et al. 2016, section 7, made to move.
    """

    _module = "beam_explorer"
    beam = Int(2, min=1, max=MOST_BEAM)
    alpha = Float(0.6, min=0, max=MOST_ALPHA)
    example = domain.Place()
    step = Int(MOST_STEPS, min=1, max=MOST_STEPS)
    pruned = Bool()
    examples = domain.Fixed()
    max_length = domain.Fixed()

    def __init__(self, examples: Mapping[str, Rows], *, max_length: int = 30, **start: Any):
        if not isinstance(examples, Mapping) or not examples:
            domain.refuse("examples", "a mapping of at least one table", examples)
        domain.whole(max_length, "max_length", 1, MOST_STEPS)
        trees = [_tree(name, rows, max_length) for name, rows in examples.items()]
        super().__init__(examples=trees, max_length=max_length, **start)

    def limits(self) -> Iterator[tuple[str, int]]:
        yield "example", len(self.examples) - 1

    def found(self, example: int, beam: int, alpha: float | int) -> tuple[list[str], float]:
        """What the library's search finds on the stored table: the tokens, and their score."""
        table = PrefixTable(_rows(self.examples[example]))
        source, lengths = torch.tensor([[EOS]]), torch.tensor([1])
        tokens, score = beam_search(
            table, source, lengths, self.max_length, beam=beam, alpha=float(alpha)
        )
        return [table.vocab.tokens[i] for i in tokens[0].tolist()], score.item()

    def summary(self) -> str:
        number = len(self.examples)
        tables = f"{number} table{'s' if number > 1 else ''}"
        return f"BeamExplorer: {tables}, beam {self.beam}, alpha {self.alpha:g}"

    def static_html(self) -> str:
        rows = []
        for beam in range(1, MOST_BEAM + 1):
            words, score = self.found(self.example, beam, self.alpha)
            rows.append((beam, " ".join(words), f"{score:.2f}"))
        name = self.examples[self.example]["name"]
        caption = f"What a beam search finds in “{name}” with alpha = {self.alpha:g}"
        return static_table(caption, ("beam", "sentence", "score"), rows)


def _tree(name: Any, rows: Any, max_length: int) -> dict[str, Any]:
    """The table as a tree: its nodes in lists, parents before children, the likeliest first."""
    where = f"examples[{name!r}]"
    if not isinstance(name, str) or not isinstance(rows, Mapping):
        domain.refuse(where, "a name and rows", type(rows).__name__)
    try:
        PrefixTable(rows)
        tree: dict[str, Any] = {"name": name, "tokens": [], "parents": [], "log_p": []}
        waiting: list[tuple[tuple[str, ...], int]] = [((), -1)]
        for prefix, parent in waiting:
            total = sum(rows[prefix].values())
            for word, p in sorted(rows[prefix].items(), key=lambda one: -one[1]):
                tree["tokens"].append(word)
                tree["parents"].append(parent)
                tree["log_p"].append(round(math.log(p / total), DIGITS) + 0.0)
                if word != END and (*prefix, word) in rows:
                    waiting.append(((*prefix, word), len(tree["tokens"]) - 1))
        table, source = PrefixTable(_rows(tree)), torch.tensor([[EOS]])
        for beam in range(1, MOST_BEAM + 1):  # a large alpha ends the search latest
            beam_search(table, source, torch.tensor([1]), max_length, beam=beam, alpha=MOST_ALPHA)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return tree


def _rows(tree: Mapping[str, Any]) -> Rows:
    """The table again, as it is stored: with rounded numbers."""
    prefixes: list[tuple[str, ...]] = []
    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for word, parent, log_p in zip(tree["tokens"], tree["parents"], tree["log_p"], strict=True):
        before = prefixes[parent] if parent >= 0 else ()
        prefixes.append((*before, word))
        rows.setdefault(before, {})[word] = math.exp(log_p)
    return rows

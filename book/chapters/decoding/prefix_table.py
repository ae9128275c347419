"""A language model written down as a table, small enough to search by hand.

It has the interface of every sequence model of the book, `start` and `step`, so that each decoder
can be tried on it. What it reads as a source does not matter.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lib.data import BOS, EOS, PAD, SPECIAL, UNK, Vocabulary
from lib.decoding import beam_search

Rows = Mapping[tuple[str, ...], Mapping[str, float]]
NOWHERE, START, ROOT, END = -1, 0, 1, 2  # nodes: unknown, before BOS, after it, after EOS


class PrefixTable(nn.Module):
    """Gives the next token's probabilities after each prefix that it lists.

    Args: rows, from a prefix, a tuple of tokens, to the probability of each next token; the
        empty tuple is the start, "<eos>" ends the sentence, and each row sums to 1. `vocab`
        numbers the tokens.
    Errors: ValueError for rows without a start, or one that does not sum to 1; and, in a step, for
        a prefix that is not listed.
    """

    log_p: Tensor  # (nodes, vocab), -inf for tokens that a row does not have
    child: Tensor  # (nodes, vocab), the node that a token leads to

    def __init__(self, rows: Rows):
        super().__init__()
        if () not in rows:
            raise ValueError("expected a row for (), the start of the sentence, got none")
        words = dict.fromkeys(chain.from_iterable((*prefix, *row) for prefix, row in rows.items()))
        self.rows = rows
        self.vocab = Vocabulary(word for word in words if word != SPECIAL[EOS])
        others = (prefix for prefix in rows if prefix)
        nodes = {(): ROOT} | {prefix: node for node, prefix in enumerate(others, END + 1)}
        size = (len(rows) + 2, len(self.vocab))
        self.register_buffer("log_p", torch.full(size, -torch.inf, dtype=torch.float64))
        self.register_buffer("child", torch.full(size, NOWHERE))
        self.log_p[[START, END], EOS] = 0.0
        self.child[:, EOS] = self.child[END] = END
        self.child[START, BOS] = ROOT
        for prefix, row in rows.items():
            node, total = nodes[prefix], sum(row.values())
            if not abs(total - 1) < 1e-3 or min(row.values()) <= 0:
                raise ValueError(
                    f"expected probabilities above 0 that sum to 1 after {prefix}, "
                    f"got the sum {total}; leave out what cannot follow"
                )
            for word, p in row.items():
                token = self.number(word)
                self.log_p[node, token] = torch.tensor(p / total, dtype=torch.float64).log()
                if word != SPECIAL[EOS]:
                    self.child[node, token] = nodes.get((*prefix, word), NOWHERE)

    def number(self, word: str) -> int:
        """Return the number of a token, EOS included."""
        return EOS if word == SPECIAL[EOS] else self.vocab.encode([word])[0]

    def start(
        self, source: Int[Tensor, "batch source_time"], source_lengths: Int[Tensor, " batch"]
    ) -> Int[Tensor, " batch"]:
        """Return the state before the first token, one node for each source."""
        return torch.full_like(source[:, 0], START)

    def step(
        self, token: Int[Tensor, " batch"], state: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch vocab"], None, Int[Tensor, " batch"]]:
        """Feed one token: the next one's log-probabilities, None, and the new state.

        Errors: ValueError for a token after which the table knows nothing.
        """
        node = self.child[state, token]
        if (node == NOWHERE).any():
            word = self.vocab.tokens[int(token[node == NOWHERE][0])]
            raise ValueError(
                f"expected a prefix that the table lists, got one that goes on with {word!r}; "
                "add a row for it"
            )
        return self.log_p[node], None, node

    @classmethod
    def from_model(
        cls,
        model: nn.Module,
        source: Sequence[str],
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        *,
        max_length: int,
        beam: int = 4,
        alpha: float = 0.6,
        keep: int = 4,
    ) -> "PrefixTable":
        """Write down what a model predicts wherever a beam search of size 1 to `beam` looks.

        Args: source, the tokens of one sentence; keep, how many tokens a row has: their
            probabilities are scaled to sum to 1.
        Errors: ValueError for keep below beam, where the search would miss continuations.
        """
        if keep < beam:
            raise ValueError(f"expected keep of at least the beam, {beam}, got {keep}")
        recorder = _Recorder(model, keep)
        device = next(model.parameters()).device
        ids = torch.tensor([[*source_vocab.encode(source), EOS]], device=device)
        lengths = torch.tensor([ids.shape[1]], device=device)
        for width in range(1, beam + 1):
            beam_search(recorder, ids, lengths, max_length, beam=width, alpha=alpha)
        words, rows = target_vocab.tokens, {}
        for prefix, row in recorder.rows.items():
            rows[tuple(words[i] for i in prefix)] = {words[i]: p for i, p in row.items()}
        return cls(rows)


class _Recorder(nn.Module):
    """Runs a model, any with `start` and `step`, on its likeliest tokens; notes each row."""

    def __init__(self, model: Any, keep: int):
        super().__init__()
        self.model, self.keep = model, keep
        self.rows: dict[tuple[int, ...], dict[int, float]] = {}

    def start(self, source: Tensor, source_lengths: Tensor) -> tuple:
        return self.model.start(source, source_lengths), source[:, :0]

    def step(self, token: Tensor, state: tuple) -> tuple[Tensor, None, tuple]:
        inner, said = state
        logits, _, inner = self.model.step(token, inner)
        said = torch.cat([said, token[:, None]], dim=1)
        logits = logits.double()
        logits[:, [PAD, BOS, UNK]] = -torch.inf
        top = logits.topk(self.keep, dim=-1)
        found = (said[:, 1:].tolist(), top.indices.tolist(), top.values.softmax(-1).tolist())
        for prefix, ids, row in zip(*found, strict=True):
            self.rows[tuple(prefix)] = dict(zip(ids, row, strict=True))
        kept = torch.full_like(logits, -torch.inf)
        return kept.scatter(-1, top.indices, top.values), None, (inner, said)

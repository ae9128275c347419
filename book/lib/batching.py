"""Batches of about equal numbers of tokens, and a stream of them that knows where it stands.

Sentences of equal length stand together, so that little of a batch is padding. The number of
tokens is bounded, not that of sentences: a batch of long sentences holds fewer of them, and every
batch takes about the same memory and time.
"""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lib.data import Batch, Pair, Vocabulary, pad_batch


class _Numbered(NamedTuple):
    """A pair as numbers, and its lengths with the EOS or BOS that a batch adds."""

    source: list[int]
    target: list[int]

    @property
    def lengths(self) -> tuple[int, int]:
        return len(self.source) + 1, len(self.target) + 1


class Position(NamedTuple):
    """Where a stream of batches stands: `index` batches of epoch `epoch` have been given.

    Chapter: 11 (Training).
    """

    epoch: int
    index: int


def token_batches(
    pairs: Sequence[Pair],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    max_tokens: int,
    *,
    seed: int,
) -> Iterator[Batch]:
    """Go once through the pairs in batches of at most `max_tokens` tokens on either side.

    A side's tokens are sentences x longest sentence: padding and EOS take memory too. The pairs
    are sorted by length, equals in random order; the batches come in random order. The same seed
    gives the same batches.

    Errors: ValueError for no pairs, or a sentence that is longer than max_tokens.
    Source: Attention Is All You Need, section 5.1. Chapter: 11 (Training).
    """
    stream = BatchStream(pairs, source_vocab, target_vocab, max_tokens=max_tokens)
    return map(stream.batch, stream.groups(seed))


class BatchStream:
    """Batches without end, epoch after epoch, from a place that can be kept and found again.

    A batch is full when one sentence more would pass `max_tokens` on either side, or when it has
    `batch_size` sentences; at least one of the two bounds is needed. Each epoch has its own order,
    which follows from seed and epoch alone. So the position is all there is to save.

    position   epoch and batch that come next; set it to go on from there
    Errors: ValueError for no pairs, no bound or a bad one, a sentence longer than max_tokens.
    Source: ours. Chapter: 11 (Training).
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        *,
        max_tokens: int | None = None,
        batch_size: int | None = None,
        seed: int = 0,
    ):
        if not pairs:
            raise ValueError("expected at least one pair to make batches of, got none")
        if max_tokens is None and batch_size is None:
            raise ValueError("expected max_tokens or batch_size, got neither: bound the batches")
        for name, bound in (("max_tokens", max_tokens), ("batch_size", batch_size)):
            if bound is not None and bound < 1:
                raise ValueError(f"expected {name} of at least 1, got {bound}")
        self._pairs = [
            _Numbered(source_vocab.encode(pair.source), target_vocab.encode(pair.target))
            for pair in pairs
        ]
        longest = max(max(pair.lengths) for pair in self._pairs)
        if max_tokens is not None and longest > max_tokens:
            raise ValueError(
                f"expected sentences of at most max_tokens={max_tokens} tokens with EOS, got one "
                f"of {longest}; raise max_tokens or leave long sentences out"
            )
        self._max_tokens = max_tokens or longest * len(pairs)
        self._batch_size = batch_size or len(pairs)
        self._seed = seed
        self.position = Position(0, 0)

    @property
    def position(self) -> Position:
        """Epoch and index of the batch that comes next. Chapter: 11 (Training)."""
        return self._position

    @position.setter
    def position(self, place: tuple[int, int]) -> None:
        epoch, index = place
        self._epoch_groups = self.groups(self._seed * 1000 + epoch)
        if not (epoch >= 0 and 0 <= index < self.per_epoch):
            raise ValueError(
                f"expected an index from 0 to {self.per_epoch - 1} in an epoch from 0, "
                f"got epoch {epoch} and index {index}; the data or the bounds are other ones"
            )
        self._position = Position(epoch, index)

    def groups(self, seed: int) -> list[list[int]]:
        """Sort the pairs into batches, as numbers of pairs. Chapter: 11 (Training)."""
        rng = random.Random(seed)
        order = rng.sample(range(len(self._pairs)), len(self._pairs))
        order.sort(key=lambda i: self._pairs[i].lengths)  # stable: equals stay in random order
        groups: list[list[int]] = [[]]
        longest = 0  # on either side, in the batch that is being filled
        for i in order:
            longest = max(longest, *self._pairs[i].lengths)
            full = len(groups[-1]) == self._batch_size
            if groups[-1] and (full or (len(groups[-1]) + 1) * longest > self._max_tokens):
                groups.append([])
                longest = max(self._pairs[i].lengths)
            groups[-1].append(i)
        rng.shuffle(groups)
        return groups

    def batch(self, group: Sequence[int]) -> Batch:
        """Put the pairs with these numbers side by side. Chapter: 11 (Training)."""
        pairs = [self._pairs[i] for i in group]
        return pad_batch([pair.source for pair in pairs], [pair.target for pair in pairs])

    @property
    def per_epoch(self) -> int:
        """Batches in an epoch: as many in each, as the lengths do not change.

        Chapter: 11 (Training).
        """
        return len(self._epoch_groups)

    def __iter__(self) -> "BatchStream":
        return self

    def __next__(self) -> Batch:
        epoch, index = self._position
        batch = self.batch(self._epoch_groups[index])
        if index + 1 < self.per_epoch:
            self._position = Position(epoch, index + 1)
        else:
            self.position = (epoch + 1, 0)
        return batch

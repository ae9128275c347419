"""From sentences to the tensors a model reads: vocabulary, padded batches, one epoch of them.

What a chapter needs of `lib.text` and `lib.translation` can be imported from here too.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from lib.text import Pair, read_parallel, tokenise
from lib.translation import translation_pairs

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Batch",
    "Pair",
    "Vocabulary",
    "batches",
    "make_batch",
    "pad_batch",
    "read_parallel",
    "tokenise",
    "translation_pairs",
]

PAD, BOS, EOS, UNK = range(4)  # padding, beginning and end of a sentence, unknown word
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
POOL = 50  # batches that are sorted by length together


class Vocabulary:
    """Gives each token a number: 0 to 3 are PAD, BOS, EOS and UNK, the words follow.

    `tokens[i]` is the token with number i.
    Errors: ValueError for a word that is listed twice or that is one of the special tokens.
    Source: ours. Chapter: 1 (Sequence to sequence).
    """

    def __init__(self, words: Iterable[str]):
        self.tokens = (*SPECIAL, *words)
        self._ids = {token: i for i, token in enumerate(self.tokens) if i > UNK}
        if len(set(self.tokens)) < len(self.tokens):
            double = next(token for token, n in Counter(self.tokens).items() if n > 1)
            raise ValueError(
                f"expected each token once and none of {SPECIAL}, got {double!r} twice"
            )

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sequence[str]], min_count: int = 1) -> "Vocabulary":
        """Collect the tokens that occur at least `min_count` times, the most frequent first.

        Errors: ValueError for a sentence that is not yet cut into tokens, or min_count below 1.
        Source: ours. Chapter: 1 (Sequence to sequence).
        """
        if min_count < 1:
            raise ValueError(f"expected min_count of at least 1, got {min_count}")
        counts = Counter(token for sentence in sentences for token in _cut(sentence))
        frequent = sorted((-n, token) for token, n in counts.items() if n >= min_count)
        return cls(token for _, token in frequent)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens)"

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Turn tokens into numbers; a token it does not know becomes UNK. Adds no EOS.

        Errors: ValueError for a text that is not yet cut into tokens.
        Source: ours. Chapter: 1 (Sequence to sequence).
        """
        return [self._ids.get(token, UNK) for token in _cut(tokens)]

    def decode(self, ids: Iterable[int] | Int[Tensor, " time"]) -> list[str]:
        """Turn numbers into tokens: stops at the first EOS, leaves out PAD and BOS.

        Errors: ValueError for a number that the vocabulary does not have.
        Source: ours. Chapter: 1 (Sequence to sequence).
        """
        tokens = []
        for i in map(int, ids):
            if not 0 <= i < len(self):
                fix = "decode with the vocabulary of the same side"
                raise ValueError(f"expected numbers from 0 to {len(self) - 1}, got {i}; {fix}")
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return tokens


@dataclass(frozen=True, eq=False)
class Batch:
    """Sentence pairs side by side as token numbers, filled with PAD on the right.

    A source ends with EOS and `source_lengths` counts it. `target_in`, which the decoder reads,
    starts with BOS; `target_out`, which it must say, is the same one step ahead and ends with EOS.
    Source: ours. Chapter: 1 (Sequence to sequence).
    """

    source: Int[Tensor, "batch source_time"]
    source_lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch target_time"]
    target_out: Int[Tensor, "batch target_time"]

    def to(self, device: torch.device | str) -> "Batch":
        """Move all four to a device. Chapter: 1 (Sequence to sequence)."""
        tensors = (self.source, self.source_lengths, self.target_in, self.target_out)
        return Batch(*(tensor.to(device) for tensor in tensors))


def make_batch(pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary) -> Batch:
    """Number the tokens of some pairs and put them side by side, in the given order.

    Errors: ValueError for no pairs.
    Source: ours. Chapter: 1 (Sequence to sequence).
    """
    if not pairs:
        raise ValueError("expected at least one pair to make a batch of, got none")
    sources = [source_vocab.encode(pair.source) for pair in pairs]
    return pad_batch(sources, [target_vocab.encode(pair.target) for pair in pairs])


def pad_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """Put numbered sentences side by side: adds EOS and BOS where they belong, and the padding.

    Errors: ValueError for no sentences, or for unequal numbers of sources and targets.
    Source: ours. Chapter: 11 (Training).
    """
    if not sources or len(sources) != len(targets):
        got = f"{len(sources)} sources and {len(targets)} targets"
        raise ValueError(f"expected as many targets as sources, at least one, got {got}")
    return Batch(
        source=_padded([[*source, EOS] for source in sources]),
        source_lengths=torch.tensor([len(source) + 1 for source in sources]),
        target_in=_padded([[BOS, *target] for target in targets]),
        target_out=_padded([[*target, EOS] for target in targets]),
    )


def batches(
    pairs: Sequence[Pair],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    batch_size: int,
    *,
    seed: int,
) -> Iterator[Batch]:
    """Go once through the pairs in random batches of sentences of similar length.

    The pairs are shuffled and cut into pools; each pool is sorted by length and cut into batches,
    so little is padded; then the batches are shuffled. The same seed gives the same batches. All
    batches are full but perhaps one.

    Errors: ValueError for no pairs or a batch size below 1.
    Source: ours. Chapter: 1 (Sequence to sequence).
    """
    if not pairs or batch_size < 1:
        got = f"{len(pairs)} pairs and batch size {batch_size}"
        raise ValueError(f"expected at least one pair and a batch size of at least 1, got {got}")
    rng = random.Random(seed)
    order = rng.sample(pairs, len(pairs))
    groups = []
    for start in range(0, len(order), POOL * batch_size):
        pool = sorted(order[start : start + POOL * batch_size], key=_lengths)
        groups += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    rng.shuffle(groups)
    return (make_batch(group, source_vocab, target_vocab) for group in groups)


def _lengths(pair: Pair) -> tuple[int, int]:
    return len(pair.source), len(pair.target)


def _padded(rows: list[list[int]]) -> Int[Tensor, "batch time"]:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def _cut(tokens: Sequence[str]) -> Sequence[str]:
    """The tokens themselves; an error for a text, whose letters would pass for tokens."""
    if isinstance(tokens, str):
        raise ValueError(
            f"expected a sequence of tokens, got the text {tokens!r}; tokenise it first"
        )
    return tokens

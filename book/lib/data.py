"""From text to the tensors that a model reads: tokens, vocabulary, padded batches, streams of them.

Sentences of about equal length stand together, so that little of a batch is padding."""

import gzip
import operator
import random
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

_TOKEN = re.compile(r"[^\W\d]+|\d|[^\w\s]")  # a run of letters, one digit, or one other mark
PAD, BOS, EOS, UNK = range(4)  # padding, beginning and end of a sentence, unknown word
SHOWN = 10  # faults of a file that an error lists
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
POOL = 50  # batches that are sorted by length together


class Pair(NamedTuple):
    """A sentence and its translation, both as tokens."""

    source: tuple[str, ...]
    target: tuple[str, ...]


def tokenise(text: str, *, lowercase: bool = True) -> tuple[str, ...]:
    """Split text into words, single digits and single punctuation marks; white space goes.

    "It's 42." becomes it ' s 4 2 . so only the white space and the case are lost. Accents are
    first brought into one form (Unicode NFC), so that equal words are equal tokens.

    Returns: the tokens in order; none for blank text.
    """
    text = unicodedata.normalize("NFC", text.lower() if lowercase else text)
    return tuple(_TOKEN.findall(text))


def read_parallel(
    source_path: str | Path, target_path: str | Path | None = None, *, lowercase: bool = True
) -> list[Pair]:
    """Read sentence pairs from two files of equal length, or from one file of two columns.

    Each line is a sentence in UTF-8, and ends as on any system: LF, CR LF or CR. With one path a
    line is "source<tab>target". A name that ends in .gz is unpacked. No line is skipped: what
    cannot be a pair is an error.

    Returns: one Pair for each line, in the order of the file.
    Errors: ValueError that lists what is wrong, by file and line: a broken encoding or archive, an
    empty sentence, files of different lengths, a line without exactly one tab; ValueError for a
    folder, a pipe or a device; OSError if a file is not there or may not be read.
    """
    faults: list[str] = []
    if target_path is None:
        sides = _columns(Path(source_path), faults)
    else:
        sides = _both(Path(source_path), Path(target_path), faults)
    pairs = []
    for place, source, target in sides:
        pair = Pair(*(tokenise(text, lowercase=lowercase) for text in (source, target)))
        for side, tokens in zip(Pair._fields, pair, strict=True):
            if not tokens:
                fix = "remove the line on both sides or fill it"
                faults.append(f"{place}: expected a sentence, got an empty {side}; {fix}")
        pairs.append(pair)
    if not pairs and not faults:
        faults.append(f"{source_path}: expected at least one sentence, got an empty file")
    if faults:
        more = [f"and {len(faults) - SHOWN:,} more faults"] if len(faults) > SHOWN else []
        raise ValueError("\n".join(faults[:SHOWN] + more))
    return pairs


def _lines(path: Path, faults: list[str]) -> Iterator[str]:
    """The lines of a file with their ends, LF, CR LF or CR, each decoded on its own.

    In a line that is not UTF-8, a sign stands for what cannot be read; the fault is noted.
    """
    if path.exists() and not path.is_file():  # it may have no end
        raise ValueError(f"{path}: expected a file, got a folder, a pipe or a device")
    number = 1
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            for raw in chain.from_iterable(line.splitlines(keepends=True) for line in stream):
                encoding = "utf-8-sig" if number == 1 else "utf-8"  # drops a leading mark
                try:
                    line = raw.decode(encoding)
                except UnicodeDecodeError as error:
                    fix = "save the file as UTF-8"
                    faults.append(f"{path}, line {number}: expected UTF-8, got {error}; {fix}")
                    line = raw.decode(encoding, errors="replace")
                yield line
                number += 1
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        wanted = f"{path}, line {number}: expected a whole gzip archive"
        raise ValueError(f"{wanted}, got {error}; fetch the file again") from error


def _columns(path: Path, faults: list[str]) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(_lines(path, faults), 1):
        place = f"{path}, line {number}"
        source, *others = line.split("\t")
        if len(others) == 1:
            yield place, source, others[0]
        else:
            fix = "put one tab between source and target, or give two files"
            faults.append(f"{place}: expected exactly one tab, got {len(others)}; {fix}")


def _both(
    source_path: Path, target_path: Path, faults: list[str]
) -> Iterator[tuple[str, str, str]]:
    lines = zip_longest(_lines(source_path, faults), _lines(target_path, faults))
    for number, (source, target) in enumerate(lines, 1):
        if source is None or target is None:
            short, long = source_path, target_path
            if target is None:
                short, long = long, short
            message = f"{short}: expected a line {number} as in {long}, got only {number - 1} lines"
            faults.append(f"{message}; line n of one file must translate line n of the other")
            return
        yield f"{source_path} and {target_path}, line {number}", source, target


class Vocabulary:
    """Gives each token a number: 0 to 3 are PAD, BOS, EOS and UNK, the words follow.

    `tokens[i]` is the token with number i.
    Errors: ValueError for a word that is listed twice or that is one of the special tokens, and for
    what is no list of words.
    """

    def __init__(self, words: Iterable[str]):
        self.tokens = (*SPECIAL, *words)
        if not all(isinstance(token, str) for token in self.tokens):
            odd = next(token for token in self.tokens if not isinstance(token, str))
            raise ValueError(f"expected words, got {odd!r}; turn it into a string first")
        self._ids = {token: i for i, token in enumerate(self.tokens) if i > UNK}
        if len(set(self.tokens)) < len(self.tokens):
            double = next(token for token, n in Counter(self.tokens).items() if n > 1)
            raise ValueError(f"expected each token once, none of {SPECIAL}, got {double!r} twice")

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sequence[str]], min_count: int = 1) -> "Vocabulary":
        """Collect the tokens that occur at least `min_count` times, the most frequent first.

        Errors: ValueError for a sentence that is not yet split into tokens.
        """
        counts = Counter(token for sentence in sentences for token in cls._cut(sentence))
        frequent = sorted((-n, token) for token, n in counts.items() if n >= min_count)
        return cls(token for _, token in frequent)

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens)"

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Turn tokens into numbers; a token it does not know becomes UNK. Adds no EOS.

        Errors: ValueError for a text that is not yet split into tokens.
        """
        return [self._ids.get(token, UNK) for token in self._cut(tokens)]

    def decode(self, ids: Iterable[int] | Int[Tensor, " time"]) -> list[str]:
        """Turn numbers into tokens: stops at the first EOS, leaves out PAD and BOS.

        Errors: ValueError for a number that the vocabulary does not have.
        """
        return [self.tokens[i] for i in self._until_the_end(ids)]

    def _until_the_end(self, ids: Iterable[int] | Int[Tensor, " time"]) -> Iterator[int]:
        """The numbers up to the first EOS, without PAD and BOS, each of them checked."""
        if isinstance(ids, Tensor) and ids.dim() != 1:
            raise ValueError(
                f"expected the numbers of one sentence, got {tuple(ids.shape)}; decode the rows "
                "of a batch one by one"
            )
        for i in map(int, ids):
            if not 0 <= i < len(self):
                raise ValueError(
                    f"expected numbers from 0 to {len(self) - 1}, got {i}; decode with the "
                    "vocabulary of the same side"
                )
            if i == EOS:
                return
            if i not in (PAD, BOS):
                yield i

    @staticmethod
    def _cut(tokens: Sequence[str]) -> Sequence[str]:
        """The tokens themselves; an error for a text, whose letters would pass for tokens."""
        if isinstance(tokens, str):
            raise ValueError(f"expected a list of tokens, got the text {tokens!r}; tokenise it")
        return tokens


@dataclass(frozen=True, eq=False)
class Batch:
    """Sentence pairs side by side as token numbers, filled with PAD on the right.

    A source ends with EOS and `source_lengths` counts it. `target_in`, which the decoder reads,
    starts with BOS; `target_out`, which it must predict, is the same one step ahead and ends with
    EOS.
    """

    source: Int[Tensor, "batch source_time"]
    source_lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch target_time"]
    target_out: Int[Tensor, "batch target_time"]

    def to(self, device: torch.device | str) -> "Batch":
        """Move all four to a device."""
        tensors = (self.source, self.source_lengths, self.target_in, self.target_out)
        return Batch(*(tensor.to(device) for tensor in tensors))


def make_batch(pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary) -> Batch:
    """Number the tokens of some pairs and put them side by side, in the given order.

    Errors: ValueError for no pairs.
    """
    sources = [source_vocab.encode(pair.source) for pair in pairs]
    return pad_batch(sources, [target_vocab.encode(pair.target) for pair in pairs])


def pad_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """Put numbered sentences side by side: adds EOS and BOS where they belong, and the padding.

    Errors: ValueError for no sentences, or for unequal numbers of sources and targets.
    """
    if not sources or len(sources) != len(targets):
        raise ValueError(
            "expected as many targets as sources, at least one, got "
            f"{len(sources)} sources and {len(targets)} targets"
        )
    return Batch(
        source=_padded([[*source, EOS] for source in sources]),
        source_lengths=torch.tensor([len(source) + 1 for source in sources]),
        target_in=_padded([[BOS, *target] for target in targets]),
        target_out=_padded([[*target, EOS] for target in targets]),
    )


def _padded(rows: list[list[int]]) -> Int[Tensor, "batch time"]:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


class _Numbered(NamedTuple):
    """A pair as numbers, and its lengths with the EOS or BOS that a batch adds."""

    source: list[int]
    target: list[int]

    @property
    def lengths(self) -> tuple[int, int]:
        return len(self.source) + 1, len(self.target) + 1


class Position(NamedTuple):
    """Where a stream of batches stands: `index` batches of epoch `epoch` have been given."""

    epoch: int
    index: int  # type: ignore[assignment]  # of a batch; a tuple's own method is not needed


class BatchStream:
    """Batches without end, epoch after epoch, from a place that can be kept and found again.

    A batch is full when one sentence more would pass `max_tokens` on either side, or when it has
    `batch_size` sentences; at least one of the two bounds is needed. In each epoch the pairs are
    shuffled and split into pools; each pool is sorted by length and split into batches, so that
    little of them is padding; then the batches are shuffled. The order of an epoch follows from
    seed and epoch alone, so the position is all there is to save.

    Args:
        pairs: the sentences.
        source_vocab: numbers the tokens of the sources.
        target_vocab: numbers those of the targets.
        max_tokens: the most tokens on a side: sentences x longest sentence, as padding and EOS
            take memory too.
        batch_size: the most sentences in a batch.
        pool: pairs that are sorted together, all unless given. Batches of a small pool are less
            alike from one epoch to the next, and have a little more padding.
        seed: of the order.
    Errors: ValueError for no pairs, no bound or a bad one, a sentence longer than max_tokens.
    Source: Attention Is All You Need, section 5.1.

    position   epoch and batch that come next; set it to go on from there
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        *,
        max_tokens: int | None = None,
        batch_size: int | None = None,
        pool: int | None = None,
        seed: int = 0,
    ):
        if not pairs:
            raise ValueError("expected at least one pair to make batches of, got none")
        if max_tokens is None and batch_size is None:
            raise ValueError("expected max_tokens or batch_size, got neither: bound the batches")
        bounds = {"max_tokens": max_tokens, "batch_size": batch_size, "pool": pool}
        for name, bound in bounds.items():
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
        self._pool = pool or len(pairs)
        self._seed = seed
        self.position = Position(0, 0)

    @property
    def position(self) -> Position:
        """Epoch and index of the batch that comes next."""
        return self._position

    @position.setter
    def position(self, place: tuple[int, int]) -> None:
        epoch, index = map(operator.index, place)
        groups = self.groups(self._seed * 1000 + epoch)
        if not (epoch >= 0 and 0 <= index < len(groups)):
            raise ValueError(
                f"expected an index from 0 to {len(groups) - 1} in an epoch from 0, got epoch "
                f"{epoch} and index {index}; the data or the bounds are other ones"
            )
        self._epoch_groups, self._position = groups, Position(epoch, index)

    def groups(self, seed: int) -> list[list[int]]:
        """Sort the pairs into the batches of one epoch, as numbers of pairs."""
        rng = random.Random(seed)
        order = rng.sample(range(len(self._pairs)), len(self._pairs))
        groups: list[list[int]] = []
        for start in range(0, len(order), self._pool):
            pool = order[start : start + self._pool]
            pool.sort(key=lambda i: self._pairs[i].lengths)  # stable: equals stay in random order
            groups += self._cut(pool)
        rng.shuffle(groups)
        return groups

    def _cut(self, pool: list[int]) -> list[list[int]]:
        """Fill one batch after another with these pairs, in their order."""
        groups: list[list[int]] = [[]]
        longest = 0  # on either side, in the batch that is being filled
        for i in pool:
            longest = max(longest, *self._pairs[i].lengths)
            full = len(groups[-1]) == self._batch_size
            if groups[-1] and (full or (len(groups[-1]) + 1) * longest > self._max_tokens):
                groups.append([])
                longest = max(self._pairs[i].lengths)
            groups[-1].append(i)
        return groups

    def batch(self, group: Sequence[int]) -> Batch:
        """Put the pairs with these numbers side by side.

        Errors: Python's IndexError for a number that no pair has.
        """
        pairs = [self._pairs[i] for i in group]
        return pad_batch([pair.source for pair in pairs], [pair.target for pair in pairs])

    @property
    def per_epoch(self) -> int:
        """Batches in an epoch: as many in each, as long as all pairs are in one pool."""
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


def endless(
    pairs: Sequence[Pair],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    batch_size: int,
    *,
    seed: int = 0,
) -> BatchStream:
    """Batches of so many sentences without end: a `BatchStream` with a pool of 50 batches."""
    pool = POOL * max(batch_size, 1)
    return BatchStream(
        pairs, source_vocab, target_vocab, batch_size=batch_size, pool=pool, seed=seed
    )


def batches(
    pairs: Sequence[Pair],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    batch_size: int,
    *,
    seed: int,
) -> Iterator[Batch]:
    """Go once through the pairs as `endless` does: all batches are full but perhaps one.

    The same seed gives the same batches.
    Errors: ValueError for no pairs or a batch size below 1.
    """
    stream = endless(pairs, source_vocab, target_vocab, batch_size)
    return map(stream.batch, stream.groups(seed))


def token_batches(
    pairs: Sequence[Pair],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    max_tokens: int,
    *,
    seed: int,
) -> Iterator[Batch]:
    """Go once through the pairs in batches of at most `max_tokens` tokens on either side.

    All pairs are sorted together, see `BatchStream`. The same seed gives the same batches.
    Errors: ValueError for no pairs, or a sentence that is longer than max_tokens.
    Source: Attention Is All You Need, section 5.1.
    """
    stream = BatchStream(pairs, source_vocab, target_vocab, max_tokens=max_tokens)
    return map(stream.batch, stream.groups(seed))

"""What a run on your own sentences is made of, as far as the command line leaves it open.

Size, sub-words, batches, epochs and threads are chosen by the data and the model, each with a
reason that the run prints. `benchmarks/own_data.py` measures the rules; what is said always wins.
"""

import argparse
import math
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from lib.data import SPECIAL, Pair
from train.corpus import Corpus
from train.options import SIZES

SMALL_FROM = 10_000  # pairs
UPDATES = {"tiny": 8000, "small": 2000}  # at least, unless the epochs are said
KNOWN_UPDATES = 1000  # the same, where all words are known: such sentences are simple
LEAST_TOKENS = 512  # in a batch
BATCHES = 10  # an epoch has at least so many, unless they get smaller than that
UNKNOWN = 0.01  # fraction of held-out words beyond which words are split
PIECES = 35  # sub-words for each square root of a pair
MOST_PIECES = 16_000
WIDE = 256  # d_model from which on a second thread may help
DROPOUT = 0.3  # in place of the size's: each sentence is seen many times
FEW = 1_000  # pairs, with fewer of which
MORE_DROPOUT = 0.4  # is better
FEW_UPDATES = 4000  # and so many are enough

# What may be chosen, and what follows from it.
CHOSEN = {"size", "subword", "share", "threads", "lr", *SIZES["tiny"]}
Chosen = tuple[dict[str, Any], list[str]]


def choose_model(given: argparse.Namespace, corpus: Corpus) -> Chosen:
    """Size, dropout and words or sub-words, before anything is numbered.

    Args: what the command line says, and the sentences.
    Returns: a value for each option that is chosen, and the reasons, a line for each.
    """
    told, pairs = vars(given), len(corpus.train)
    chosen: dict[str, Any] = {}
    reasons = []
    if "size" not in told:
        size = "tiny" if pairs < SMALL_FROM else "small"
        chosen["size"] = size
        bound = f"fewer than {SMALL_FROM:,}" if size == "tiny" else f"{SMALL_FROM:,} or more"
        reasons.append(f"size {size}: {pairs:,} pairs are {bound}")
        if "dropout" not in told:
            chosen["dropout"] = MORE_DROPOUT if pairs < FEW else DROPOUT
            few = f"fewer than {FEW:,} pairs, and " if pairs < FEW else ""
            reasons.append(f"dropout {chosen['dropout']}: {few}each is seen many times")
    if not {"subword", "min_count"} & told.keys():
        pieces, reason = _pieces(corpus)
        reasons.append(reason)
        if pieces:
            chosen |= {"subword": pieces} | ({} if "share" in told else {"share": True})
    return chosen, reasons


def _pieces(corpus: Corpus) -> tuple[int | None, str]:
    """How many sub-words, None for whole words, and why."""
    unknown = unknown_fraction(corpus.train, corpus.valid)
    if unknown <= UNKNOWN:
        known = "all" if not unknown else f"{100 * (1 - unknown):.1f} %"
        return None, f"whole words: {known} of the held-out words are in the training data"
    missing = f"{100 * unknown:.0f} % of the held-out words are in no training sentence"
    if find_spec("tokenizers") is None:
        return None, f"whole words, though {missing}: the package tokenizers is not installed"
    words = [word for pair in corpus.train for side in pair for word in side]
    letters = {letter for word in words for letter in word} | {word[-1] + " " for word in words}
    pieces = min(MOST_PIECES, 100 * round(PIECES * math.sqrt(len(corpus.train)) / 100))
    if len(SPECIAL) + 2 * len(letters) > pieces or pieces > sum(map(len, words)) // 4:
        return None, f"whole words, though {missing}: too little text to learn sub-words from"
    return pieces, f"subword {pieces:,}, shared: {missing}"


def unknown_fraction(train: Sequence[Pair], held: Sequence[Pair]) -> float:
    """The fraction of held-out words, of both languages, that no training sentence has."""
    known = [{word for pair in train for word in pair[side]} for side in (0, 1)]
    unknown = [word not in known[side] for pair in held for side in (0, 1) for word in pair[side]]
    return sum(unknown) / len(unknown)


def choose_batches(
    given: argparse.Namespace, size: str, lengths: Sequence[tuple[int, int]]
) -> Chosen:
    """How many tokens a batch has, after all sentences are numbered.

    Args: what the command line says, the size of the model, and the lengths of all pairs, with EOS.
    """
    if {"max_tokens", "batch_size"} & vars(given).keys():
        return {}, []
    usual, longest = SIZES[size]["max_tokens"], max(map(max, lengths))
    total = max(map(sum, zip(*lengths, strict=True)))
    tokens = max(min(usual, total // BATCHES), LEAST_TOKENS, longest)
    if tokens == usual:
        return {}, []
    if tokens == longest:
        reason = "the longest sentence needs as many"
    else:
        reason = f"so that the {total:,} tokens make more updates"
    return {"max_tokens": tokens}, [f"max-tokens {tokens:,}: {reason}"]


def choose_epochs(given: argparse.Namespace, size: str, per_epoch: int, corpus: Corpus) -> Chosen:
    """How often the data is read, after it is split into batches.

    Args: what the command line says, the size of the model, the batches of an epoch, and the
    sentences.
    """
    told, usual = vars(given), SIZES[size]["epochs"]
    if {"epochs", "steps"} & told.keys():
        return {}, []
    accumulate, updates = told.get("accumulate", 1), UPDATES.get(size, KNOWN_UPDATES)
    if size == "tiny" and len(corpus.train) < FEW:
        updates = FEW_UPDATES
    if unknown_fraction(corpus.train, corpus.valid) <= UNKNOWN:
        updates = KNOWN_UPDATES
    needed = math.ceil(updates * accumulate / per_epoch)
    if needed <= usual:
        return {}, []
    few = math.ceil(usual * per_epoch / accumulate)
    return {"epochs": needed}, [f"epochs {needed:,}: {usual} would be only {few:,} updates"]


def choose_threads(given: argparse.Namespace, d_model: int, device: str) -> Chosen:
    """How many threads of the processor compute.

    Args: what the command line says, d_model, and the kind of device.
    """
    if "threads" in vars(given) or device != "cpu" or d_model >= WIDE:
        return {}, []
    reason = f"at d_model {d_model} two save little, and cost much on a busy machine"
    return {"threads": 1}, [f"threads 1: {reason}"]

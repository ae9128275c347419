"""Sentences by the length of their source: those of the task, and longer lists than training has.

The translation task lists one to three items (amounts, times, dates). Here are lists of more, and
the same items as the first or the last of lists of every length: what the model must write for
such an item does not depend on the length.
"""

import random
from collections.abc import Sequence

from babel.lists import format_list

from lib.data import Pair, Vocabulary, tokenise
from lib.decoding import translate
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq
from tasks.translation import translation_pairs

BATCH_SIZE = 64
D_EMBED = 64
EDGES = (1, 5, 10, 15, 20, 25, 35, 45, 60)  # of the source; training ends at 33 tokens
TRAINED_BINS = 6  # those of EDGES that training reaches; the others are filled with longer lists
BEYOND = 100  # sentences in each bin beyond training
N_PROBES = 100
TRAINED_ITEMS = 3  # of a sentence in training, at most
MOST_ITEMS = 6


class Sets:
    """The sentences that every run is tested on, and the data that it is trained on."""

    def __init__(self) -> None:
        self.training, self.test = translation_pairs(max_items=TRAINED_ITEMS)
        self.vocabularies = [
            Vocabulary.from_sentences(pair[side] for pair in self.training) for side in (0, 1)
        ]
        rng = random.Random(0)
        known = {pair.source for pair in self.training}
        singles = translation_pairs(6000, 0, max_items=1, seed=1)[0]
        self.items = [pair for pair in singles if pair.source not in known]
        held_out = rng.sample(self.items, N_PROBES)

        self.bins: list[list[Pair]] = [[] for _ in EDGES[1:]]
        for pair in self.test:
            self.bins[bin_of(pair)].append(pair)
        while any(len(pairs) < BEYOND for pairs in self.bins[TRAINED_BINS:]):
            pair = listed(rng.sample(self.items, rng.randint(TRAINED_ITEMS + 1, MOST_ITEMS)))
            if len(pair.source) <= EDGES[-1]:
                pairs = self.bins[bin_of(pair)]
                if bin_of(pair) >= TRAINED_BINS and len(pairs) < BEYOND:
                    pairs.append(pair)
        self.four_items: list[Pair] = []
        while len(self.four_items) < BEYOND:
            pair = listed(rng.sample(self.items, 4))
            if 16 <= len(pair.source) <= 20:
                self.four_items.append(pair)

        self.probes: list[list[tuple[Pair, int, int]]] = []  # per number of items: (pair, from, to)
        for first in (True, False):
            for n in range(1, MOST_ITEMS + 1):
                self.probes.append([])
                for probe in held_out:
                    others = rng.sample(self.items, n - 1)
                    pair = listed([probe, *others] if first else [*others, probe])
                    start = 0 if first else len(pair.target) - len(probe.target)
                    end = start + len(probe.target)
                    assert pair.target[start:end] == probe.target
                    self.probes[-1].append((pair, start, end))


def listed(items: Sequence[Pair]) -> Pair:
    """One sentence that lists these items, in both languages."""
    sides = []
    for side, locale in enumerate(("en", "fr")):
        sides.append(tokenise(format_list([" ".join(i[side]) for i in items], locale=locale)))
    return Pair(*sides)


def bin_of(pair: Pair) -> int:
    """Which of the bins of EDGES holds this source."""
    return max(0, sum(len(pair.source) > edge for edge in EDGES[1:]))


def freely(model: Seq2Seq | AttentionSeq2Seq, pairs: Sequence[Pair], sets: Sets) -> list[list[str]]:
    """Greedy translations, in the order of the pairs; sorted by length while they are made."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i].source))
    longest = 5 + max(len(pair.target) for pair in pairs)
    said = translate(model, [pairs[i] for i in order], *sets.vocabularies, max_length=longest)
    return [words for _, words in sorted(zip(order, said, strict=True))]

"""Is one vector a bottleneck? Accuracy by source length over state dimension, training and rate.

    python experiments/bottleneck.py [--models ...] [--dimensions ...] [--rates ...] [--seeds ...]
        [--longest 5000]

Trains the recurrent translator of chapter 1 and, as a control, the one with attention of chapter
2, and evaluates each run at several of its steps. Every finished run is added to
results/bottleneck.json, and a run that is already there, as long or longer, is skipped: more seeds
and steps can follow later, and an early stop loses one run at most.

Besides the held-out sentences of the chapters there are longer ones than any in training, and a
control for content: the same item, an amount or a date, as the first and as the last of lists of
one to six items. What the model must write for it is the same at every length.
"""

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from babel.lists import format_list

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from chapters.seq2seq.edits import words_right
from lib.data import EOS, PAD, Pair, Vocabulary, endless, make_batch, tokenise
from lib.decoding import translate
from lib.notebook import seed_everything
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq
from lib.training import token_loss, train
from measure.records import read_results, write_results
from tasks.translation import translation_pairs

NAME = "bottleneck"  # of the recorded results
MODELS = {"last state only": Seq2Seq, "attention": AttentionSeq2Seq}
DIMENSIONS = (32, 64, 128, 256)
RATES = (1e-3, 2e-3, 6e-3)
BATCH_SIZE = 64
D_EMBED = 64
STEPS = (300, 600, 1250, 2500, 5000)  # at which a run is evaluated
EDGES = (1, 5, 10, 15, 20, 25, 35, 45, 60)  # of the source; training ends at 33 tokens
TRAINED_BINS = 6  # those of EDGES that training reaches; the others are filled with longer lists
BEYOND = 100  # sentences in each bin beyond training
EXAMPLES = 2  # sentences of each bin whose translations are stored
N_PROBES = 100
TRAINED_ITEMS = 3  # of a sentence in training, at most
MOST_ITEMS = 6
BATCH = 250
ABOUT = {
    "bins": "one list per source length: sentences translated exactly; words of their references; "
    "of these words, right under teacher forcing, right when running freely compared position by "
    "position, and right when running freely after alignment by edit distance (no end of sentence)",
    "probes": "one list per number of items: words right and items wholly right, under teacher "
    "forcing, of the same items standing first; then of the same items standing last",
    "four_items": "sentences translated exactly, of those that list four items in 16 to 20 tokens",
    "words_by_chance": "per source length, words of the references that another sentence of this "
    "length has, after alignment: what a model gets right that knows nothing of its source",
    "examples": "per source length, what the model wrote for the first sentences of `sentences`",
    "train_loss": "mean over the last 100 steps; held_out_loss: on the held-out sentences",
    "seconds": "of the processor, training and evaluation, since the start of the run",
}


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

    def described(self) -> dict[str, Any]:
        """What a reader of the results must know of the sentences."""
        probes = [[pair for pair, _, _ in group] for group in self.probes]
        return {
            "training_pairs": len(self.training),
            "longest_trained": max(len(pair.source) for pair in self.training),
            "edges": EDGES,
            "trained_bins": TRAINED_BINS,
            "sentences_per_bin": [len(pairs) for pairs in self.bins],
            "four_items_sentences": len(self.four_items),
            "trained_items": TRAINED_ITEMS,
            "probe_items": N_PROBES,
            "probe_words": sum(end - start for _, start, end in self.probes[0]),
            "probe_source_tokens": [
                sum(len(pair.source) for pair in group) / len(group)
                for group in probes[:MOST_ITEMS]
            ],
            "words_by_chance": [
                sum(words_right(other.target, pair.target) for pair, other in neighbours(pairs))
                for pairs in self.bins
            ],
            "sentences": [
                [[" ".join(side) for side in pair] for pair in pairs[:EXAMPLES]]
                for pairs in self.bins
            ],
        }


def neighbours(pairs: list[Pair]) -> Iterator[tuple[Pair, Pair]]:
    """Each sentence with the one that follows it; the last with the first."""
    return zip(pairs, pairs[1:] + pairs[:1], strict=True)


def listed(items: Sequence[Pair]) -> Pair:
    """One sentence that lists these items, in both languages."""
    sides = []
    for side, locale in enumerate(("en", "fr")):
        sides.append(tokenise(format_list([" ".join(i[side]) for i in items], locale=locale)))
    return Pair(*sides)


def bin_of(pair: Pair) -> int:
    """Which of the bins of EDGES holds this source."""
    return max(0, sum(len(pair.source) > edge for edge in EDGES[1:]))


@torch.no_grad()
def forced(model: Any, pairs: Sequence[Pair], sets: Sets) -> tuple[list[list[bool]], float, int]:
    """Under teacher forcing: per sentence, which words are right; the sum of losses; tokens."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i].source))
    right: list[list[bool]] = [[] for _ in pairs]
    total, tokens = 0.0, 0
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        batch = make_batch([pairs[i] for i in rows], *sets.vocabularies)
        logits = model(batch.source, batch.source_lengths, batch.target_in)
        total += token_loss(logits, batch.target_out, reduction="sum").item()
        tokens += int((batch.target_out != PAD).sum())
        hits = logits.argmax(-1) == batch.target_out
        for i, row, target in zip(rows, hits, batch.target_out, strict=True):
            right[i] = row[(target != PAD) & (target != EOS)].tolist()
    return right, total, tokens


def freely(model: Any, pairs: Sequence[Pair], sets: Sets) -> list[list[str]]:
    """Greedy translations, in the order of the pairs; sorted by length while they are made."""
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i].source))
    longest = 5 + max(len(pair.target) for pair in pairs)
    said = translate(model, [pairs[i] for i in order], *sets.vocabularies, max_length=longest)
    return [words for _, words in sorted(zip(order, said, strict=True))]


def evaluate(model: Any, sets: Sets, examples: bool) -> dict[str, Any]:
    """Everything that is measured of a model at one step."""
    flat = [pair for pairs in sets.bins for pair in pairs]
    said, given = freely(model, flat, sets), forced(model, flat, sets)[0]
    total, tokens = forced(model, sets.test, sets)[1:]
    rows = iter(zip(flat, said, given, strict=True))
    bins, stored = [], []
    for pairs in sets.bins:
        inside = [next(rows) for _ in pairs]
        bins.append(
            [
                sum(tuple(words) == pair.target for pair, words, _ in inside),
                sum(len(pair.target) for pair, _, _ in inside),
                sum(sum(hits) for _, _, hits in inside),
                sum(
                    word == right
                    for pair, words, _ in inside
                    for word, right in zip(words, pair.target, strict=False)
                ),
                sum(words_right(words, pair.target) for pair, words, _ in inside),
            ]
        )
        stored.append([" ".join(words) for _, words, _ in inside[:EXAMPLES]])
    probes = []
    for group in sets.probes:
        hits = forced(model, [pair for pair, _, _ in group], sets)[0]
        spans = [row[start:end] for row, (_, start, end) in zip(hits, group, strict=True)]
        probes.append([sum(map(sum, spans)), sum(map(all, spans))])
    four = freely(model, sets.four_items, sets)
    exact = sum(tuple(w) == p.target for w, p in zip(four, sets.four_items, strict=True))
    found = {
        "held_out_loss": round(total / tokens, 5),
        "bins": bins,
        "probes": [probes[n] + probes[n + MOST_ITEMS] for n in range(MOST_ITEMS)],
        "four_items": exact,
    }
    return found | ({"examples": stored} if examples else {})


def run(
    model_name: str, d_hidden: int, lr: float, seed: int, longest: int, sets: Sets
) -> dict[str, Any]:
    """Train one model for `longest` steps and evaluate it at those of STEPS."""
    seed_everything(seed)
    model = MODELS[model_name](*map(len, sets.vocabularies), D_EMBED, d_hidden)
    stream = endless(sets.training, *sets.vocabularies, BATCH_SIZE, seed=seed)
    checkpoints: list[dict[str, Any]] = []
    last: list[float] = []
    begun = time.process_time()

    def look(step: int, loss: torch.Tensor) -> None:
        last.append(loss.item())
        if step in STEPS:
            model.eval()
            mean = round(sum(last[-100:]) / len(last[-100:]), 5)
            found = {"step": step, "train_loss": mean} | evaluate(model, sets, seed == 0)
            checkpoints.append(found | {"seconds": round(time.process_time() - begun, 1)})
            model.train()

    train(model, stream, longest, lr, after_update=look)
    return {
        "model": model_name,
        "d_hidden": d_hidden,
        "lr": lr,
        "seed": seed,
        "parameters": sum(p.numel() for p in model.parameters()),
        "checkpoints": checkpoints,
    }


def recorded() -> list[dict[str, Any]]:
    """The runs that are recorded so far."""
    try:
        return read_results(NAME)["runs"]
    except ValueError:
        return []


def key_of(run: dict[str, Any]) -> tuple[str, int, float, int]:
    """What tells one run from another."""
    return run["model"], run["d_hidden"], run["lr"], run["seed"]


def steps_of(run: dict[str, Any]) -> int:
    """How long the run was."""
    return run["checkpoints"][-1]["step"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--dimensions", type=int, nargs="+", default=DIMENSIONS)
    parser.add_argument("--rates", type=float, nargs="+", default=RATES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--longest", type=int, default=STEPS[-1], choices=STEPS)
    given = parser.parse_args()
    sets = Sets()
    settings = {"batch_size": BATCH_SIZE, "d_embed": D_EMBED, "schedule": "constant"}
    for key in product(given.models, given.dimensions, given.rates, given.seeds):
        if any(key_of(r) == key and steps_of(r) >= given.longest for r in recorded()):
            continue
        found = run(*key, given.longest, sets)
        others = [r for r in recorded() if key_of(r) != key]  # a shorter run is replaced
        runs = sorted([*others, found], key=key_of)
        results = {"about": ABOUT, "settings": settings, "sets": sets.described(), "runs": runs}
        write_results(NAME, results)
        last = found["checkpoints"][-1]
        print(*key, last["step"], [n[0] for n in last["bins"]], last["seconds"], flush=True)


if __name__ == "__main__":
    main()

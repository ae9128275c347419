"""Is one vector a bottleneck? Accuracy by source length over state dimension, training and rate.

    python experiments/bottleneck.py [--only NAME ...] [--seeds 0] [--longest 5000]

Trains the recurrent translator of chapter 1 and, as controls, the same without gates and the one
with attention of chapter 2, and evaluates each run at several of its steps. Every finished run is
added to results/bottleneck.json, and a run that is already there, as long or longer, is skipped:
more seeds and steps can follow later, and an early stop loses one run at most. `--only attention
128 0.002` chooses a model, a dimension and a rate.

Besides the held-out sentences of the chapters there are longer ones than any in training, and a
control for content: the same item, an amount or a date, as the first and as the last of lists of
one to six items. What the model must write for it is the same at every length.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.seq2seq.edits import words_right
from chapters.seq2seq.without_gates import TanhSeq2Seq
from lib.data import EOS, PAD, Pair, endless, make_batch
from lib.notebook import seed_everything
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq
from lib.training import token_loss, train
from measure.experiments import command_line, grid
from tasks.lists import (
    BATCH_SIZE,
    D_EMBED,
    EDGES,
    MOST_ITEMS,
    N_PROBES,
    TRAINED_BINS,
    TRAINED_ITEMS,
    Sets,
    freely,
)

MODELS = {"attention": AttentionSeq2Seq, "last state only": Seq2Seq, "without gates": TanhSeq2Seq}
DIMENSIONS = (32, 64, 128, 256)
RATES = (1e-3, 2e-3, 6e-3)
STEPS = (300, 600, 1250, 2500, 5000)  # at which a run is evaluated
EXAMPLES = 2  # sentences of each bin whose translations are stored
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


@cache
def sets() -> Sets:
    return Sets()


def described(sets: Sets) -> dict[str, Any]:
    """What a reader of the results must know of the sentences."""
    probes = [[pair for pair, _, _ in group] for group in sets.probes]
    return {
        "training_pairs": len(sets.training),
        "longest_trained": max(len(pair.source) for pair in sets.training),
        "edges": EDGES,
        "trained_bins": TRAINED_BINS,
        "sentences_per_bin": [len(pairs) for pairs in sets.bins],
        "four_items_sentences": len(sets.four_items),
        "trained_items": TRAINED_ITEMS,
        "probe_items": N_PROBES,
        "probe_words": sum(end - start for _, start, end in sets.probes[0]),
        "probe_source_tokens": [
            sum(len(pair.source) for pair in group) / len(group) for group in probes[:MOST_ITEMS]
        ],
        "words_by_chance": [
            sum(words_right(other.target, pair.target) for pair, other in neighbours(pairs))
            for pairs in sets.bins
        ],
        "sentences": [
            [[" ".join(side) for side in pair] for pair in pairs[:EXAMPLES]] for pairs in sets.bins
        ],
    }


def neighbours(pairs: list[Pair]) -> Iterator[tuple[Pair, Pair]]:
    """Each sentence with the one that follows it; the last with the first."""
    return zip(pairs, pairs[1:] + pairs[:1], strict=True)


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


def run(model: str, d_hidden: int, lr: float, seed: int, longest: int) -> dict[str, Any]:
    """Train one model for `longest` steps and evaluate it at those of STEPS."""
    data = sets()
    seed_everything(seed)
    net = MODELS[model](*map(len, data.vocabularies), D_EMBED, d_hidden)
    stream = endless(data.training, *data.vocabularies, BATCH_SIZE, seed=seed)
    checkpoints: list[dict[str, Any]] = []
    last: list[float] = []
    begun = time.process_time()

    def look(step: int, loss: torch.Tensor) -> None:
        last.append(loss.item())
        if step in STEPS:
            net.eval()
            mean = round(sum(last[-100:]) / len(last[-100:]), 5)
            found = {"step": step, "train_loss": mean} | evaluate(net, data, seed == 0)
            checkpoints.append(found | {"seconds": round(time.process_time() - begun, 1)})
            net.train()

    train(net, stream, longest, lr, after_update=look)
    parameters = sum(p.numel() for p in net.parameters())
    return {"parameters": parameters, "checkpoints": checkpoints}


def main(arguments: list[str] | None = None) -> None:
    over = {"model": MODELS, "d_hidden": DIMENSIONS, "lr": RATES, "seed": [0]}
    given = command_line(__file__, __doc__, over, arguments, longest=STEPS[-1])
    longest = given.options.longest
    if longest not in STEPS:
        raise SystemExit(f"expected --longest out of {STEPS}, got {longest}")
    settings = {"batch_size": BATCH_SIZE, "d_embed": D_EMBED, "schedule": "constant"}
    about = {"about": ABOUT, "settings": settings, "sets": described(sets())}
    grid(
        partial(run, longest=longest),
        given,
        lambda runs: {**about, "runs": runs},
        keeps_runs=True,
        enough=lambda run: run["checkpoints"][-1]["step"] >= longest,
    )


if __name__ == "__main__":
    main()

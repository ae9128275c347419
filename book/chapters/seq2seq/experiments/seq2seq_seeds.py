"""Chapters 1 and 2 on several seeds: exact match of both models after equal time on one core.

    python experiments/seq2seq_seeds.py [--seeds 0 1 2] [--lr 2e-3] [--steps 1250 750]

The chapters train one seed each, with the settings below. Steps are fixed, so that a run can be
repeated; the seconds, of the processor and for training alone, show that both models got about the
same. The others are shares of held-out sentences translated exactly.
"""

import sys
import time
from functools import cache, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.data import Pair, Vocabulary, endless
from lib.decoding import translate
from lib.metrics import accuracy_by_length
from lib.notebook import seed_everything
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq
from lib.training import train
from measure.experiments import command_line, grid
from tasks.translation import translation_pairs

MODELS = {"last state only": Seq2Seq, "attention": AttentionSeq2Seq}
BATCH_SIZE = 64
EDGES = (1, 5, 10, 15, 20, 35)
LONG = 11  # a source of so many tokens is a long one


@cache
def data() -> tuple[list[Pair], list[Pair]]:
    return translation_pairs()


def run(model: str, seed: int, steps: dict[str, int], lr: float) -> dict[str, Any]:
    """Train one model and measure it, all in all and in each class of length."""
    training, test = data()
    vocabs = [Vocabulary.from_sentences(pair[side] for pair in training) for side in (0, 1)]
    seed_everything(seed)
    net = MODELS[model](*map(len, vocabs), d_embed=64, d_hidden=128)
    stream = endless(training, *vocabs, BATCH_SIZE, seed=seed)
    start = time.process_time()
    train(net, stream, steps[model], lr)
    seconds = time.process_time() - start
    said = translate(net, test, *vocabs)
    right = [tuple(s) == pair.target for s, pair in zip(said, test, strict=True)]
    long = [ok for ok, pair in zip(right, test, strict=True) if len(pair.source) >= LONG]
    shares = {"all": sum(right) / len(right), f"{LONG} and more": sum(long) / len(long)}
    for b in accuracy_by_length(said, test, EDGES):
        shares[f"{b.shortest} to {b.longest}"] = b.accuracy
    rounded = {name: round(value, 4) for name, value in shares.items()}
    return {"steps": steps[model], "seconds": round(seconds, 1), **rounded}


def main(arguments: list[str] | None = None) -> None:
    over = {"model": MODELS, "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, lr=2e-3, steps=[1250, 750])
    lr, steps = given.options.lr, dict(zip(MODELS, given.options.steps, strict=True))
    settings = {"lr": lr, "batch_size": BATCH_SIZE, "d_embed": 64, "d_hidden": 128}
    grid(
        partial(run, steps=steps, lr=lr),
        given,
        lambda runs: {"settings": settings, "runs": runs},
        keeps_runs=True,
    )


if __name__ == "__main__":
    main()

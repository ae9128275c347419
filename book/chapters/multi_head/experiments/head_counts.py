"""Translators of one encoder and one decoder layer, with one head and with four: ten seeds each.

    python experiments/head_counts.py [--seeds 0 1 2 ...]        (ten minutes of one core)

Models of the same seed see the same sentences, and all models have the same number of parameters.
Exact match is that of the 1,500 held-out sentences.
"""

import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.multi_head.ablation import accuracy
from lib.data import Batch, Pair, Vocabulary, endless, make_batch
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, Transformer
from measure.experiments import Run, command_line, grid
from tasks.translation import translation_pairs

HEADS = (1, 4)
STEPS, LR, BATCH_SIZE, WARMUP = 800, 4e-3, 32, 50


@cache
def data() -> tuple[list[Pair], list[Vocabulary], Batch]:
    """Training sentences, their vocabularies, and the held-out sentences as one batch."""
    training, test = translation_pairs()
    vocabs = [Vocabulary.from_sentences(pair[side] for pair in training) for side in (0, 1)]
    return training, vocabs, make_batch(test, *vocabs)


def run(n_heads: int, seed: int) -> dict[str, float]:
    """Train one translator; the fraction of held-out sentences that it translates exactly."""
    torch.set_num_threads(1)
    training, vocabs, held_out = data()
    seed_everything(seed)
    sizes = {"d_model": 64, "n_heads": n_heads, "d_ff": 128, "n_layers": 1}
    model = Transformer(Config(*map(len, vocabs), **sizes, dropout=0.0, norm="pre"))
    stream = endless(training, *vocabs, batch_size=BATCH_SIZE, seed=seed)
    train(model, stream, STEPS, lr=LR, schedule=cosine(STEPS, warmup=WARMUP))
    return {"exact": round(accuracy(model, held_out).exact, 4)}


def record(runs: list[Run]) -> dict[str, Any]:
    exact = {str(n): [one["exact"] for one in runs if one["n_heads"] == n] for n in HEADS}
    about = {"sentences": len(data()[2].source), "steps": STEPS}
    return {**about, "seeds": list(dict.fromkeys(one["seed"] for one in runs)), "exact": exact}


def main(arguments: list[str] | None = None) -> None:
    over = {"n_heads": HEADS, "seed": range(10)}
    grid(run, command_line(__file__, __doc__, over, arguments), record)


if __name__ == "__main__":
    main()

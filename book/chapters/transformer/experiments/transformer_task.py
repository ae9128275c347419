"""The Transformer on the book's translation task: exact match after a number of steps, by seed.

    python experiments/transformer_task.py [--seeds 0 1 2] [--only rotary] [--steps 1500] ...

One core. Steps are fixed, so that a run can be repeated; the seconds are the processor's.
"""

import sys
import time
from functools import cache, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.data import Pair, Vocabulary, endless
from lib.decoding import translate
from lib.metrics import accuracy_by_length, exact_match
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, Transformer
from measure.experiments import command_line, grid
from tasks.translation import translation_pairs

POSITIONS = ("rotary", "sinusoidal", "alibi", "learned")
SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128}
BATCH_SIZE = 32
EDGES = (1, 5, 10, 15, 20, 25, 40)


@cache
def data() -> tuple[list[Pair], list[Pair]]:
    return translation_pairs()


def run(
    positions: str, seed: int, steps: int, lr: float, warmup: int, **choices: Any
) -> dict[str, Any]:
    """Train one model; the share of held-out sentences that it translates exactly, by length."""
    training, test = data()
    vocabs = [Vocabulary.from_sentences(pair[side] for pair in training) for side in (0, 1)]
    seed_everything(seed)
    model = Transformer(Config(*map(len, vocabs), positions=positions, **SIZES, **choices))
    stream = endless(training, *vocabs, BATCH_SIZE, seed=seed)
    start = time.process_time()
    train(model, stream, steps, lr, schedule=cosine(steps, warmup))
    seconds = time.process_time() - start
    said = translate(model, test, *vocabs)
    by_length = accuracy_by_length(said, test, EDGES)
    return {
        "seconds": round(seconds, 1),
        "exact": round(exact_match(said, [pair.target for pair in test]), 4),
        "by_length": {f"{b.shortest} to {b.longest}": round(b.accuracy, 4) for b in by_length},
    }


def main(arguments: list[str] | None = None) -> None:
    over = {"positions": POSITIONS, "seed": (0, 1, 2)}
    choices = {"n_layers": 2, "norm": "pre", "dropout": 0.0, "tied": False}
    options = {"steps": 1500, "lr": 4e-3, "warmup": 0, **choices}
    given = command_line(__file__, __doc__, over, arguments, **options)
    settings = {**vars(given.options), **SIZES, "batch_size": BATCH_SIZE}
    grid(
        partial(run, **vars(given.options)),
        given,
        lambda runs: {"settings": settings, "runs": runs},
        keeps_runs=True,
    )


if __name__ == "__main__":
    main()

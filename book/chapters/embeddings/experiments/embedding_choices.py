"""Chapter 9 on several seeds: where the tied matrix starts, its factor, and few sentences.

    python book/chapters/embeddings/experiments/embedding_choices.py [--seeds 0 1 2]

The chapter's small model and data, with one choice changed at a time (`SETTINGS`). It writes
results/embedding_choices.json: for each setting one row of figures for each seed. `loss` is the
mean of the last 20 training losses; `moved` is the largest change of one entry of the matrix, and
`rows` the mean length of its rows at the end. Runs that end with their schedule also have, on 400
test sentences, the perplexity of the right tokens, exact match, and the temperature with the
lowest perplexity. What the model gives unchanged is in smoothing_seeds, "one answer".
"""

import math
import sys
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import fmean

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.data import Pair, Vocabulary, endless, make_batch
from lib.decoding import translate
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import cosine, label_smoothed_loss, teacher_forcing, token_loss, train
from lib.transformer import Config, Transformer
from measure.experiments import by_setting, command_line, grid
from tasks.translation import translation_pairs

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0}
TEMPERATURES = [round(0.3 + 0.05 * i, 2) for i in range(35)]  # 0.3 to 2.0


@dataclass(frozen=True)
class Setting:
    """One run; the defaults are the chapter's.

    std      of the first logits: the matrix starts with std / sqrt(d_model)
    factor   on the row that is looked up, as a multiple of sqrt(d_model)
    steps    of the schedule
    updates  after how many the run ends
    pairs    how many sentences there are to train on
    """

    std: float = 0.5
    factor: float = 1.0
    positions: str = "rotary"
    smoothing: float = 0.0
    steps: int = 800
    updates: int = 800
    pairs: int = 20_000


SETTINGS = {
    "std 1/2, 200 updates": Setting(updates=200),
    "std 1, 200 updates": Setting(std=1.0, updates=200),
    "N(0, 1), 200 updates": Setting(std=8.0, updates=200),
    "only the logits large": Setting(std=8.0, factor=1 / 8, updates=200),
    "only the inputs large": Setting(factor=16.0, updates=200),
    "sinusoids": Setting(positions="sinusoidal"),
    "sinusoids, no factor": Setting(positions="sinusoidal", factor=1 / 8),
    "rotary, no factor": Setting(factor=1 / 8),
    "400 sentences": Setting(updates=400, steps=400, pairs=400),
    "400 sentences, smoothing": Setting(updates=400, steps=400, pairs=400, smoothing=0.1),
}


@cache
def data() -> tuple[list[Pair], list[Pair], Vocabulary]:
    training, test = translation_pairs(20_000, 400, max_items=2)
    vocab = Vocabulary.from_sentences(side for pair in training for side in pair)
    return training, test, vocab


def make_model(setting: Setting, size: int) -> Transformer:
    choices = {"norm": "pre", "positions": setting.positions}
    model = Transformer(Config(size, **SIZES, **choices))
    root = math.sqrt(SIZES["d_model"])
    nn.init.normal_(model.target_embedding.weight, std=setting.std / root)
    model.target_embedding.scale = setting.factor * root  # the source has the same embedding
    return model


@torch.no_grad()
def measure(model: Transformer, test: list[Pair], vocab: Vocabulary) -> dict[str, float]:
    batch = make_batch(test, vocab, vocab)
    logits = model.eval()(batch.source, batch.source_lengths, batch.target_in)
    curve = {t: token_loss(logits / t, batch.target_out).exp().item() for t in TEMPERATURES}
    best = min(curve, key=curve.__getitem__)
    exact = exact_match(translate(model, test, vocab, vocab), [pair.target for pair in test])
    return {
        "perplexity": round(curve[1.0], 4),
        "exact": round(exact, 4),
        "best temperature": best,
        "perplexity at it": round(curve[best], 4),
    }


def run(setting: str, seed: int) -> dict[str, float]:
    torch.set_num_threads(1)
    chosen, (training, test, vocab) = SETTINGS[setting], data()
    seed_everything(seed)
    model = make_model(chosen, len(vocab))
    matrix = model.projection.weight
    before = matrix.detach().clone()
    stream = endless(training[: chosen.pairs], vocab, vocab, 32, seed=seed)
    criterion = partial(label_smoothed_loss, smoothing=chosen.smoothing)
    losses = train(
        model,
        stream,
        chosen.updates,
        2e-3,
        schedule=cosine(chosen.steps, warmup=50),
        loss=partial(teacher_forcing, criterion=criterion),
    )
    found = {
        "loss": round(fmean(losses[-20:]), 4),
        "moved": round((matrix.detach() - before).abs().max().item(), 3),
        "rows": round(matrix.detach().norm(dim=1).mean().item(), 3),
    }
    return found if chosen.updates < chosen.steps else {**found, **measure(model, test, vocab)}


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"setting": SETTINGS, "seed": (0, 1, 2)}, arguments)
    grid(run, given, lambda runs: {"settings": by_setting(runs)})


if __name__ == "__main__":
    main()

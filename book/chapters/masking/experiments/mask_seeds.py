"""Chapter 6 on several seeds: what forgetting each mask does to a small Transformer.

    python experiments/mask_seeds.py [--seeds 0 1 2] [--steps 800]

The chapter trains seed 0 with the same settings. For each model and seed it records the mean loss
of the steps 150 to 200 and of the last 50, the accuracy with teacher forcing, and exact match with
greedy decoding: with no padding at all, in one mixed batch, and with 20 extra pads; "differ" is the
share of sentences that come out otherwise in the batch. Eight minutes of one core.
"""

import random
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.data import PAD, Batch, Pair, Vocabulary, make_batch
from lib.decoding import greedy
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import cosine, teacher_forcing, train
from lib.transformer import Config, Transformer
from measure.experiments import Run, command_line, grid
from tasks.translation import translation_pairs

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0}
BATCH_SIZE, LR, WARMUP = 32, 4e-3, 50
EXTRA = 20
COLUMNS = ("loss at 200", "loss", "accuracy", "alone", "batch", "20 pads", "differ")


class PaddingForgotten(Transformer):
    """Takes every position of the source for a real token."""

    def encode(self, source: Tensor, source_lengths: Tensor) -> tuple[Tensor, Tensor]:
        return super().encode(source, torch.full_like(source_lengths, source.shape[1]))


class FutureForgotten(Transformer):
    """Lets the decoder see later tokens when it is taught."""

    def forward(self, *inputs: Tensor) -> Tensor:
        with mock.patch("lib.transformer.causal_mask", return_value=None):
            return super().forward(*inputs)


def loss_on_padding(model: Transformer, batch: Batch) -> tuple[Tensor, int]:
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    target = batch.target_out.flatten()
    return F.cross_entropy(logits.flatten(0, 1), target, reduction="sum"), len(target)


MODELS = {
    "right": (Transformer, teacher_forcing),
    "no padding mask": (PaddingForgotten, teacher_forcing),
    "no causal mask": (FutureForgotten, teacher_forcing),
    "loss on padding": (Transformer, loss_on_padding),
}
IN_USE_ONLY = "padding mask forgotten in use only"


def mixed_batches(
    pairs: list[Pair], vocabularies: tuple[Vocabulary, Vocabulary], seed: int
) -> Iterator[Batch]:
    """Short and long sentences together, so that much is padded."""
    rng = random.Random(seed)
    while True:
        yield make_batch(rng.sample(pairs, BATCH_SIZE), *vocabularies)


@torch.no_grad()
def measure(
    model: Transformer, test: list[Pair], vocabularies: tuple[Vocabulary, Vocabulary]
) -> list[float]:
    def say(pairs: list[Pair], extra: int = 0) -> list[list[str]]:
        batch = make_batch(pairs, *vocabularies)
        source = F.pad(batch.source, (0, extra), value=PAD)
        tokens, _ = greedy(model, source, batch.source_lengths, 40)
        return [vocabularies[1].decode(row) for row in tokens]

    batch = make_batch(test, *vocabularies)
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    right = (logits.argmax(-1) == batch.target_out)[batch.target_out != PAD]
    alone = [say([pair])[0] for pair in test]
    together, padded = say(test), say(test, EXTRA)
    wanted = [pair.target for pair in test]
    shares = [exact_match(said, wanted) for said in (alone, together, padded)]
    return [right.float().mean().item(), *shares, 1 - exact_match(alone, together)]


@cache
def data() -> tuple[list[Pair], list[Pair]]:
    return translation_pairs(20_000, 400, max_items=2)


def run(model: str, seed: int, steps: int) -> dict[str, dict[str, float]]:
    """Train one model; the figures of it, and of the right one also if its mask is then dropped."""
    training, test = data()
    vocabularies = (
        Vocabulary.from_sentences(pair.source for pair in training),
        Vocabulary.from_sentences(pair.target for pair in training),
    )
    config = Config(*map(len, vocabularies), norm="pre", positions="rotary", **SIZES)
    model_class, loss = MODELS[model]
    seed_everything(seed)
    net = model_class(config)
    stream = mixed_batches(training, vocabularies, seed)
    losses = train(net, stream, steps, LR, schedule=cosine(steps, WARMUP), loss=loss)
    rows = {model: net}
    if model == "right":
        rows[IN_USE_ONLY] = careless = PaddingForgotten(config)
        careless.load_state_dict(net.state_dict())
        careless.eval()
    found = {}
    for name, measured in rows.items():
        figures = [sum(losses[150:200]) / 50, sum(losses[-50:]) / 50]
        figures += measure(measured, test, vocabularies)
        found[name] = {k: round(x, 4) for k, x in zip(COLUMNS, figures, strict=True)}
    return found


def record(runs: list[Run]) -> dict[str, Any]:
    """For each model one row of figures for each seed."""
    models: dict[str, list[dict[str, float]]] = {}
    for one in runs:
        for name in (one["model"], IN_USE_ONLY):
            if name in one:
                models.setdefault(name, []).append(one[name])
    return {"seeds": sorted({one["seed"] for one in runs}), "models": models}


def main(arguments: list[str] | None = None) -> None:
    over = {"model": MODELS, "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, steps=800)
    grid(
        partial(run, steps=given.options.steps),
        given,
        lambda runs: {"steps": given.options.steps, "test sentences": 400, **record(runs)},
    )


if __name__ == "__main__":
    main()

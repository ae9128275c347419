"""What a leak and a missing padding mask look like: other leaks, and longer training.

    python experiments/leak_seeds.py [--seeds 0 1 2]

The settings are those of `mask_seeds.py`, which has the models with 800 updates. Here are decoders
that see the word after the next, or the one five positions on; decoders that see all later words in
a tenth, half or nine tenths of their batches, or always; three models with three times the updates;
and two with half of the learning rate, "slow". "accuracy" is that of `mask_seeds.py`;
"masked" is the accuracy with the causal mask in its place, at the updates of "watched at" and at
the end. Of the model without a causal mask it also records how many next words are right when the
source is another sentence's, when the decoder sees the next position alone, and when it sees all
others; and how often a random word is predicted that is put at the next position. Each run is
recorded as it ends; the record need not hold the whole grid.
A quarter of an hour of one core.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.masking.experiments.mask_seeds import (
    COLUMNS,
    LR,
    SIZES,
    WARMUP,
    FutureForgotten,
    PaddingForgotten,
    data,
    measure,
    mixed_batches,
)
from chapters.masking.leaks import FiveOn, WordAfterNext
from lib.data import PAD, UNK, Batch, Vocabulary, make_batch
from lib.masks import causal_mask
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, Transformer
from measure.experiments import Run, command_line, grid

STEPS, LONGER = 800, 2400
WATCHED = (25, 50, 75, 100, 150, 200, 400, 600)


class HalfForgotten(Transformer):
    """Lets the decoder see later tokens in half of the batches that it is taught."""

    masked = 0.5  # the fraction of the batches that keep their mask

    def forward(self, *inputs: Tensor) -> Tensor:
        if not self.training or torch.rand(()) < self.masked:
            return super().forward(*inputs)
        with mock.patch("lib.transformer.causal_mask", return_value=None):
            return super().forward(*inputs)


class RarelyForgotten(HalfForgotten):
    masked = 0.9


class MostlyForgotten(HalfForgotten):
    masked = 0.1


class Setting(NamedTuple):
    """What a run differs in: the model, how many updates, at which learning rate."""

    model: type[Transformer]
    steps: int = STEPS
    rate: float = LR


MODELS = {
    "right": Setting(Transformer),
    "word after next": Setting(WordAfterNext),
    "word five on": Setting(FiveOn),
    "no causal mask in a tenth of the batches": Setting(RarelyForgotten),
    "no causal mask in half of the batches": Setting(HalfForgotten),
    "no causal mask in nine tenths of the batches": Setting(MostlyForgotten),
    "no causal mask": Setting(FutureForgotten),
    "right, longer": Setting(Transformer, LONGER),
    "no causal mask, longer": Setting(FutureForgotten, LONGER),
    "no padding mask, longer": Setting(PaddingForgotten, LONGER),
    "right, slow": Setting(Transformer, rate=LR / 2),
    "no padding mask, slow": Setting(PaddingForgotten, rate=LR / 2),
}


@torch.no_grad()
def next_words(model: Transformer, batch: Batch, mask: Tensor | None = None) -> Tensor:
    """What the model predicts at each position, with `mask` in place of its own where given."""
    inputs = batch.source, batch.source_lengths, batch.target_in
    if mask is None:
        return model(*inputs).argmax(-1)
    with mock.patch("lib.transformer.causal_mask", return_value=mask):
        return Transformer.forward(model, *inputs).argmax(-1)


def accuracy(predicted: Tensor, batch: Batch) -> float:
    return (predicted == batch.target_out)[batch.target_out != PAD].float().mean().item()


def reads(model: Transformer, batch: Batch) -> dict[str, float]:
    """What the predictions of a model that sees later words are made from."""
    others = replace(
        batch, source=batch.source.roll(1, 0), source_lengths=batch.source_lengths.roll(1)
    )
    ahead = torch.arange(batch.target_in.shape[1])
    next_alone = ahead - ahead[:, None] == 1
    hidden = ~next_alone
    next_alone[-1, -1] = True  # the last position has no next one
    generator = torch.Generator().manual_seed(0)
    rows = torch.arange(len(batch.target_in))
    lengths = (batch.target_in != PAD).sum(1)
    places = 1 + (torch.rand(len(rows), generator=generator) * (lengths - 1)).long()
    words = int(batch.target_in.max())
    foreign = torch.randint(UNK + 1, words + 1, (len(rows),), generator=generator)
    changed = batch.target_in.clone()
    changed[rows, places] = foreign
    said = next_words(model, replace(batch, target_in=changed))[rows, places - 1]
    return {
        "another source": accuracy(next_words(model, others), batch),
        "next alone": accuracy(next_words(model, batch, next_alone), batch),
        "next hidden": accuracy(next_words(model, batch, hidden), batch),
        "foreign word": (said == foreign).float().mean().item(),
    }


def run(model: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    training, test = data()
    vocabularies = (
        Vocabulary.from_sentences(pair.source for pair in training),
        Vocabulary.from_sentences(pair.target for pair in training),
    )
    model_class, steps, rate = MODELS[model]
    seed_everything(seed)
    net = model_class(Config(*map(len, vocabularies), norm="pre", positions="rotary", **SIZES))
    batch = make_batch(test, *vocabularies)
    causal = causal_mask(batch.target_in.shape[1])
    masked: list[float] = []

    def watch(step: int, loss: Tensor) -> None:
        if step in WATCHED and steps == STEPS:
            masked.append(accuracy(next_words(net, batch, causal), batch))

    stream = mixed_batches(training, vocabularies, seed)
    schedule = cosine(steps, WARMUP)
    losses = train(net, stream, steps, rate, schedule=schedule, after_update=watch)
    figures = [sum(losses[150:200]) / 50, sum(losses[-50:]) / 50]
    figures += measure(net, test, vocabularies)
    found = dict(zip(COLUMNS, figures, strict=True))
    if model == "no causal mask":
        found |= reads(net, batch)
    masked.append(accuracy(next_words(net, batch, causal), batch))  # at the end
    rounded = {name: round(value, 4) for name, value in found.items()}
    return rounded | {"masked": [round(value, 4) for value in masked]}


def record(runs: list[Run]) -> dict[str, Any]:
    """All runs, and of each model the figures that the chapter quotes, one for each seed."""
    quoted: dict[str, dict[str, list[Any]]] = {}
    for one in runs:
        row = quoted.setdefault(one["model"], {})
        for name, value in one.items():
            if name not in ("model", "seed", "differ", "loss at 200", "20 pads"):
                row.setdefault(name, []).append(value)
    facts = {"steps": STEPS, "longer": LONGER, "watched at": WATCHED, "test sentences": 400}
    return {**facts, "models": quoted, "runs": runs}


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"model": MODELS, "seed": (0, 1, 2)}, arguments)
    grid(run, given, record, keeps_runs=True)


if __name__ == "__main__":
    main()

"""Runs of a Transformer without one of its parts: how it is trained, and what it can do then."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any

import torch

from chapters.transformer.parts import PARTS, TransformerWithout
from lib.data import PAD, Batch, Pair, Vocabulary, make_batch
from lib.decoding import BATCH_SIZE, translate
from lib.metrics import bleu, exact_match
from lib.notebook import seed_everything
from lib.training import cosine, label_smoothed_loss, teacher_forcing, train
from lib.transformer import Config

NOTHING = "nothing"
WARM_UP = "warm_up"  # a part of the training, not of the model
LEFT_OUT = {NOTHING: "nothing", **PARTS, WARM_UP: "the warm-up of the learning rate"}
LAST = 50  # updates over which the training loss is averaged


@dataclass(frozen=True)
class Budget:
    """What a run may cost: sizes of the model, updates and their learning rate."""

    n_layers: int
    d_model: int
    n_heads: int
    d_ff: int
    steps: int
    batch_size: int
    lr: float
    warmup: int
    smoothing: float = 0.0


@dataclass(frozen=True)
class Work:
    """A task with all that a run needs of it.

    budget        of each run
    vocabularies  of sources and targets
    stream        stream(seed), batches without end
    test          held-out pairs
    shown         pairs whose translations are kept
    longest       tokens of a translation
    score         "exact", the fraction of translations that are wholly right, or "bleu"
    hidden        what is left out of each model, beside the part in question
    asked         how many test pairs the whole model is asked with a part switched off; None: all
    """

    budget: Budget
    vocabularies: Sequence[Vocabulary]
    stream: Callable[[int], Iterable[Batch]]
    test: Sequence[Pair]
    shown: Sequence[Pair]
    longest: int
    score: str = "exact"
    hidden: tuple[str, ...] = ()
    asked: int | None = None


def trained(work: Work, left_out: str, seed: int) -> tuple[TransformerWithout, list[float]]:
    """Train one model, and return it with the loss of each update."""
    budget = work.budget
    config = Config(
        source_vocab=len(work.vocabularies[0]),
        target_vocab=len(work.vocabularies[1]),
        d_model=budget.d_model,
        n_heads=budget.n_heads,
        d_ff=budget.d_ff,
        n_layers=budget.n_layers,
        dropout=0.0,
    )
    seed_everything(seed)
    model = TransformerWithout(config, {*work.hidden, left_out} - {NOTHING, WARM_UP})
    criterion = partial(label_smoothed_loss, smoothing=budget.smoothing)
    losses = train(
        model,
        work.stream(seed),
        budget.steps,
        budget.lr,
        loss=partial(teacher_forcing, criterion=criterion),
        schedule=cosine(budget.steps, 0 if left_out == WARM_UP else budget.warmup),
    )
    return model, losses


def score(model: TransformerWithout, work: Work) -> float:
    """What the model writes by itself, word after word: exact match, or BLEU."""
    said = translate(model, work.test, *work.vocabularies, max_length=work.longest)
    wanted = [pair.target for pair in work.test]
    if work.score == "bleu":
        return round(bleu(said, wanted).score, 2)
    return round(exact_match(said, wanted), 4)


@torch.no_grad()
def next_right(model: TransformerWithout, work: Work) -> float:
    """The fraction of the next words that it predicts right while it is fed the right ones."""
    right = real = 0
    for first in range(0, len(work.test), BATCH_SIZE):
        batch = make_batch(work.test[first : first + BATCH_SIZE], *work.vocabularies)
        guessed = model(batch.source, batch.source_lengths, batch.target_in).argmax(-1)
        right += int(((guessed == batch.target_out) & (batch.target_out != PAD)).sum())
        real += int((batch.target_out != PAD).sum())
    return round(right / real, 4)


def run(work: Work, left_out: str, seed: int) -> dict[str, Any]:
    """Train without a part, and measure; of the whole model also what each part is to it.

    Returns: seconds of the processor in training; loss, the mean of its last updates; `work.score`
        and next_right, see above; said, what it writes for `work.shown`; of the whole model also
        used, its score with nothing and with each part switched off after training.
    """
    torch.set_num_threads(1)
    begun = time.process_time()
    model, losses = trained(work, left_out, seed)
    seconds = time.process_time() - begun
    said = translate(model, work.shown, *work.vocabularies, max_length=work.longest)
    found = {
        "seconds": round(seconds, 1),
        "loss": round(fmean(losses[-LAST:]), 4),
        work.score: score(model, work),
        "next_right": next_right(model, work),
        "said": [" ".join(words) for words in said],
    }
    if left_out == NOTHING:
        found["used"] = used = {}
        some = replace(work, test=work.test[: work.asked])
        for part in (NOTHING, *PARTS):
            model.without = {*work.hidden, part} - {NOTHING}
            used[part] = score(model, some)
    return found

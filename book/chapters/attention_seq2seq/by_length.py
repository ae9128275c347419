"""How a record of this chapter trains a translator and tests it by the length of the source."""

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from lib.data import endless
from lib.notebook import seed_everything
from lib.seq2seq import Seq2Seq
from lib.training import train
from tasks.lists import BATCH_SIZE, D_EMBED, EDGES, Sets, freely

Translator = TypeVar("Translator", bound=Seq2Seq)
LR = 2e-3
D_HIDDEN = 128
LONG = 11  # a source of so many tokens is a long one
SETTINGS = {
    "d_hidden": D_HIDDEN,
    "d_embed": D_EMBED,
    "lr": LR,
    "batch_size": BATCH_SIZE,
    "edges": EDGES,
}
ABOUT = {
    "exact": "fraction of sentences translated exactly, by tokens in the source",
    "long": f"the same, of held-out sentences of {LONG} tokens and more",
    "seconds": "of the processor, training alone",
}


def evaluate(model: Seq2Seq, sets: Sets) -> dict[str, Any]:
    """Fractions of sentences translated exactly, by length of the source."""
    flat = [pair for pairs in sets.bins for pair in pairs]
    said = freely(model, flat, sets)
    right = [tuple(words) == pair.target for words, pair in zip(said, flat, strict=True)]
    held_out = right[: len(sets.test)]  # the bins beyond training come last
    long = [ok for ok, pair in zip(held_out, flat, strict=False) if len(pair.source) >= LONG]
    rows = iter(right)
    bins = [sum(next(rows) for _ in pairs) / len(pairs) for pairs in sets.bins]
    return {
        "all": round(sum(held_out) / len(held_out), 4),
        "long": round(sum(long) / len(long), 4),
        "exact": [round(value, 4) for value in bins],
    }


def train_and_evaluate(
    model: type[Translator], seed: int, sets: Sets, steps: Sequence[int]
) -> tuple[Translator, list[float], dict[str, Any]]:
    """Train a translator for the last of `steps`, and evaluate it after each of them.

    Returns the translator, its loss at every step, and what a record keeps of the run.
    """
    seed_everything(seed)
    source, target = sets.vocabularies
    net = model(len(source), len(target), D_EMBED, D_HIDDEN)
    stream = endless(sets.training, source, target, BATCH_SIZE, seed=seed)
    checkpoints = []
    spent = 0.0
    begun = time.process_time()

    def look(step: int, loss: Tensor) -> None:
        nonlocal begun, spent
        if step in steps:
            spent += time.process_time() - begun
            net.eval()
            with torch.no_grad():
                found = evaluate(net, sets)
            checkpoints.append({"step": step, "loss": round(loss.item(), 5)} | found)
            net.train()
            begun = time.process_time()

    losses = train(net, stream, steps[-1], LR, after_update=look)
    parameters = sum(p.numel() for p in net.parameters())
    kept = {"parameters": parameters, "seconds": round(spent, 1), "checkpoints": checkpoints}
    return net, losses, kept

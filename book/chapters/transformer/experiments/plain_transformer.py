"""The chapter's plain Transformer, trained as its notebook trains it: how it learns, by seed.

    python experiments/plain_transformer.py [--seeds 0 1 2]     (a minute of one core for each)

What runs is the code of the notebook's own cells. `but_numbers` counts a translation as right if it
is once all its number words and figures are taken for equal. The curves are those of the first 200
held-out sentences, `exact` is that of all; the seconds are the processor's, for the updates alone.
"""

import json
import math
import re
import sys
import time
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from num2words import num2words
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.data import BOS, EOS, PAD, Vocabulary, endless, make_batch
from lib.notebook import seed_everything
from measure.experiments import Run, command_line, grid
from tasks.translation import NUMBERS, translation_pairs

NOTEBOOK = next(Path(__file__).parents[3].glob("[0-9]*_transformer.ipynb"))
CELLS = ("clean-attention", "clean-layers", "clean-model", "learn-loop", "learn-write")
WATCHED, EVERY = 200, 100  # sentences of the curves, and updates from point to point
NUMBER_WORDS = {word for n in NUMBERS for word in num2words(n, lang="fr").replace("-", " ").split()}
NUMBER = re.compile(rf"\b(?:(?:{'|'.join(sorted(NUMBER_WORDS))}|\d)\b ?)+")


@cache
def chapter() -> dict[str, Any]:
    """What the notebook's cells define, with the sentences that they train on."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    sources = {cell["id"]: "".join(cell["source"]) for cell in cells}
    training, test = translation_pairs()
    vocabs = [Vocabulary.from_sentences(pair[side] for pair in training) for side in (0, 1)]
    found: dict[str, Any] = {"math": math, "torch": torch, "nn": nn, "F": F, "endless": endless}
    found |= {"islice": islice, "PAD": PAD, "BOS": BOS, "EOS": EOS}
    found |= {"training": training, "test": test}
    found |= {"source_vocab": vocabs[0], "target_vocab": vocabs[1]}
    for name in CELLS:
        exec(compile(sources[name], name, "exec"), found)
    return found


def right(model: nn.Module, start: int, end: int) -> tuple[list[bool], list[bool]]:
    """Which of these held-out sentences are translated exactly, and which but for their numbers."""
    book = chapter()
    pairs = book["test"][start:end]
    source = make_batch(pairs, book["source_vocab"], book["target_vocab"]).source
    exact, but_numbers = [], []
    for said, pair in zip(book["write"](model, source), pairs, strict=True):
        wanted = " ".join(pair.target)
        exact.append(said == wanted)
        but_numbers.append(NUMBER.sub("# ", said) == NUMBER.sub("# ", wanted))
    return exact, but_numbers


def mean(values: list[bool]) -> float:
    return round(sum(values) / len(values), 4)


def run(seed: int) -> dict[str, Any]:
    """Train one model as the notebook does."""
    torch.set_num_threads(1)
    book = chapter()
    seed_everything(seed)
    model = book["PlainTransformer"](len(book["source_vocab"]), len(book["target_vocab"]))
    curve: list[tuple[float, float]] = []
    seconds, since = 0.0, time.process_time()
    for step in book["learn"](model, seed=seed):
        if step % EVERY == 0:
            seconds += time.process_time() - since
            exact, but_numbers = right(model, 0, WATCHED)
            curve.append((mean(exact), mean(but_numbers)))
            since = time.process_time()
    count = len(book["test"])
    all_exact = [one for i in range(0, count, 250) for one in right(model, i, i + 250)[0]]
    return {
        "seconds": round(seconds, 1),
        "exact": mean(all_exact),
        "exact_curve": [one for one, _ in curve],
        "but_numbers_curve": [other for _, other in curve],
    }


def record(runs: list[Run]) -> dict[str, Any]:
    """By figure, one number for each seed; `after` has them by the number of updates."""
    figures = ("exact", "but_numbers")
    after = {
        str(EVERY * (i + 1)): {name: [one[f"{name}_curve"][i] for one in runs] for name in figures}
        for i in range(len(runs[0]["exact_curve"]))
    }
    about = {"sentences": len(chapter()["test"]), "watched": WATCHED}
    ends = {name: [one[name] for one in runs] for name in ("seed", "seconds", "exact")}
    return {**about, **ends, "after": after}


def main(arguments: list[str] | None = None) -> None:
    grid(run, command_line(__file__, __doc__, {"seed": (0, 1, 2)}, arguments), record)


if __name__ == "__main__":
    main()

"""Chapter 9 on several seeds: what label smoothing does to perplexity and to accuracy.

    python experiments/smoothing_seeds.py [--seeds 0 1 2] [--steps 800]

The chapter trains "one answer" with the same settings: one vocabulary and one matrix for source,
target and output. In "two answers" each pair is drawn from the French of France or from that of
Belgium, which says 70 and 90 otherwise (septante, nonante), so that nearly a quarter of the sources
have two right translations.

It writes results/smoothing_seeds.json, which the chapter loads: on 400 test sentences
the perplexity of the right tokens (never of the smoothed targets), the accuracy with teacher
forcing, exact match with greedy decoding (either answer counts), the temperature out of
`TEMPERATURES` with the lowest perplexity, and that perplexity. With two answers also the
probability of both together at the token where they part, and the likelier one's fraction of that:
the mean over the sources of the larger probability, divided by the sum of the two.
"""

import random
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.data import PAD, Pair, Vocabulary, endless, make_batch
from lib.decoding import translate
from lib.notebook import seed_everything
from lib.training import cosine, label_smoothed_loss, teacher_forcing, token_loss, train
from lib.transformer import Config, Transformer
from measure.experiments import Run, command_line, grid
from tasks.translation import translation_pairs

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0}
BATCH_SIZE, LR, WARMUP, N_TRAIN, N_TEST = 32, 2e-3, 50, 20_000, 400
TEMPERATURES = [round(0.3 + 0.05 * i, 2) for i in range(35)]  # 0.3 to 2.0
TASKS = ("one answer", "two answers")


def answers(task: str) -> list[list[Pair]]:
    """For each source its right translations, training sentences first."""
    locales = ("fr", "fr_BE") if task == "two answers" else ("fr",)
    sides = []
    for locale in locales:
        training, test = translation_pairs(N_TRAIN, N_TEST, max_items=2, locale=locale)
        sides.append(training + test)
    return [list(dict.fromkeys(row)) for row in zip(*sides, strict=True)]


@torch.no_grad()
def logits_of(model: Transformer, pairs: list[Pair], vocab: Vocabulary) -> tuple[Tensor, Tensor]:
    """Logits for every position of the targets, and the targets, all in one batch."""
    batch = make_batch(pairs, vocab, vocab)
    return model(batch.source, batch.source_lengths, batch.target_in), batch.target_out


def at_the_fork(model: Transformer, test: list[list[Pair]], vocab: Vocabulary) -> list[float]:
    """Where two answers part: their tokens' probability together, the likelier one's fraction."""
    two = [row for row in test if len(row) == 2]
    logits, target = logits_of(model, [row[0] for row in two], vocab)
    other = logits_of(model, [row[1] for row in two], vocab)[1]
    length = min(target.shape[1], other.shape[1])
    fork = (target[:, :length] != other[:, :length]).int().argmax(1)  # the first difference
    row = torch.arange(len(two))
    p = logits[row, fork].softmax(-1)
    both = torch.stack([p[row, target[row, fork]], p[row, other[row, fork]]])
    return [both.sum(0).mean().item(), (both.amax(0) / both.sum(0)).mean().item()]


def measure(
    model: Transformer, test: list[list[Pair]], drawn: list[Pair], vocab: Vocabulary
) -> dict[str, float]:
    logits, target = logits_of(model, drawn, vocab)
    real = target != PAD
    curve = {t: token_loss(logits / t, target).exp().item() for t in TEMPERATURES}
    best = min(curve, key=curve.__getitem__)
    said = translate(model, drawn, vocab, vocab)
    right = [tuple(words) in {p.target for p in row} for words, row in zip(said, test, strict=True)]
    figures = {
        "perplexity": token_loss(logits, target).exp().item(),
        "accuracy": (logits.argmax(-1) == target)[real].float().mean().item(),
        "exact match": sum(right) / len(right),
        "best temperature": best,
        "perplexity at it": curve[best],
    }
    if any(len(row) == 2 for row in test):
        names = ("both at the fork", "likelier one's fraction")
        figures |= dict(zip(names, at_the_fork(model, test, vocab), strict=True))
    return {name: round(x, 4) for name, x in figures.items()}


class Data(NamedTuple):
    """What a task trains and tests on; `test` has all right answers, `drawn` the one that counts.

    sources  how many there are to train on, and how many of them have two answers
    """

    training: list[Pair]
    drawn: list[Pair]
    test: list[list[Pair]]
    vocab: Vocabulary
    sources: list[int]


@cache
def data(task: str) -> Data:
    rows = answers(task)
    rng = random.Random(0)
    pairs = [rng.choice(row) for row in rows]
    every = [pair for row in rows[:-N_TEST] for pair in row]
    vocab = Vocabulary.from_sentences(side for pair in every for side in pair)
    sources = [len(pairs) - N_TEST, sum(len(row) == 2 for row in rows[:-N_TEST])]
    return Data(pairs[:-N_TEST], pairs[-N_TEST:], rows[-N_TEST:], vocab, sources)


def run(task: str, smoothing: float, seed: int, steps: int) -> dict[str, float]:
    training, drawn, test, vocab, _ = data(task)
    seed_everything(seed)
    model = Transformer(Config(len(vocab), norm="pre", positions="rotary", **SIZES))
    stream = endless(training, vocab, vocab, BATCH_SIZE, seed=seed)
    criterion = partial(label_smoothed_loss, smoothing=smoothing)
    loss = partial(teacher_forcing, criterion=criterion)
    train(model, stream, steps, LR, schedule=cosine(steps, WARMUP), loss=loss)
    return measure(model, test, drawn, vocab)


def record(runs: list[Run], steps: int) -> dict[str, Any]:
    """For each task and smoothing one row of figures for each seed."""
    tasks: dict[str, dict[str, list[Run]]] = {}
    for one in runs:
        rows = tasks.setdefault(one["task"], {}).setdefault(f"smoothing {one['smoothing']}", [])
        rows.append({k: v for k, v in one.items() if k not in ("task", "smoothing", "seed")})
    return {
        "seeds": list(dict.fromkeys(one["seed"] for one in runs)),
        "steps": steps,
        "test sentences": N_TEST,
        "training sources, and how many have two answers": {
            task: data(task).sources for task in TASKS
        },
        "tasks": tasks,
    }


def main(arguments: list[str] | None = None) -> None:
    over = {"task": TASKS, "smoothing": (0.0, 0.1), "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, steps=800)
    steps = given.options.steps
    grid(partial(run, steps=steps), given, partial(record, steps=steps))


if __name__ == "__main__":
    main()

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

import argparse
import random
import sys
import time
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from lib.data import PAD, Pair, Vocabulary, endless, make_batch
from lib.decoding import translate
from lib.notebook import seed_everything
from lib.training import cosine, label_smoothed_loss, teacher_forcing, token_loss, train
from lib.transformer import Config, Transformer
from measure.records import write_results
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=800)
    given = parser.parse_args()
    tasks: dict[str, dict[str, list[dict[str, float]]]] = {}
    sources: dict[str, list[int]] = {}
    for task in TASKS:
        rows = answers(task)
        rng = random.Random(0)
        pairs = [rng.choice(row) for row in rows]
        training, drawn, test = pairs[:-N_TEST], pairs[-N_TEST:], rows[-N_TEST:]
        sources[task] = [len(training), sum(len(row) == 2 for row in rows[:-N_TEST])]
        every = [pair for row in rows[:-N_TEST] for pair in row]
        vocab = Vocabulary.from_sentences(side for pair in every for side in pair)
        config = Config(len(vocab), norm="pre", positions="rotary", **SIZES)
        tasks[task] = {}
        for smoothing in (0.0, 0.1):
            found = tasks[task][f"smoothing {smoothing}"] = []
            for seed in given.seeds:
                seed_everything(seed)
                model = Transformer(config)
                stream = endless(training, vocab, vocab, BATCH_SIZE, seed=seed)
                criterion = partial(label_smoothed_loss, smoothing=smoothing)
                loss = partial(teacher_forcing, criterion=criterion)
                start = time.process_time()
                schedule = cosine(given.steps, WARMUP)
                train(model, stream, given.steps, LR, schedule=schedule, loss=loss)
                seconds = time.process_time() - start
                found.append(measure(model, test, drawn, vocab))
                print(task, smoothing, seed, f"{seconds:.0f} s", found[-1], flush=True)
    record = {
        "seeds": given.seeds,
        "steps": given.steps,
        "test sentences": N_TEST,
        "training sources, and how many have two answers": sources,
        "tasks": tasks,
    }
    write_results(Path(__file__).stem, record)


if __name__ == "__main__":
    main()

"""Chapter 9 on several seeds: what label smoothing does to perplexity and to accuracy.

    python benchmarks/smoothing_seeds.py [--seeds 0 1 2] [--steps 800] [--pairs 20000]

The chapter trains with the same settings: one vocabulary and one matrix for source, target and
output. Each row is measured on 400 test sentences: perplexity of the right tokens (never of the
smoothed targets), accuracy with teacher forcing, exact match with greedy decoding, the temperature
out of `TEMPERATURES` with the lowest perplexity, and that perplexity. Fewer pairs are gone through
more often: with 500 of them, 51 times in 800 steps.
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from lib.data import PAD, Pair, Vocabulary, make_batch
from lib.decoding import translate
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import cosine, endless, label_smoothed_loss, teacher_forcing, token_loss, train
from lib.transformer import Config, Transformer
from lib.translation import translation_pairs

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0}
BATCH_SIZE, LR, WARMUP = 32, 2e-3, 50
TEMPERATURES = [round(0.3 + 0.05 * i, 2) for i in range(35)]  # 0.3 to 2.0
COLUMNS = ("s", "perplexity", "accuracy", "exact match", "best temperature", "perplexity at it")


@torch.no_grad()
def forced(model: Transformer, pairs: list[Pair], vocab: Vocabulary) -> tuple[Tensor, Tensor]:
    """Logits for every place of the targets, and the targets, all in one batch."""
    batch = make_batch(pairs, vocab, vocab)
    return model(batch.source, batch.source_lengths, batch.target_in), batch.target_out


def measure(model: Transformer, test: list[Pair], vocab: Vocabulary) -> list[float]:
    logits, target = forced(model, test, vocab)
    real = target != PAD
    accuracy = (logits.argmax(-1) == target)[real].float().mean().item()
    curve = {t: token_loss(logits / t, target).exp().item() for t in TEMPERATURES}
    best = min(curve, key=curve.get)
    said = translate(model, test, vocab, vocab)
    share = exact_match(said, [pair.target for pair in test])
    return [token_loss(logits, target).exp().item(), accuracy, share, best, curve[best]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--pairs", type=int, default=20_000)
    given = parser.parse_args()
    training, test = translation_pairs(20_000, 400, max_items=2)
    training = training[: given.pairs]
    vocab = Vocabulary.from_sentences(side for pair in training for side in pair)
    config = Config(len(vocab), norm="pre", positions="rotary", **SIZES)
    print(f"{given.pairs} pairs, {given.steps} steps, vocabulary {len(vocab)}")
    print("| smoothing | seed | " + " | ".join(COLUMNS) + " |")
    print("|" + " --- |" * (len(COLUMNS) + 2))
    for smoothing in (0.0, 0.1):
        for seed in given.seeds:
            seed_everything(seed)
            model = Transformer(config)
            stream = endless(training, vocab, vocab, BATCH_SIZE, seed=seed)
            criterion = partial(label_smoothed_loss, smoothing=smoothing)
            loss = partial(teacher_forcing, criterion=criterion)
            start = time.process_time()
            schedule = cosine(given.steps, WARMUP)
            train(model, stream, given.steps, LR, schedule=schedule, loss=loss)
            figures = [time.process_time() - start, *measure(model, test, vocab)]
            row = f"| {smoothing} | {seed} | " + " | ".join(f"{x:.4f}" for x in figures) + " |"
            print(row, flush=True)


if __name__ == "__main__":
    main()

"""Translators of one encoder and one decoder layer, with one head and with four: ten seeds each.

    python experiments/head_counts.py [--seeds 0 1 2 ...]        (ten minutes of one core)

Models of the same seed see the same sentences, and all models have the same number of parameters.
Exact match is that of the 1,500 held-out sentences.
"""

import argparse
import statistics
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from chapters.multi_head.ablation import accuracy
from lib.data import Batch, Pair, Vocabulary, endless, make_batch
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, Transformer
from measure.records import write_results
from tasks.translation import translation_pairs
from train.checkpoints import load_published

HEADS = (1, 4)
STEPS, LR, BATCH_SIZE, WARMUP = 800, 4e-3, 32, 50


def exact_match(
    n_heads: int, seed: int, training: list[Pair], vocabs: list[Vocabulary], held_out: Batch
) -> float:
    """Train one translator; the fraction of held-out sentences that it translates exactly."""
    seed_everything(seed)
    sizes = {"d_model": 64, "n_heads": n_heads, "d_ff": 128, "n_layers": 1}
    model = Transformer(Config(*map(len, vocabs), **sizes, dropout=0.0, norm="pre"))
    stream = endless(training, *vocabs, batch_size=BATCH_SIZE, seed=seed)
    train(model, stream, STEPS, lr=LR, schedule=cosine(STEPS, warmup=WARMUP))
    return round(accuracy(model, held_out).exact, 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    _, *vocabs = load_published()
    training, test = translation_pairs()
    held_out = make_batch(test, *vocabs)
    exact: dict[str, list[float]] = {str(n): [] for n in HEADS}
    for seed in arguments.seeds:
        for n in HEADS:
            exact[str(n)].append(exact_match(n, seed, training, vocabs, held_out))
        print(f"seed {seed}:", {n: found[-1] for n, found in exact.items()}, flush=True)
    for n, found in exact.items():
        print(f"heads {n}: mean {statistics.mean(found):.3f}, {min(found)} to {max(found)}")
    about = {"sentences": len(test), "steps": STEPS, "seeds": arguments.seeds}
    write_results("head_counts", about | {"exact": exact})


if __name__ == "__main__":
    main()

"""Chapters 1 and 2 on several seeds: exact match of both models after equal time on one core.

    python experiments/seq2seq_seeds.py [--seeds 0 1 2] [--lr 2e-3] [--steps 1250 750]

The chapters train one seed each, with the settings below. Steps are fixed, so that a run can be
repeated; the seconds are printed to show that both models got about the same.
"""

import argparse
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from lib.data import Pair, Vocabulary, endless
from lib.decoding import translate
from lib.metrics import accuracy_by_length
from lib.notebook import seed_everything
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq
from lib.training import train
from tasks.translation import translation_pairs

MODELS = {"last state only": Seq2Seq, "attention": AttentionSeq2Seq}
STEPS = (1250, 750)
LR = 2e-3
BATCH_SIZE = 64
EDGES = (1, 5, 10, 15, 20, 35)
LONG = 11  # a source of so many tokens is a long one


def run(
    model_class: type[torch.nn.Module],
    seed: int,
    steps: int,
    lr: float,
    data: tuple[list[Pair], list[Pair]],
) -> tuple[float, dict[str, float]]:
    """Train one model; return the processor's seconds and the accuracy in each class of length."""
    training, test = data
    source_vocab = Vocabulary.from_sentences(pair.source for pair in training)
    target_vocab = Vocabulary.from_sentences(pair.target for pair in training)
    seed_everything(seed)
    model = model_class(len(source_vocab), len(target_vocab), d_embed=64, d_hidden=128)
    stream = endless(training, source_vocab, target_vocab, BATCH_SIZE, seed=seed)
    start = time.process_time()
    train(model, stream, steps, lr)
    seconds = time.process_time() - start
    said = translate(model, test, source_vocab, target_vocab)
    right = [tuple(s) == pair.target for s, pair in zip(said, test, strict=True)]
    long = [ok for ok, pair in zip(right, test, strict=True) if len(pair.source) >= LONG]
    shares = {"all": sum(right) / len(right), f"{LONG} and more": sum(long) / len(long)}
    for b in accuracy_by_length(said, test, EDGES):
        shares[f"{b.shortest} to {b.longest}"] = b.accuracy
    return seconds, shares


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--lr", type=float, default=LR)
    parser.add_argument("--steps", type=int, nargs=2, default=STEPS)
    arguments = parser.parse_args()
    data = translation_pairs()
    header = None
    for (name, model_class), steps in zip(MODELS.items(), arguments.steps, strict=True):
        for seed in arguments.seeds:
            seconds, shares = run(model_class, seed, steps, arguments.lr, data)
            if header is None:
                header = ["model", "seed", "steps", "lr", "seconds", *shares]
                print("| " + " | ".join(header) + " |")
                print("|" + " --- |" * len(header))
            figures = [f"{share:.3f}" for share in shares.values()]
            row = [name, seed, steps, f"{arguments.lr:g}", f"{seconds:.1f}", *figures]
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()

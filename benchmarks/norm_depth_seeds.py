"""Chapter 7 on several seeds: where the norm stands, at two depths, with and without warm-up.

    python benchmarks/norm_depth_seeds.py [--seeds 0 1 2] [--steps 160] [--layers 2 6]

The chapter trains the same models with the same settings; --steps 1200 --warmup 300 gives them
time. Sentences of one item. Each row gives the gradient's norm in the last decoder layer as a
multiple of that in the first one, before and after training; the mean loss of the last 20 steps,
and the share of test sentences translated exactly.
"""

import argparse
import sys
import time
from pathlib import Path

from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from lib.data import Batch, Vocabulary, make_batch
from lib.decoding import translate
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import cosine, endless, token_loss, train
from lib.transformer import Config, Transformer
from lib.translation import translation_pairs

SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "dropout": 0.0, "tied": False}
COLUMNS = ("layers", "norm", "warm-up", "seed", "last/first", "after", "loss", "exact", "s")


def last_to_first(model: Transformer, batch: Batch) -> float:
    """The gradient's norm in the last decoder layer over that in the first."""
    model.zero_grad()
    token_loss(
        model(batch.source, batch.source_lengths, batch.target_in), batch.target_out
    ).backward()
    first, *_, last = model.decoder.layers
    norms = [
        nn.utils.get_total_norm([p.grad for p in layer.parameters()]) for layer in (first, last)
    ]
    model.zero_grad()
    return (norms[1] / norms[0]).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 6])
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--warmup", type=int, default=40)
    parser.add_argument("--lr", type=float, default=3e-3)
    given = parser.parse_args()
    training, test = translation_pairs(4000, 200, max_items=1)
    vocabularies = [
        Vocabulary.from_sentences(getattr(pair, side) for pair in training)
        for side in ("source", "target")
    ]
    fixed = make_batch(training[:64], *vocabularies)
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + " --- |" * len(COLUMNS))
    for n_layers in given.layers:
        for norm in ("pre", "post"):
            for warmup in (0, given.warmup):
                for seed in given.seeds:
                    seed_everything(seed)
                    sizes = {**SIZES, "n_layers": n_layers, "norm": norm}
                    model = Transformer(Config(*map(len, vocabularies), **sizes))
                    before = last_to_first(model, fixed)
                    stream = endless(training, *vocabularies, 32, seed=seed)
                    schedule = cosine(given.steps, warmup)
                    start = time.process_time()
                    losses = train(model, stream, given.steps, given.lr, schedule=schedule)
                    seconds = time.process_time() - start
                    said = translate(model, test, *vocabularies)
                    right = exact_match(said, [pair.target for pair in test])
                    loss, after = sum(losses[-20:]) / 20, last_to_first(model, fixed)
                    row = (f"{before:.2f}", f"{after:.2f}", f"{loss:.2f}", f"{right:.2f}")
                    cells = (n_layers, norm, warmup, seed, *row, f"{seconds:.1f}")
                    print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()

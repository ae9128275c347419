"""Switch off heads of the published translator: single ones, layers, pairs and growing sets.

    python experiments/head_ablation.py                      (five minutes of one core)
    python experiments/head_ablation.py --seeds 1 2 3        (single heads and layers of its twins)

Zero ablation sets a head's output to 0, mean ablation to its mean over the first 2,000 training
sentences. Accuracy and loss are those of the 1,500 held-out sentences, of pairs those of the first
500. Heads are removed in two orders: by what each costs alone, and greedily, next the one whose
removal leaves the lowest loss on 500 training sentences. Results go to benchmarks/results, those of
--seeds to a file of their own.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from chapters.multi_head.ablation import (
    Accuracy,
    Means,
    ablated,
    accuracy,
    head_codes,
    head_means,
    layer_codes,
    mean_shares,
)
from lib.data import Batch, Pair, Vocabulary, endless, make_batch
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, Transformer
from measure.records import write_results
from tasks.translation import translation_pairs
from train.checkpoints import load_published
from widgets.domain import quantise

FOR_MEANS, FOR_ORDER = 2000, 500  # training sentences
FOR_PAIRS = 500  # held-out sentences
STEPS, LR, BATCH_SIZE = 2000, 4e-3, 32  # as scripts/make_checkpoint.py trains
DROPS = (0.01, 0.1)  # of exact match


def trained(seed: int, training: list[Pair], vocabs: list[Vocabulary]) -> Transformer:
    """The published model's twin from another seed."""
    seed_everything(seed)
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2, "dropout": 0.0}
    config = Config(*map(len, vocabs), **sizes, norm="pre", positions="rotary", tied=False)
    model = Transformer(config)
    train(
        model,
        endless(training, *vocabs, BATCH_SIZE, seed=seed),
        STEPS,
        LR,
        schedule=cosine(STEPS),
    )
    return model.eval()


def figures(found: Accuracy) -> dict[str, float]:
    return {name: round(figure, 4) for name, figure in found._asdict().items()}


class Study:
    """What a model loses with some of its heads switched off, under one kind of ablation."""

    def __init__(self, model: Transformer, means: Means | None, held_out: Batch):
        self.model, self.means, self.held_out = model, means, held_out
        self.heads = head_codes(model.config.n_layers, model.config.n_heads)
        self.layers = {
            layer: [head for head in self.heads if head.startswith(layer)]
            for layer in layer_codes(model.config.n_layers)
        }

    def without(self, off: Collection[str], batch: Batch | None = None) -> Accuracy:
        with ablated(self.model, off, self.means):
            return accuracy(self.model, batch or self.held_out)

    def short(self) -> dict[str, Any]:
        """Single heads, whole layers, and layers of which one head is kept."""
        kept = {head: set(heads) - {head} for heads in self.layers.values() for head in heads}
        return {
            "single": {head: figures(self.without([head])) for head in self.heads},
            "layers": {layer: figures(self.without(off)) for layer, off in self.layers.items()},
            "one_kept": {head: figures(self.without(off)) for head, off in kept.items()},
        }

    def full(self, for_order: Batch, for_pairs: Batch) -> dict[str, Any]:
        """The same, with pairs and growing sets."""
        found = self.short()
        order = sorted(self.heads, key=lambda head: found["single"][head]["loss"])
        orders = {"by_cost": order, "greedy": self.greedy(for_order)}
        removed = {
            name: [figures(self.without(order[: n + 1])) for n in range(len(order))]
            for name, order in orders.items()
        }
        pairs = {
            " ".join(pair): figures(self.without(pair, for_pairs))
            for pair in itertools.combinations(self.heads, 2)
        }
        whole = accuracy(self.model, self.held_out).exact
        spare = {
            name: {str(drop): spared(rows, whole - drop) for drop in DROPS}
            for name, rows in removed.items()
        }
        return found | {"orders": orders, "removed": removed, "spared": spare, "pairs": pairs}

    def greedy(self, for_order: Batch) -> list[str]:
        """The heads in the order in which the loss rises least."""
        order: list[str] = []
        while left := [head for head in self.heads if head not in order]:
            order.append(min(left, key=lambda head: self.without([*order, head], for_order).loss))
        return order


def spared(rows: list[dict[str, float]], least: float) -> int:
    """How many heads can go, in this order, before exact match falls below `least`."""
    return next((n for n, row in enumerate(rows) if row["exact"] < least), len(rows))


def as_it_is(model: Transformer, held_out: Batch) -> dict[str, float]:
    """The model with all heads, and half of a 95 % interval of its exact match."""
    whole = accuracy(model, held_out)
    margin = 1.96 * math.sqrt(whole.exact * (1 - whole.exact) / len(held_out.source))
    return figures(whole) | {"exact_margin_95": round(margin, 4)}


def report(name: str, whole: dict[str, float], kinds: dict[str, dict[str, Any]]) -> None:
    print(f"{name}: exact {whole['exact']}")
    for kind, found in kinds.items():
        for layer in found["layers"]:
            each, kept = (
                [figure["exact"] for head, figure in found[part].items() if head.startswith(layer)]
                for part in ("single", "one_kept")
            )
            all_off = found["layers"][layer]["exact"]
            print(f"  {kind} {layer}: one off {each}, all off {all_off}, one kept {kept}")
        if "spared" in found:
            print(f"  {kind}: heads that can go {found['spared']}")
            print(f"    greedy {' '.join(found['orders']['greedy'])}")
            print(f"    {[row['exact'] for row in found['removed']['greedy']]}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    published, *vocabs = load_published()
    training, test = translation_pairs()
    parts = (test, training[:FOR_MEANS], training[:FOR_ORDER], test[:FOR_PAIRS])
    held_out, for_means, for_order, for_pairs = (make_batch(part, *vocabs) for part in parts)
    about = {"sentences": len(test), "for_means": FOR_MEANS, "for_order": FOR_ORDER}
    if not arguments.seeds:
        means = head_means(published.eval(), for_means)
        kinds = {
            kind: Study(published, given, held_out).full(for_order, for_pairs)
            for kind, given in (("zero", None), ("mean", means))
        }
        whole = as_it_is(published, held_out)
        report("published", whole, kinds)
        results = {
            "whole": whole,
            "ablations": kinds,
            "means": {layer: quantise(mean, 4) for layer, mean in means.items()},
            "in_the_mean": mean_shares(published, means, held_out),
        }
        write_results("head_ablation", about | {"for_pairs": FOR_PAIRS} | results)
        return
    runs = {}
    for seed in arguments.seeds:
        model = trained(seed, training, vocabs)
        kinds = {
            kind: Study(model, given, held_out).short()
            for kind, given in (("zero", None), ("mean", head_means(model, for_means)))
        }
        runs[str(seed)] = {"whole": as_it_is(model, held_out), "ablations": kinds}
        report(f"seed {seed}", runs[str(seed)]["whole"], kinds)
    write_results("head_ablation_seeds", about | {"seeds": runs})


if __name__ == "__main__":
    main()

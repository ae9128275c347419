"""Switch off heads of the published translator: single ones, layers, pairs and growing sets.

    python experiments/head_ablation.py                      (five minutes of one core)

Zero ablation sets a head's output to 0, mean ablation to its mean over the first 2,000 training
sentences. Accuracy and loss are those of the 1,500 held-out sentences, of pairs those of the first
500. Heads are removed in two orders: by what each costs alone, and greedily, next the one whose
removal leaves the lowest loss on 500 training sentences. `head_ablation_seeds.py` does the first
part of this with models from other seeds.
"""

import itertools
import math
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

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
from lib.data import Batch, make_batch
from lib.transformer import Transformer
from measure.experiments import command_line
from measure.records import write_results
from tasks.translation import translation_pairs
from train.checkpoints import load_published
from widgets.domain import quantise

FOR_MEANS, FOR_ORDER = 2000, 500  # training sentences
FOR_PAIRS = 500  # held-out sentences
DROPS = (0.01, 0.1)  # of exact match


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


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, arguments=arguments)
    torch.set_num_threads(1)
    published, *vocabs = load_published()
    training, test = translation_pairs()
    parts = (test, training[:FOR_MEANS], training[:FOR_ORDER], test[:FOR_PAIRS])
    held_out, for_means, for_order, for_pairs = (make_batch(part, *vocabs) for part in parts)
    means = head_means(published.eval(), for_means)
    kinds = {
        kind: Study(published, of, held_out).full(for_order, for_pairs)
        for kind, of in (("zero", None), ("mean", means))
    }
    results = {
        "sentences": len(test),
        "for_means": FOR_MEANS,
        "for_order": FOR_ORDER,
        "for_pairs": FOR_PAIRS,
        "whole": as_it_is(published, held_out),
        "ablations": kinds,
        "means": {layer: quantise(mean, 4) for layer, mean in means.items()},
        "in_the_mean": mean_shares(published, means, held_out),
    }
    write_results(given.path, results)


if __name__ == "__main__":
    main()

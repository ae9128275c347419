"""Chapter 3: what dividing by sqrt(d_k) does to training, at several rates and seeds.

    python experiments/attention_scale.py [--seeds 5]

Trains the look-up of the chapter's `rotated_lookup` for 250 steps with each variant of the scores,
dimension and learning rate, and records the squared error at the end, the mean of the last
20 steps, in results/attention_scale.json. Four minutes on one core.
"""

import argparse
import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from chapters.attention_layer.rotated_lookup import (
    DIMENSIONS,
    VARIANTS,
    Variant,
    train_rotated_lookup,
)
from measure.records import write_results

RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
STEPS, LAST = 250, 20


def run(d_k: int, variant: Variant, rate: float, seed: int) -> dict:
    losses = train_rotated_lookup(d_k, variant, seed, rate, STEPS)
    return {
        "d_k": d_k,
        "variant": variant,
        "rate": rate,
        "seed": seed,
        "end": float(f"{sum(losses[-LAST:]) / LAST:.3g}"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    runs = []
    for d_k, rate, variant in itertools.product(DIMENSIONS, RATES, VARIANTS):
        runs += [run(d_k, variant, rate, seed) for seed in range(arguments.seeds)]
        ends = [f"{one['end']:.2g}" for one in runs[-arguments.seeds :]]
        print(f"{d_k:4} {rate:7g} {variant:17}", *ends, flush=True)
    write_results("attention_scale", {"runs": runs})


if __name__ == "__main__":
    main()

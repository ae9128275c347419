"""Chapter 3: what dividing by sqrt(d_k) does to training, at several rates and seeds.

    python experiments/attention_scale.py [--seeds 0 1 2 3 4]

Trains the look-up of `chapters.attention_layer.rotated_lookup` for 250 steps with each variant of
the scores, dimension and learning rate, and records the squared error at the end, the mean of the
last 20 steps, in results/attention_scale.json. Four minutes on one core.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.attention_layer.rotated_lookup import (
    DIMENSIONS,
    VARIANTS,
    Variant,
    train_rotated_lookup,
)
from measure.experiments import command_line, grid

RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
STEPS, LAST = 250, 20


def run(d_k: int, rate: float, variant: Variant, seed: int) -> dict[str, float]:
    losses = train_rotated_lookup(d_k, variant, seed, rate, STEPS)
    return {"end": float(f"{sum(losses[-LAST:]) / LAST:.3g}")}


def main(arguments: list[str] | None = None) -> None:
    over = {"d_k": DIMENSIONS, "rate": RATES, "variant": VARIANTS, "seed": range(5)}
    given = command_line(__file__, __doc__, over, arguments)
    grid(run, given, lambda runs: {"runs": runs}, keeps_runs=True)


if __name__ == "__main__":
    main()

"""What dividing by sqrt(d_k) does to training: from which dimension on, and at which rates.

    python experiments/attention_scale.py [--seeds 0 1 2 3 4]

Trains the look-up of `chapters.attention_layer.rotated_lookup` for 250 steps with each variant of
the scores, dimension and learning rate; the control, scores that are divided after a big start,
for two dimensions and three seeds. Records in results/attention_scale.json, for each run, the
squared error at the end (the mean of the last 20 steps), and after how many updates the error stays
below 0.1. Ten minutes on one core.
"""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.attention_layer.rotated_lookup import (
    BIG_START,
    DIMENSIONS,
    VARIANTS,
    Variant,
    train_rotated_lookup,
    updates_until_solved,
)
from measure.experiments import Experiment, command_line, grid

# Steps of a factor of about 1.5
RATES = (5e-4, 7e-4, 1e-3, 1.5e-3, 2e-3, 3e-3, 5e-3, 7e-3, 1e-2, 1.5e-2, 2e-2, 3e-2, 5e-2, 8e-2)
STEPS, LAST = 250, 20
CURVES = {"variant": VARIANTS}
CONTROL = {"variant": (BIG_START,), "d_k": (64, 256), "seed": (0, 1, 2)}


def run(d_k: int, rate: float, variant: Variant, seed: int) -> dict[str, float]:
    losses = train_rotated_lookup(d_k, variant, seed, rate, STEPS)
    end = float(f"{sum(losses[-LAST:]) / LAST:.3g}")
    return {"end": end, "solved": updates_until_solved(losses)}


def only(given: Experiment, to: dict[str, tuple]) -> Experiment:
    """What is to be run now, without the values that `to` does not name."""
    chosen = {n: [v for v in all_ if v in to.get(n, all_)] for n, all_ in given.chosen.items()}
    return replace(given, chosen=chosen)


def main(arguments: list[str] | None = None) -> None:
    over = {"d_k": DIMENSIONS, "rate": RATES, "variant": (*VARIANTS, BIG_START), "seed": range(5)}
    given = command_line(__file__, __doc__, over, arguments)
    for part in (only(given, CURVES), replace(only(given, CONTROL), fresh=False)):
        grid(run, part, lambda runs: {"runs": runs}, keeps_runs=True)


if __name__ == "__main__":
    main()

"""Chapter 16: is it the learning rate that makes rotary positions look good?

    python experiments/modern_block_rates.py [--seeds 0 1 2]    (30 minutes of one core)

The steps "SwiGLU", whose positions are sinusoids, and "rotary" of modern_block.py, each with five
learning rates, for 300 and for 1,500 updates: the best of one beside the best of the other. The
record is written after each run, and says whether all are in it.
"""

import statistics
import sys
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.modern_block.experiments.modern_block_longer import SEEDS, UPDATES, trained
from chapters.modern_block.steps import STEPS
from measure.experiments import Run, command_line, grid

OVER = {
    "seed": SEEDS,
    "updates": (STEPS, UPDATES),
    "lr": (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2),
    "step": ("SwiGLU", "rotary"),
}


def record(runs: list[Run]) -> dict[str, Any]:
    """The runs, and of each step the best rate, on the seeds that all rates have had."""
    settings: dict[str, Any] = {}
    for updates in OVER["updates"]:
        found = {
            (step, lr): [
                run["held_out"]
                for run in runs
                if (run["updates"], run["step"], run["lr"]) == (updates, step, lr)
            ]
            for step, lr in product(OVER["step"], OVER["lr"])
        }
        n_seeds = min(map(len, found.values()))
        for step in OVER["step"] if n_seeds else ():
            losses = {lr: found[step, lr][:n_seeds] for lr in OVER["lr"]}
            best = min(losses, key=lambda lr: statistics.mean(losses[lr]))
            rates = {f"{lr:g}": one for lr, one in losses.items()}
            settings[f"{step}, {updates}"] = {
                "rates": rates,
                "best_rate": best,
                "best": losses[best],
            }
    number = len(SEEDS) * len(OVER["updates"]) * len(OVER["lr"]) * len(OVER["step"])
    return {"complete": len(runs) >= number, "settings": settings, "runs": runs}


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, OVER, arguments)
    grid(trained, given, record, keeps_runs=True)


if __name__ == "__main__":
    main()

"""Chapter 16: is it the learning rate that makes rotary positions look good?

    python experiments/modern_block_rates.py [--seeds 0 1 2]    (30 minutes of one core)

The steps "SwiGLU", whose positions are sinusoids, and "rotary" of modern_block.py, each with five
learning rates, for 300 and for 1,500 updates: the best of one beside the best of the other. The
record is written after each run, and says whether all are in it.
"""

import sys
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
    number = len(SEEDS) * len(OVER["updates"]) * len(OVER["lr"]) * len(OVER["step"])
    return {"complete": len(runs) >= number, "runs": runs}


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, OVER, arguments)
    grid(trained, given, record, keeps_runs=True)


if __name__ == "__main__":
    main()

"""Chapter 16: which of the changes of modern_block.py last, when the training is longer?

    python experiments/modern_block_longer.py [--seeds 0 1 2]    (35 minutes of one core)

The same models on the same text with the same learning rate, but 1,500 updates where
modern_block.py has 300. The schedule of the learning rate is stretched over all of them, so the 300
updates there are not the beginning of a run here. The record is written after each run, and says
whether all are in it.
"""

import statistics
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.modern_block.experiments.modern_block import tokens
from chapters.modern_block.steps import BACK, LR, WAY, held_out_loss, train_step
from measure.experiments import Run, command_line, grid

UPDATES = 1_500
SEEDS = (0, 1, 2)
# Those that the chapter's conclusion is about come first.
FIRST = ("SwiGLU", "rotary", "untied", "2 key heads", "window 32", "LayerNorm")
NAMES = (*FIRST, *(step.name for step in (*WAY, *BACK) if step.name not in FIRST))


def trained(step: str, seed: int, updates: int, lr: float) -> Run:
    """Train one model; the mean loss of its last 30 updates, and its loss on held-out text."""
    torch.set_num_threads(1)
    text, held_out = tokens()
    model, losses = train_step(step, text, seed, steps=updates, lr=lr)
    return {
        "train": round(statistics.mean(losses[-30:]), 4),
        "held_out": round(held_out_loss(model, held_out), 4),
    }


def record(runs: list[Run], updates: int) -> dict[str, Any]:
    after = {step.name: step.after for step in (*WAY, *BACK)}
    settings = {}
    for name in NAMES:
        of_seeds = sorted((r for r in runs if r["step"] == name), key=lambda run: run["seed"])
        lists = {key: [one[key] for one in of_seeds] for key in ("seed", "train", "held_out")}
        settings[name] = {"after": after[name], **lists}
    return {
        "complete": len(runs) >= len(NAMES) * len(SEEDS),
        "training": {"updates": updates, "lr": LR},
        "settings": settings,
        "runs": runs,
    }


def main(arguments: list[str] | None = None) -> None:
    over = {"seed": SEEDS, "step": NAMES}
    given = command_line(__file__, __doc__, over, arguments, updates=UPDATES)
    updates = given.options.updates
    run = partial(trained, updates=updates, lr=LR)
    grid(run, given, partial(record, updates=updates), keeps_runs=True)


if __name__ == "__main__":
    main()

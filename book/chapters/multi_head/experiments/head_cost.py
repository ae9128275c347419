"""What a single head costs, with a linear layer or a network behind it: two tasks, five seeds.

    python experiments/head_cost.py [--seeds 0 1 2 3 4]        (five minutes of one core)

The tasks and models are those of `chapters.multi_head.two_answers`. All models of a task with the
same network behind the heads have the same number of parameters, but for the rows "wide", whose
only head has four times the dimension. "square" gives each offer the square of its price too.
"""

import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.multi_head.two_answers import D_MODEL, TASKS, Setting, train_two_answers
from measure.experiments import Run, command_line, grid


def settings() -> list[Setting]:
    found = []
    for task in TASKS:
        for network in (False, True):
            found += [Setting(task, n_heads, network) for n_heads in (1, 2, 4)]
    wide = Setting("extremes", 1, True, d_head=4 * D_MODEL)
    return [*found, wide, Setting("extremes", 1, True, square=True)]


SETTINGS = {setting.name: setting for setting in settings()}


def run(setting: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    return train_two_answers(SETTINGS[setting], seed)


def record(runs: list[Run]) -> dict[str, Any]:
    """For each setting its fields, and what was measured as lists, one number for each seed."""
    rows = []
    for name, setting in SETTINGS.items():
        of_seeds = [one for one in runs if one["setting"] == name]
        each = [sorted(one["each"]) for one in of_seeds]
        rows.append(
            {
                **setting._asdict(),
                "parameters": of_seeds[0]["parameters"],
                "both": [one["both"] for one in of_seeds],
                "worse": [low for low, _ in each],
                "better": [high for _, high in each],
            }
        )
    return {"seeds": list(dict.fromkeys(one["seed"] for one in runs)), "settings": rows}


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": SETTINGS, "seed": range(5)}
    grid(run, command_line(__file__, __doc__, over, arguments), record)


if __name__ == "__main__":
    main()

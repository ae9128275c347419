"""What a single head costs, with a linear layer or a network behind it: two tasks, five seeds.

    python experiments/head_cost.py [--seeds 0 1 2 3 4]        (five minutes of one core)

The tasks and models are those of `chapters.multi_head.two_answers`. All models of a task with the
same network behind the heads have the same number of parameters, but for the rows "wide", whose
only head has four times the dimension. "square" gives each offer the square of its price too.
"""

import argparse
import statistics
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from chapters.multi_head.two_answers import D_MODEL, TASKS, Setting, train_two_answers
from measure.records import write_results


def settings() -> list[Setting]:
    found = []
    for task in TASKS:
        for network in (False, True):
            found += [Setting(task, n_heads, network) for n_heads in (1, 2, 4)]
    wide = Setting("extremes", 1, True, d_head=4 * D_MODEL)
    return [*found, wide, Setting("extremes", 1, True, square=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for setting in settings():
        runs = [train_two_answers(setting, seed) for seed in arguments.seeds]
        both = [one["both"] for one in runs]
        each = [sorted(one["each"]) for one in runs]
        rows.append(
            setting._asdict()
            | {
                "parameters": runs[0]["parameters"],
                "both": both,
                "worse": [low for low, _ in each],
                "better": [high for _, high in each],
            }
        )
        print(f"{setting.name}: both {both}, mean {statistics.mean(both):.3f}")
        print(
            f"    the worse answer {rows[-1]['worse']}, the better {rows[-1]['better']}", flush=True
        )
    write_results("head_cost", {"seeds": arguments.seeds, "settings": rows})


if __name__ == "__main__":
    main()

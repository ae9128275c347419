"""Chapter 11 on several seeds: its ablations, and its full run under five schedules.

    python experiments/ablations.py [--seeds 0 1 2] [--only NAME ...]
    python experiments/ablations.py --full

The set-up is taken from the chapter itself: this script runs its cells "imports", "task",
"ablation" and "runs" and then calls `ablation` for each seed, so the two cannot differ. With
`--full` it trains the chapter's main model instead, with the chapter's rate and steps, under five
schedules. One core; seconds are the processor's. A run of all settings is recorded in
`results/ablations.json` or `ablations_full.json`, which the chapter loads: for each
setting the held-out loss and the accuracy (exact match), one number for each seed.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

import nbformat

from lib.data import BatchStream, make_batch
from lib.decoding import translate
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import cosine, paper_schedule, train, validation_loss, warm_up
from lib.transformer import Transformer
from measure.experiments import Run, command_line, grid

[CHAPTER] = Path(__file__).parents[3].glob("*_training.ipynb")
CELLS = ("imports", "task", "ablation", "runs")
STEPS, LR, WARMUP = 1500, 4e-3, 150
FULL = {
    "cosine (the chapter's)": (LR, cosine(STEPS)),
    f"cosine, warm-up {WARMUP}": (LR, cosine(STEPS, WARMUP)),
    f"constant, warm-up {WARMUP}": (LR, warm_up(WARMUP)),
    "paper's, warm-up 4000": (1.0, paper_schedule(64, 4000)),
    "paper's, warm-up 400": (1.0, paper_schedule(64, 400)),
}


@cache
def book() -> dict[str, Any]:
    """What the chapter's cells define."""
    found = {cell.id: cell.source for cell in nbformat.read(CHAPTER, as_version=4).cells}
    namespace: dict[str, Any] = {"__name__": "chapter"}
    for name in CELLS:
        exec(found[name], namespace)
    return namespace


def full_run(schedule: str, seed: int) -> dict[str, float]:
    """Train the chapter's main model under one of the schedules."""
    defined, (lr, rate) = book(), FULL[schedule]
    vocabularies, test = defined["vocabularies"], defined["test"]
    seed_everything(seed)
    model = Transformer(defined["config"])
    stream = BatchStream(defined["training"], *vocabularies, batch_size=32, seed=seed)
    train(model, stream, STEPS, lr, schedule=rate)
    said = translate(model, test, *vocabularies)
    loss = validation_loss(model, [make_batch(test, *vocabularies)])
    return figures(loss, exact_match(said, [pair.target for pair in test]))


def short_run(setting: str, seed: int) -> dict[str, float]:
    """One of the chapter's own ablations."""
    return figures(*book()["ablation"](**book()["runs"][setting], seed=seed))


def figures(loss: float, accuracy: float) -> dict[str, float]:
    return {"loss": round(loss, 4), "accuracy": round(accuracy, 4)}


def by_setting(runs: list[Run]) -> dict[str, dict[str, list[float]]]:
    """For each setting the loss and the accuracy, one number for each seed."""
    found: dict[str, dict[str, list[float]]] = {}
    for one in runs:
        columns = found.setdefault(one.get("setting", one.get("schedule")), {})
        for name in ("loss", "accuracy"):
            columns.setdefault(name, []).append(one[name])
    return found


def main(arguments: list[str] | None = None) -> None:
    arguments = sys.argv[1:] if arguments is None else arguments
    full = "--full" in arguments
    run: Callable[..., dict[str, float]] = full_run if full else short_run
    over = {"schedule": FULL} if full else {"setting": book()["runs"]}
    rest = [one for one in arguments if one != "--full"]
    given = command_line(__file__, __doc__, {**over, "seed": (0, 1, 2)}, rest)
    path = given.path.with_stem("ablations_full") if full else given.path
    grid(run, replace(given, path=path), by_setting)


if __name__ == "__main__":
    main()

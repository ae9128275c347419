"""Chapter 11 on several seeds: its ablations, and its full run under five schedules.

    python experiments/ablations.py [--seeds 0 1 2] [--only NAME ...] [--full]

The set-up is taken from the chapter itself: this script runs its cells "imports", "task",
"ablation" and "runs" and then calls `ablation` for each seed, so the two cannot differ. With
`--full` it trains the chapter's main model instead, with the chapter's rate and steps, under five
schedules. One core; seconds are the processor's. A run of all settings is recorded in
`results/ablations.json` or `ablations_full.json`, which the chapter loads: for each
setting the held-out loss and the accuracy (exact match), one number for each seed.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import nbformat

from lib.data import BatchStream, make_batch
from lib.decoding import translate
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import cosine, paper_schedule, train, validation_loss, warm_up
from lib.transformer import Transformer
from measure.records import write_results

CHAPTER = Path(__file__).resolve().parent.parent / "book" / "11_training.ipynb"
CELLS = ("imports", "task", "ablation", "runs")
STEPS, LR, WARMUP = 1500, 4e-3, 150
FULL = {
    "cosine (the chapter's)": (LR, cosine(STEPS)),
    f"cosine, warm-up {WARMUP}": (LR, cosine(STEPS, WARMUP)),
    f"constant, warm-up {WARMUP}": (LR, warm_up(WARMUP)),
    "paper's, warm-up 4000": (1.0, paper_schedule(64, 4000)),
    "paper's, warm-up 400": (1.0, paper_schedule(64, 400)),
}


def chapter(cells: tuple[str, ...]) -> dict:
    """What the chapter's cells define."""
    found = {cell.id: cell.source for cell in nbformat.read(CHAPTER, as_version=4).cells}
    namespace: dict = {"__name__": "chapter"}
    for name in cells:
        exec(found[name], namespace)
    return namespace


def full_run(book: dict, lr: float, schedule, seed: int) -> tuple[float, float]:
    seed_everything(seed)
    model = Transformer(book["config"])
    stream = BatchStream(book["training"], *book["vocabularies"], batch_size=32, seed=seed)
    train(model, stream, STEPS, lr, schedule=schedule)
    test = book["test"]
    said = translate(model, test, *book["vocabularies"])
    loss = validation_loss(model, [make_batch(test, *book["vocabularies"])])
    return loss, exact_match(said, [pair.target for pair in test])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--full", action="store_true")
    given = parser.parse_args()
    book = chapter(CELLS[:2] if given.full else CELLS)
    table = FULL if given.full else book["runs"]
    print("| run | seed | s | validation loss | exact match |")
    print("| --- | --- | --- | --- | --- |")
    found: dict[str, dict[str, list[float]]] = {}
    for name in given.only or table:
        found[name] = {"loss": [], "accuracy": []}
        for seed in given.seeds:
            start = time.process_time()
            if given.full:
                loss, accuracy = full_run(book, *table[name], seed)
            else:
                loss, accuracy = book["ablation"](**table[name], seed=seed)
            seconds = time.process_time() - start
            print(f"| {name} | {seed} | {seconds:.1f} | {loss:.4f} | {accuracy:.4f} |", flush=True)
            found[name]["loss"].append(round(loss, 4))
            found[name]["accuracy"].append(round(accuracy, 4))
    if not given.only:
        write_results("ablations_full" if given.full else "ablations", found)


if __name__ == "__main__":
    main()

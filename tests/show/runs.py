"""Finished runs for tests of what is shown of them, made in seconds."""

import random
from pathlib import Path

from lib.data import Pair
from tasks.translation import translation_pairs
from train.__main__ import main as train
from train.checkpoints import load_published, peek, save_model
from train.folder import BEST

SMALL = ("--layers=1", "--d-model=16", "--heads=2", "--d-ff=24", "--dropout=0")
LETTERS = "abcdefgh"


def turned(n: int, seed: int = 0) -> list[Pair]:
    """Pairs of sentences of short words; a target has the same words, the last one first."""
    rng = random.Random(seed)
    pairs = []
    for _ in range(n):
        words = [
            "".join(rng.choices(LETTERS, k=rng.randint(1, 4))) for _ in range(rng.randint(1, 9))
        ]
        pairs.append(Pair(tuple(words), tuple(words[::-1])))
    return pairs


def finished(folder: Path, pairs: dict[str, list[Pair]], *options: str) -> Path:
    """A run in `folder / "run"` on these pairs, which stand in files beside it: train, test."""
    given = []
    for name, some in pairs.items():
        path = folder / f"{name}.tsv"
        lines = [f"{' '.join(pair.source)}\t{' '.join(pair.target)}\n" for pair in some]
        path.write_text("".join(lines), encoding="utf-8")
        given += [f"--{name}", str(path)]
    machine = ["--device=cpu", "--threads=1", "--beam=1"]
    out = folder / "run"
    assert train([*SMALL, *given, *machine, *options, "--out", str(out)]) == 0
    return out


def good(folder: Path, n: int) -> Path:
    """A run whose best parameters are those of the book's own model, with n of its test sentences.

    It is trained for one update; then the model takes the place of what that made.
    """
    training, test = translation_pairs()
    pairs = {"train": training[:60], "test": test[:n]}
    run = finished(folder, pairs, "--steps=1", "--min-count=1")
    save_model(run / BEST, *load_published(), peek(run / BEST))
    return run

"""A sample of each widget: a chapter has those of its own in tests/samples.py."""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from engine.bottleneck import Bottleneck
from engine.laboratory import Laboratory
from engine.language import Language
from engine.train_now import TrainNow
from show.run_losses import RunLosses
from tests.paths import BOOK


def chapters() -> list[ModuleType]:
    """The samples of each chapter that has some."""
    rooms = sorted(path.parents[1].name for path in BOOK.glob("chapters/*/tests/samples.py"))
    return [importlib.import_module(f"chapters.{room}.tests.samples") for room in rooms]


CURVES = [  # of two runs, the second with a name that is no HTML
    {
        "name": name,
        "training": [(n, 4.0 - n / 40 + at) for n in range(1, 61)],
        "validation": [(n, 4.2 - n / 50 + at) for n in range(20, 61, 20)],
        "best": (60, 3.0 + at),
    }
    for at, name in enumerate(("runs/one", "runs/<b>two"))
]
SAMPLES: dict[str, Callable] = {
    "bottleneck": lambda: Bottleneck(True, state=8, longest=4, count="digits", seed=3),
    "language": lambda: Language("places", dropout=0.3, top_k=5, seed=3),
    "laboratory": lambda: Laboratory("neighbours", n_heads=2, d_k=4, seed=3),
    "run_losses": lambda: RunLosses(CURVES, shown=2),
    "train_now": lambda: TrainNow("4217", seed=3),
}
# By module and trait: what fits the sample, and what does not
TEXTS: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {
    ("train_now", "number"): (["0", "73691", "100"], ["", "007", "123456", "-3", "1.5", "x"]),
    ("language", "prefix"): (["", "Ma", "<b>", "é" * 30], ["x" * 31]),
}
for chapter in chapters():
    SAMPLES |= chapter.SAMPLES
    TEXTS |= getattr(chapter, "TEXTS", {})

"""What `python -m train` makes of small data by itself, beside a small search among its options.

    python benchmarks/own_data.py DIR [--only NAME ...] [--seeds 0 1 2]

Two kinds of data. `grammar`: 297 pairs of a small grammar in German and English, and 100 other
sentences of it for the score. `multi30k N`: the first N pairs of Multi30k, whose raw files DIR
holds, with 200 for validation and 300 for the score. Each is learned with nothing said, then with
each line of SEARCH. Recorded in results/own_data.json after each run: called again, it measures
what is missing.
"""

import contextlib
import gzip
import io
import itertools
import random
import re
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from measure.experiments import command_line, grid
from train.__main__ import main as train

ADJECTIVES = {"alt": "old", "jung": "young", "klein": "small", "groß": "big", "müd": "tired"}
NOUNS = {"Hund": "dog", "Kater": "cat", "Mann": "man", "Vogel": "bird", "Fisch": "fish"}
NOUNS |= {"Bauer": "farmer", "Lehrer": "teacher", "König": "king"}
VERBS = {"schläft": "sleeps", "fällt": "falls", "singt": "sings", "lacht": "laughs"}
ADVERBS = {"": "", "heute": "today", "hier": "here", "wieder": "again"}
SEARCH = {
    "nothing said": "",
    "before": "--size small --dropout 0.1 --epochs 15 --max-tokens 4096 --min-count 1",
    "1,000 updates": "--steps 1000",
    "2,000 updates": "--steps 2000",
    "4,000 updates": "--steps 4000",
    "8,000 updates": "--steps 8000",
    "whole words": "--min-count 1",
    "no dropout": "--size tiny --dropout 0",
    **{f"dropout {rate}": f"--dropout {rate}" for rate in (0.1, 0.2, 0.3, 0.4, 0.5)},
    "twice as wide": "--d-model 128 --d-ff 256",
    "tiny": "--size tiny --dropout 0.1",
}
GRAMMAR, TESTED = 297, 100
PAIRS = (100, 300, 1000, 3000, 10_000, 29_000)
CORPORA = ("grammar", *(f"multi30k {pairs}" for pairs in PAIRS))
SEEDS = (0,)  # unless others are asked for


def grammar() -> dict[str, list[tuple[str, str]]]:
    """German and English sentences: for training, and for the score."""
    parts = (ADJECTIVES, NOUNS, VERBS, ADVERBS)
    every = [
        (f"Der {a}e {n} {v} {w}".strip() + ".", f"The {A} {N} {V} {W}".strip() + ".")
        for (a, A), (n, N), (v, V), (w, W) in itertools.product(*(part.items() for part in parts))
    ]
    random.Random(0).shuffle(every)
    return {"train": every[:GRAMMAR], "test": every[GRAMMAR : GRAMMAR + TESTED]}


def multi30k(folder: Path, pairs: int) -> dict[str, list[tuple[str, str]]]:
    """The first sentences of the task's files."""
    found = {}
    for name, file, number in (
        ("train", "train", pairs),
        ("val", "val", 200),
        ("test", "test_2016_flickr", 300),
    ):
        sides = []
        for side in ("de", "en"):
            places = (folder / f"{file}.{side}", folder / f"{file}.{side}.gz")
            path = next(place for place in places if place.exists())
            opened = gzip.open if path.suffix == ".gz" else open
            with opened(path, "rt", encoding="utf-8") as stream:
                sides.append([line.strip() for line in itertools.islice(stream, number)])
        found[name] = list(zip(*sides, strict=True))
    return found


def measure(folder: Path, corpus: str, setting: str, seed: int) -> dict[str, Any]:
    """Train once, with one thread: what was chosen, BLEU, and the processor's seconds."""
    name, _, number = corpus.partition(" ")
    files = grammar() if name == "grammar" else multi30k(folder, int(number))
    with tempfile.TemporaryDirectory() as place:
        for file, pairs in files.items():
            for at, side in enumerate(("de", "en")):
                text = "".join(pair[at] + "\n" for pair in pairs)
                Path(place, f"{file}.{side}").write_text(text, encoding="utf-8")
        told = ["--data", place, "--source", "de", "--target", "en", *SEARCH[setting].split()]
        begun = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            status = train([*told, "--threads", "1", "--seed", str(seed), "--out", f"{place}/run"])
        seconds = time.process_time() - begun
        if status:
            raise SystemExit(status)
        summary = Path(place, "run", "summary.txt").read_text(encoding="utf-8")
    reasons = (summary.partition("\nchosen ")[2].partition("\ntook ")[0]).splitlines()
    updates, best = (
        int(re.search(pattern, summary)[1].replace(",", ""))
        for pattern in (r"([\d,]+) updates", r"the best, after update ([\d,]+)")
    )
    return {
        "bleu": float(re.search(r"BLEU ([\d.]+)", summary)[1]),
        "updates": updates,
        "best": best,
        "seconds": round(seconds),
        "chosen": [reason.strip() for reason in reasons],
    }


def main(arguments: list[str] | None = None) -> None:
    over = {"corpus": CORPORA, "setting": list(SEARCH), "seed": SEEDS}
    given = command_line(__file__, __doc__, over, arguments, data=Path)
    run = partial(measure, given.options.data)
    grid(run, given, lambda runs: {"runs": runs}, keeps_runs=True)


if __name__ == "__main__":
    main()

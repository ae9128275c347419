"""What `python -m train` makes of small data by itself, beside a small search among its options.

    python benchmarks/own_data.py DIR [--only NAME ...] [--seeds 0 1 2]

Two kinds of data. `grammar`: 297 pairs of a small grammar in German and English, and 100 other
sentences of it for the score. `multi30k N`: the first N pairs of Multi30k, whose raw files DIR
holds, with 200 for validation and 300 for the score. Each is learned with nothing said, then with
each line of SEARCH. Recorded in results/own_data.json after each run: called again, it measures
what is missing, and what the rules of `train/choice.py` have made another run since. A run is known
by its fingerprint: settings that come to the same run are trained once.
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
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from measure.experiments import command_line, grid
from measure.records import read_results
from train.__main__ import main as train
from train.options import parse
from train.run import prepare

ADJECTIVES = {"alt": "old", "jung": "young", "klein": "small", "groß": "big", "müd": "tired"}
NOUNS = {"Hund": "dog", "Kater": "cat", "Mann": "man", "Vogel": "bird", "Fisch": "fish"}
NOUNS |= {"Bauer": "farmer", "Lehrer": "teacher", "König": "king"}
VERBS = {"schläft": "sleeps", "fällt": "falls", "singt": "sings", "lacht": "laughs"}
ADVERBS = {"": "", "heute": "today", "hier": "here", "wieder": "again"}
SEARCH = {
    "nothing said": "",
    "before": "--size small --dropout 0.1 --epochs 15 --max-tokens 4096 --min-count 1",
    "whole words": "--min-count 1",
    "no dropout": "--size tiny --dropout 0",
    **{f"dropout {rate}": f"--dropout {rate}" for rate in (0.2, 0.3, 0.4, 0.5)},
    "dropout 0.2, 2,000 updates": "--dropout 0.2 --steps 2000",
    "4,000 updates": "--steps 4000",
    "twice as wide": "--d-model 128 --d-ff 256",
    "tiny": "--size tiny --dropout 0.3",
    "tiny, twice as wide": "--size tiny --d-model 128 --d-ff 256 --dropout 0.3",
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


@contextlib.contextmanager
def asked(folder: Path, corpus: str, setting: str, seed: int) -> Iterator[list[str]]:
    """The command line of a run with one thread, in a folder that has its sentences meanwhile."""
    name, _, number = corpus.partition(" ")
    files = grammar() if name == "grammar" else multi30k(folder, int(number))
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
        for file, pairs in files.items():
            for at, side in enumerate(("de", "en")):
                text = "".join(pair[at] + "\n" for pair in pairs)
                Path(place, f"{file}.{side}").write_text(text, encoding="utf-8")
        told = ["--data", place, "--source", "de", "--target", "en", *SEARCH[setting].split()]
        yield [*told, "--threads", "1", "--seed", str(seed), "--out", f"{place}/run"]


def is_the_same(folder: Path, run: Mapping[str, Any]) -> bool:
    """Whether a run that was recorded would be the same one today."""
    with asked(folder, run["corpus"], run["setting"], run["seed"]) as told:
        return prepare(parse(told)).fingerprint == run["fingerprint"]


def measure(
    folder: Path, known: dict[str, dict[str, Any]], corpus: str, setting: str, seed: int
) -> dict[str, Any]:
    """Train once: what was chosen, BLEU, and the processor's seconds.

    Args: known, what runs came to, by their fingerprints; this one is added.
    """
    with asked(folder, corpus, setting, seed) as told:
        run = prepare(parse(told))
        about = {"fingerprint": run.fingerprint, "chosen": run.reasons}
        if run.fingerprint not in known:
            begun = time.process_time()
            if status := train(told):
                raise SystemExit(status)
            seconds = time.process_time() - begun
            summary = (run.out / "summary.txt").read_text(encoding="utf-8")
            updates, best = (
                int(re.search(pattern, summary)[1].replace(",", ""))
                for pattern in (r"([\d,]+) updates", r"the best, after update ([\d,]+)")
            )
            bleu = float(re.search(r"BLEU ([\d.]+)", summary)[1])
            known[run.fingerprint] = {
                "bleu": bleu,
                "updates": updates,
                "best": best,
                "seconds": round(seconds),
            }
    return known[run.fingerprint] | about


def main(arguments: list[str] | None = None) -> None:
    over = {"corpus": CORPORA, "setting": list(SEARCH), "seed": SEEDS}
    given = command_line(__file__, __doc__, over, arguments, data=Path)
    folder, figures = given.options.data, ("bleu", "updates", "best", "seconds")
    earlier = [] if given.fresh else read_results("own_data")["runs"]
    known = {run["fingerprint"]: {name: run[name] for name in figures} for run in earlier}
    grid(
        partial(measure, folder, known),
        given,
        lambda runs: {"runs": runs},
        keeps_runs=True,
        enough=partial(is_the_same, folder),
    )


if __name__ == "__main__":
    main()

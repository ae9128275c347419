"""Transformers without one of their parts, on real text: Multi30k, German to English.

    python experiments/parts_real_text.py DIR [--seeds 0 1] [--only positions ...]

DIR holds the task's files, raw, as its authors publish them: train.de, train.en and
test_2016_flickr.* (plain or .gz). Words in lower case, those of the training sentences that occur
three times. About six minutes of one quiet core for each run; seeds come one after another, so
that a stop leaves the first ones whole.

The sentences that each model is shown are ours, of the kind that Multi30k has. The record has the
form of that of `parts.py`, with BLEU on the lower-cased tokens in the place of exact match (a part
switched off: on the first 100 sentences, and so is "nothing" beside it), and with the one task
"real_text".
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.transformer.experiments.parts import record
from chapters.transformer.part_runs import LEFT_OUT, Budget, Work
from chapters.transformer.part_runs import run as run_work
from lib.data import Pair, Vocabulary, endless, read_parallel, tokenise
from measure.experiments import command_line, grid

BUDGET = Budget(2, 128, 4, 512, steps=1500, batch_size=64, lr=2e-3, warmup=150, smoothing=0.1)
LEAST = 3  # times that a word occurs
TASK = "real_text"
ASKED = 100  # test sentences for the whole model with a part switched off
SHOWN = {
    "Eine Frau fotografiert einen Mann, der auf einer Bank sitzt.": (
        "A woman photographs a man who is sitting on a bench."
    ),
    "Ein Mann fotografiert eine Frau, die auf einer Bank sitzt.": (
        "A man photographs a woman who is sitting on a bench."
    ),
    "Ein Hund jagt eine Katze.": "A dog is chasing a cat.",
    "Eine Katze jagt einen Hund.": "A cat is chasing a dog.",
    "Ein brauner Hund springt über einen Zaun und fängt einen Ball.": (
        "A brown dog jumps over a fence and catches a ball."
    ),
    "Drei junge Männer sitzen an einem Tisch und trinken Kaffee.": (
        "Three young men are sitting at a table and drinking coffee."
    ),
    "Ein kleines Mädchen in einem rosa Kleid schläft auf dem Sofa.": (
        "A little girl in a pink dress is sleeping on the sofa."
    ),
    "Ein Fußballspieler läuft vor einem grünen Zaun über den Rasen.": (
        "A soccer player is running across the grass in front of a green fence."
    ),
    "Mehrere Leute stehen im Schnee neben einem kleinen roten Haus.": (
        "Several people are standing in the snow next to a small red house."
    ),
    "Auf dem Bürgersteig verkauft ein alter Mann mit Hut Blumen.": (
        "On the sidewalk an old man in a hat is selling flowers."
    ),
}


def read(folder: Path, name: str) -> list[Pair]:
    """The pairs of one part of the corpus, in lower case."""
    sides = []
    for side in ("de", "en"):
        named = (folder / f"{name}.{side}", folder / f"{name}.{side}.gz")
        sides.append(next(path for path in named if path.exists()))
    return read_parallel(*sides)


def real_text(folder: Path) -> Work:
    training, test = read(folder, "train"), read(folder, "test_2016_flickr")
    vocabs = [Vocabulary.from_sentences((p[side] for p in training), LEAST) for side in (0, 1)]
    return Work(
        BUDGET,
        vocabs,
        lambda seed: endless(training, *vocabs, BUDGET.batch_size, seed=seed),
        test,
        [Pair(tokenise(source), tokenise(target)) for source, target in SHOWN.items()],
        longest=50,
        score="bleu",
        asked=ASKED,
    )


def main(arguments: list[str] | None = None) -> None:
    over = {"seed": (0, 1), "part": LEFT_OUT}
    given = command_line(__file__, __doc__, over, arguments, corpus=Path)
    work = real_text(given.options.corpus)
    grid(
        lambda seed, part: {"task": TASK, **run_work(work, part, seed)},
        given,
        lambda runs: record(runs, {TASK: work}),
        keeps_runs=True,
    )


if __name__ == "__main__":
    main()

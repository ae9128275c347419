"""Transformers without one of their parts, on numbers to words and on the book's task.

    python experiments/parts.py --only numbers                       (ten seeds, 7 s a run)
    python experiments/parts.py --only numbers_end_hidden nothing encoder_self_attention encoder
    python experiments/parts.py --only numbers_and nothing encoder_self_attention encoder
    python experiments/parts.py --only translation --seeds 0 1 2     (a minute a run)

A part is *needed* where a model that is trained without it does worse; it is *used* where the
trained model does worse once it is switched off. In `numbers_end_hidden` the decoder cannot see the
end mark of the source; in `numbers_and` 101 is one hundred and one, in the others one hundred one.
One core; seconds are the processor's.

The record is written after each run:

    settings  by task: sizes, updates, rate
    shown     by task: the pairs {source, wanted} for which each run says what it writes
    parts     by name: what a page calls the part
    needed    needed[task][part][figure]: one figure for each seed, of the models trained without
    used      used[task][part]: exact match of the whole model of each seed, the part switched off
    runs      one for each task, seed and part: {task, seed, part, seconds, loss, exact, next_right,
              said, used}, see `part_runs.run`; said has a text for each pair of `shown`
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.transformer.numbers import Numbers
from chapters.transformer.part_runs import LEFT_OUT, Budget, Work
from chapters.transformer.part_runs import run as run_work
from chapters.transformer.parts import END_MARK
from lib.data import Vocabulary, endless
from measure.experiments import Run, command_line, grid
from tasks.translation import translation_pairs

SMALL = Budget(1, 32, 4, 64, steps=600, batch_size=32, lr=5e-3, warmup=60)
MIDDLE = Budget(2, 64, 4, 128, steps=1100, batch_size=48, lr=2e-3, warmup=110)
SHOWN_NUMBERS = (74, 709, 797, 7204, 70353, 73891)  # held out
FIGURES = ("seconds", "loss", "exact", "bleu", "next_right")


def numbers_work(*hidden: str, says_and: bool = False) -> Work:
    numbers = Numbers(says_and)
    return Work(
        SMALL,
        numbers.vocabularies(),
        lambda seed: numbers.stream(SMALL.batch_size, seed),
        numbers.held_out(500),
        [numbers.pair(n) for n in SHOWN_NUMBERS],
        longest=20,
        hidden=hidden,
    )


def translation_work() -> Work:
    training, test = translation_pairs()
    vocabs = [Vocabulary.from_sentences(pair[side] for pair in training) for side in (0, 1)]
    return Work(
        MIDDLE,
        vocabs,
        lambda seed: endless(training, *vocabs, MIDDLE.batch_size, seed=seed),
        test,
        test[:6],
        longest=40,
    )


TASKS = {
    "numbers": numbers_work,
    "numbers_end_hidden": partial(numbers_work, END_MARK),
    "numbers_and": partial(numbers_work, says_and=True),
    "translation": translation_work,
}


@cache
def work(task: str) -> Work:
    return TASKS[task]()


def run(task: str, part: str, seed: int) -> dict[str, Any]:
    return run_work(work(task), part, seed)


def record(runs: list[Run], works: Mapping[str, Work]) -> dict[str, Any]:
    """The runs, and their figures by task and part, in the order of the seeds."""
    runs = sorted(runs, key=lambda one: one["seed"])  # whichever were made last
    needed: dict[str, dict[str, dict[str, list[float]]]] = {}
    used: dict[str, dict[str, list[float]]] = {}
    for one in runs:
        figures = needed.setdefault(one["task"], {}).setdefault(one["part"], {})
        for name in FIGURES:
            if name in one:
                figures.setdefault(name, []).append(one[name])
        for part, figure in one.get("used", {}).items():
            used.setdefault(one["task"], {}).setdefault(part, []).append(figure)
    return {
        "settings": {task: asdict(one.budget) for task, one in works.items()},
        "shown": {
            task: [{"source": " ".join(p.source), "wanted": " ".join(p.target)} for p in one.shown]
            for task, one in works.items()
        },
        "parts": LEFT_OUT,
        "needed": needed,
        "used": used,
        "runs": runs,
    }


def main(arguments: list[str] | None = None) -> None:
    over = {"task": TASKS, "seed": range(10), "part": LEFT_OUT}
    given = command_line(__file__, __doc__, over, arguments)
    works = {task: work(task) for task in TASKS}
    grid(run, given, lambda runs: record(runs, works), keeps_runs=True)


if __name__ == "__main__":
    main()

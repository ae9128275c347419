"""The words of two meanings as readers play with them: shuffled, without clues, masked, ordered.

    python benchmarks/playground.py [--seeds 0 1 2 ...] [--only NAME ...]    (a quarter of an hour)

The laboratories of chapters 4, 6 and 8 share one task, and each chapter switches one thing on.
Each run here trains with the WebAssembly kernels in a fresh page of Chromium. Recorded for each
setting and seed: the accuracy at the end, the numbers that the panel shows, what the model answers
to NAMED, and, where it translates, what becomes of its answers when a reader plays with a sentence.
Of each word of two meanings with each of its clues: which answers are right with the clue after the
word and with the clue before it, which stay in three other orders of the same words, and which are
"?" without the clue. It writes benchmarks/results/playground.json.
"""

import sys
from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from playwright.sync_api import Browser

from benchmarks.in_chromium import by_setting, grid_in_chromium, seeds_of
from benchmarks.laboratory_settings import title_of
from engine.laboratory import TASKS
from measure.experiments import Run, command_line
from tests.browser.laboratory_page import LaboratoryPage

NAMED = ("bat bites man in cave", "man bites bat in cave", "in cave bat bites man")
SCHEMES = ("none", "learned", "sinusoidal", "rotary", "alibi")
SIZES: tuple[Mapping[str, Any], ...] = (
    {},
    {"n_heads": 1},
    {"n_heads": 2},
    {"n_heads": 4},
    {"d_model": 16},
    {"d_model": 64},
)
RATES: tuple[Mapping[str, Any], ...] = tuple({"lr": lr} for lr in (0.001, 0.002, 0.01, 0.02))
BY_TASK: dict[str, tuple[Mapping[str, Any], ...]] = {
    "senses": (
        *SIZES,
        {"attention": "itself"},
        {"attention": "equal"},
        {"n_heads": 1, "unsure": False},
    ),
    "senses_masked": tuple(
        {"causal": on} | other for on, other in product((False, True), (*SIZES, *RATES))
    ),
    "senses_ordered": (
        *({"positions": one} | other for one, other in product(SCHEMES, (*SIZES, *RATES))),
        *({"positions": one, "causal": True} for one in SCHEMES),
        *({"positions": one, "wanted": "meanings"} for one in SCHEMES),
    ),
}
SETTINGS = {
    title_of(task, changes): (task, dict(changes))
    for task, all_of in BY_TASK.items()
    for changes in all_of
}
RUN = """
  const run = await start(task, settings, seed);
  while (!run.done) run.step();
  const { accuracy, numbers } = run.probe();
  const answers = Object.fromEntries(named.map((text) => [text, run.ask(text).output?.join(", ")]));
  if (settings.wanted === "roles") return { accuracy, numbers, answers, play: {} };
  const share = (list) => list.filter(Boolean).length / list.length;
  const said = (word, list) => run.ask(list.join(" ")).each[list.indexOf(word)];
  const pairs = $words.DOUBLE.flatMap((word) => $words.cluesOf(word).map((clue) => [word, clue]));
  const random = makeRandom(0);
  const after = ([word, clue]) => ["my", word, "saw", "the", "man", "near", "the", clue];
  const before = ([word, clue]) => ["the", clue, "saw", "the", "man", "near", "my", word];
  const orders = pairs.flatMap((pair) => Array.from({ length: 3 }, () =>
    said(pair[0], random.shuffle([...after(pair)])).text === said(pair[0], after(pair)).text));
  return { accuracy, numbers, answers, play: {
    "clue after the word": share(pairs.map((pair) => said(pair[0], after(pair)).right)),
    "clue before the word": share(pairs.map((pair) => said(pair[0], before(pair)).right)),
    "the same in another order": share(orders),
    "? without a clue": share($words.DOUBLE.map((word) =>
      said(word, $words.withoutClues(after([word, $words.cluesOf(word)[0]]))).text === "?")),
  } };
"""


def run(setting: str, seed: int, browser: Browser) -> dict[str, Any]:
    """One run in a page of its own."""
    task, changes = SETTINGS[setting]
    page = LaboratoryPage(browser)
    settings = {**TASKS[task].start, **changes}
    found = page.run(RUN, task=task, settings=settings, seed=seed, named=list(NAMED))
    page.page.close()
    rounded = {
        part: {name: round(value, 4) for name, value in found[part].items()}
        for part in ("numbers", "play")
    }
    return {**found, "accuracy": round(found["accuracy"], 4), **rounded}


def record(runs: list[Run], browser: str) -> dict[str, Any]:
    """For each setting its runs, one for each seed."""
    return {"seeds": seeds_of(runs), "browser": browser, "settings": by_setting(runs, SETTINGS)}


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"setting": SETTINGS, "seed": range(10)}, arguments)
    grid_in_chromium(lambda browser: partial(run, browser=browser), given, record)


if __name__ == "__main__":
    main()

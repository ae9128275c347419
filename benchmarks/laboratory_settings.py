"""What the laboratories reach beside the suggested settings, on ten seeds.

    python benchmarks/laboratory_settings.py [--seeds 0 1 2 ...] [--only NAME ...]

A chapter says what a reader should have seen in a laboratory, and its panel lets them change more
than the chapter suggests. Each run here trains with the WebAssembly kernels in a fresh page of
Chromium. Recorded for each setting and seed: the accuracy at the end, the mean loss of the last 20
steps, the numbers that the panel shows, what the model answers to NAMED after a hundred steps and
at the end, and at which step it diverged, if it did. RATES says for each task the rates that were
tried, with other settings that suit it: what a panel advises after a divergence is the highest of
them that learns with every seed. It writes benchmarks/results/laboratory_settings.json.
"""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from playwright.sync_api import Browser

from benchmarks.in_chromium import by_setting, grid_in_chromium, seeds_of
from engine.laboratory import TASKS
from measure.experiments import Run, command_line
from tests.browser.laboratory_page import LaboratoryPage

LAST = 20  # steps whose mean loss counts
FIRST = 100  # steps after which the model is asked for the first time
NAMED = {"numbers": ["4217", "4271", "12345"]}
LEARNT = {  # the accuracy from which on a run has learnt its task
    "senses": 0.95,
    "senses_masked": 0.95,
    "senses_ordered": 0.95,
    "order": 0.99,
    "neighbours": 0.95,
    "future": 0.8,
    "depth": 0.95,
    "longer": 0.6,
    "numbers": 0.95,
}
RATES: dict[str, tuple[Mapping[str, Any], Sequence[float]]] = {
    "senses": ({}, (0.005, 0.01, 0.02)),
    "senses_masked": ({}, (0.005, 0.01, 0.02)),
    "senses_ordered": ({"positions": "sinusoidal"}, (0.005, 0.01, 0.02)),
    "order": ({"positions": "learned"}, (0.01, 0.03, 0.1)),
    "neighbours": ({"n_heads": 4}, (0.01, 0.03, 0.1)),
    "future": ({}, (0.01, 0.03)),
    "depth": ({}, (0.01, 0.03)),
    "longer": ({"positions": "alibi"}, (0.01, 0.03)),
    "numbers": ({}, (0.01, 0.03)),
}
SIZES = ({}, {"n_heads": 1}, {"n_heads": 2}, {"d_model": 16}, {"d_model": 64})
POST_6 = {"norm": "post", "n_layers": 6}
RESCUES = ({}, {"warmup": 30}, {"warmup": 100}, {"lr": 0.003})
DEPTH: tuple[dict[str, Any], ...] = (
    *(POST_6 | rescue | size for rescue in RESCUES for size in SIZES),
    POST_6 | {"n_layers": 2},
    POST_6 | {"warmup": 200},
    POST_6 | {"n_layers": 4},
    POST_6 | {"n_layers": 12, "lr": 0.003},
    POST_6 | {"n_layers": 12, "lr": 0.003, "warmup": 100},
    *({"norm": "pre", "n_layers": 6} | more for more in ({}, {"lr": 0.03}, {"lr": 0.1})),
    {"norm": "pre", "n_layers": 12},
)
SCHEMES = ("none", "learned", "sinusoidal", "rotary", "alibi")
OTHERS = ({}, {"n_heads": 1}, {"n_layers": 2})
LONGER = tuple({"positions": scheme} | more for more in OTHERS for scheme in SCHEMES)
ABOUT_NUMBERS = (
    {},
    {"n_heads": 1},
    {"d_model": 16},
    {"d_model": 64},
    {"n_layers": 2},
    {"lr": 0.01},
)
NUMBERS = tuple({"lr": 0.003} | more for more in ABOUT_NUMBERS)


def title_of(task: str, changes: Mapping[str, Any]) -> str:
    """The name of a setting: its task, and what differs from the start."""
    start = TASKS[task].start
    words = [f"{name} {value}" for name, value in changes.items() if value != start[name]]
    return ", ".join([task, *words])


def _settings() -> dict[str, tuple[str, dict[str, Any]]]:
    found = {"depth": DEPTH, "numbers": NUMBERS, "longer": LONGER}
    rates = [(t, base | {"lr": lr}) for t, (base, all_of) in RATES.items() for lr in all_of]
    every = [(task, changes) for task, settings in found.items() for changes in settings] + rates
    return {title_of(task, changes): (task, dict(changes)) for task, changes in every}


SETTINGS = _settings()
RUN = """
  const run = await start(task, settings, seed);
  const say = () => Object.fromEntries(named.map((text) => [text, run.ask(text).output.join(" ")]));
  const found = { diverged: null, answers: {} };
  const losses = [];
  try {
    while (!run.done) {
      const { step, loss } = run.step();
      losses.push(loss);
      if (step === first && named.length) found.first = say();
    }
  } catch (error) {
    found.diverged = error.step;
  }
  const { accuracy, numbers } = run.probe();
  if (named.length) found.answers = say();
  return { ...found, accuracy, numbers,
    loss: losses.slice(-last).reduce((a, b) => a + b) / Math.min(last, losses.length) };
"""


def run(setting: str, seed: int, browser: Browser) -> dict[str, Any]:
    """One run in a page of its own."""
    task, changes = SETTINGS[setting]
    page = LaboratoryPage(browser)
    given = {"named": NAMED.get(task, []), "first": FIRST, "last": LAST}
    settings = {**TASKS[task].start, **changes}
    found = page.run(RUN, task=task, settings=settings, seed=seed, **given)
    page.page.close()
    loss = found["loss"]
    numbers = {name: round(value, 4) for name, value in found["numbers"].items()}
    rounded = {
        "accuracy": round(found["accuracy"], 4),
        "loss": loss if loss is None else round(loss, 4),
    }
    return {**found, **rounded, "numbers": numbers}


def learns(row: Mapping[str, Any]) -> bool:
    """Whether every run of a setting has learnt its task."""
    bar = LEARNT[row["task"]]
    return all(one["diverged"] is None and one["accuracy"] >= bar for one in row["runs"])


def record(runs: list[Run], browser: str) -> dict[str, Any]:
    """For each setting its runs, one for each seed; for each task the rate that is advised."""
    rows = by_setting(runs, SETTINGS)
    advised = {}
    for task, (base, rates) in RATES.items():
        learnt = [lr for lr in rates if learns(rows[title_of(task, base | {"lr": lr})])]
        advised[task] = max(learnt, default=None)
    return {"seeds": seeds_of(runs), "browser": browser, "advised": advised, "settings": rows}


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"setting": SETTINGS, "seed": range(10)}, arguments)
    grid_in_chromium(lambda browser: partial(run, browser=browser), given, record)


if __name__ == "__main__":
    main()

"""The first page's trainer on ten seeds: whether it gets there, when, and what it writes meanwhile.

    python benchmarks/train_now.py [--seeds 0 1 2 ...]

Each run trains in a fresh page of Chromium with the WebAssembly kernels, and is probed as often as
the panel probes it. Recorded for each seed: the step of the first probe by which 90 % of the new
numbers are right, and the seconds that the page's thread had worked by then; the same at the end,
with the numbers right; and of NAMED how many words that name a digit read that digit more than any
other, in the mean over the heads. Of the first seed also what the model writes for the panel's
number after the steps HISTORY, and what it reads before training: the panel shows that until
somebody presses the button. It writes benchmarks/results/train_now.json; at the end each run is
held against its bars.
"""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from playwright.sync_api import Browser, CDPSession

from benchmarks.in_chromium import grid_in_chromium
from chapters.transformer.take_out import PARTS
from measure.experiments import Run, command_line
from tests.browser.laboratory_page import LaboratoryPage

# The panel's first number, others, and of each its words that name a digit, with its place
NAMED = {
    "73691": {"seventy": 0, "three": 1, "six": 2, "ninety": 3, "one": 4},
    "28546": {"twenty": 0, "eight": 1, "five": 2, "forty": 3, "six": 4},
    "94385": {"ninety": 0, "four": 1, "three": 2, "eighty": 3, "five": 4},
}
NUMBER = next(iter(NAMED))
HISTORY = (0, 50, 100, 150, 200, 300, 600)
ENOUGH = 0.9
BARS = {
    "accuracy": (0.95, 1.0),
    "enough_step": (1, 400),
    "enough_seconds": (0, 5),
    "seconds": (0, 5),
    "read_most": (sum(map(len, NAMED.values())),) * 2,
}
BEGIN = """
  const run = await start("parts", settings, seed);
  const due = new Set(Array.from({ length: 81 }, (_, k) =>
    Math.round(run.steps * (k / 80) ** 1.5)));
  globalThis.watched = { run, due, history: [], probe: null };
  watched.look = (number) => {
    const probe = run.probe(number);
    const map = probe.maps.find(({ name }) => name.startsWith("decoder, cross-attention"));
    const { heads, queries, keys, data } = map;
    const weights = Array.from({ length: queries }, (_, i) => Array.from({ length: keys }, (_, j) =>
      Array.from({ length: heads }, (_, k) => data[(k * queries + i) * keys + j])
        .reduce((a, b) => a + b) / heads));
    return { step: probe.step, accuracy: probe.accuracy, words: map.rows.slice(0, -1), weights };
  };
  watched.probe = watched.look(number);
  watched.history.push(watched.probe);
  return null;
"""
GO = """
  const { run, due, look, history } = watched;
  while (!run.done && watched.probe.accuracy < enough) {
    const { step } = run.step();
    if (due.has(step)) watched.probe = look(number);
    if (steps.includes(step)) history.push(look(number));
  }
  return { step: watched.probe.step, accuracy: watched.probe.accuracy };
"""
END = """
  const { run, look, history } = watched;
  return { parameters: run.parameters, history, named: numbers.map(look) };
"""


def run(seed: int, browser: Browser) -> dict[str, Any]:
    """One run in a page of its own, and the seconds that its thread worked."""
    page = LaboratoryPage(browser)
    session = page.page.context.new_cdp_session(page.page)
    session.send("Performance.enable")
    page.run(BEGIN, settings=dict.fromkeys(PARTS, True), seed=seed, number=NUMBER)
    more = {"number": NUMBER, "steps": HISTORY}
    enough = page.run(GO, enough=ENOUGH, **more)
    reached, soon = enough["accuracy"] >= ENOUGH, worked(session)
    end = page.run(GO, enough=2, **more)
    seconds = worked(session)
    found = page.run(END, numbers=list(NAMED))
    page.page.close()
    return {
        "parameters": found["parameters"],
        "enough_step": enough["step"] if reached else None,
        "enough_seconds": soon if reached else None,
        "accuracy": round(end["accuracy"], 4),
        "seconds": seconds,
        "read_most": read_most(found["named"]),
        "history": found["history"],
    }


def worked(session: CDPSession) -> float:
    """The seconds that the page's thread has worked."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return round(next(one["value"] for one in metrics if one["name"] == "ThreadTime"), 2)


def read_most(frames: list[dict[str, Any]]) -> int:
    """How many words that name a digit read that digit more than any other."""
    return sum(
        weights.index(max(weights)) == places.get(word)
        for frame, places in zip(frames, NAMED.values(), strict=True)
        for word, weights in zip(frame["words"], frame["weights"], strict=False)  # no word: the end
    )


def broken(run: Mapping[str, Any]) -> list[str]:
    """Which bars a run breaks, and how."""
    return [
        f"seed {run['seed']}: {name} is {run[name]}, not from {low} to {high}"
        for name, (low, high) in BARS.items()
        if run[name] is None or not low <= run[name] <= high
    ]


def written(frame: Mapping[str, Any]) -> str:
    return " ".join(frame["words"])


def record(runs: list[Run], browser: str) -> dict[str, Any]:
    """The runs, and of the first one what the panel shows."""
    first, *_ = history = runs[0]["history"]
    weights = [[round(x, 2) for x in row] for row in first["weights"]]
    return {
        "browser": browser,
        "number": NUMBER,
        "first": {"writes": written(first), "weights": weights},
        "history": [
            {"step": one["step"], "accuracy": round(one["accuracy"], 4), "writes": written(one)}
            for one in history
        ],
        "runs": [{name: x for name, x in one.items() if name != "history"} for one in runs],
    }


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"seed": range(10)}, arguments)
    found = grid_in_chromium(lambda browser: partial(run, browser=browser), given, record)
    if problems := [p for one in (found["runs"] if found else []) for p in broken(one)]:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()

"""The laboratory "Bottleneck" on ten seeds: how many lists of digits a model copies, by length.

    python benchmarks/copying.py [--seeds 0 1 2 ...] [--only NAME ...]

Each run trains in a fresh page of Chromium with the WebAssembly kernels: one vector and attention,
each dimension of the state and each longest list that the panel offers. Recorded for each setting,
one number for each seed: of the lists of each length that no model was trained on, the fraction
copied without a mistake, and the fraction of digits that are right after the right ones; the mean
loss of the last 20 steps; the seconds that the page's thread worked, start included. Of attention
also, while it writes the panel's own list: the fraction of digits for which the largest weight is
at the state that has just read this digit, and at that one or a neighbour of it. It writes
benchmarks/results/copying.json; at the end each setting is held against its bars.
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

from benchmarks.in_chromium import grid_in_chromium, seeds_of
from engine.bottleneck import LONGEST, STATES
from measure.experiments import Run, command_line
from tests.browser.laboratory_page import LaboratoryPage

MODELS = ("vector", "attention")
OWN = "736914605281"  # as the panel has it
LAST = 20  # steps whose mean loss counts
SECONDS = 8
SURE = 0.9  # of the digits of a list are right with attention, at least
RUN = """
  const run = await start("copying", settings, seed);
  const losses = [];
  while (!run.done) losses.push(run.step().loss);
  const { lengths } = run.probe("");
  const by = (what) => Object.fromEntries(lengths.map((one) => [one.length, one[what]]));
  const [map] = run.probe(own.slice(0, settings.longest)).maps;
  const far = map ? Array.from({ length: map.queries - 1 }, (_, i) => {
    const row = Array.from(map.data.slice(i * map.keys, (i + 1) * map.keys));
    return Math.abs(row.indexOf(Math.max(...row)) - i);
  }) : [];
  const within = (most) => far.length && far.filter((one) => one <= most).length / far.length;
  return { parameters: run.parameters, at: within(0), near: within(1),
    lists: by("lists"), digits: by("digits"),
    loss: losses.slice(-last).reduce((a, b) => a + b) / last };
"""


def run(model: str, state: int, longest: int, seed: int, browser: Browser) -> dict[str, Any]:
    """One run in a page of its own, and the seconds that its thread worked."""
    page = LaboratoryPage(browser)
    session = page.page.context.new_cdp_session(page.page)
    session.send("Performance.enable")
    settings = {"attention": model == "attention", "state": state, "longest": longest}
    found = page.run(RUN, settings=settings, seed=seed, last=LAST, own=OWN)
    metrics = session.send("Performance.getMetrics")["metrics"]
    page.page.close()
    seconds = next(m["value"] for m in metrics if m["name"] == "ThreadTime")
    return found | {"loss": round(found["loss"], 4), "seconds": round(seconds, 2)}


def each(found: Mapping[str, Any], model: str, state: int, longest: int, what: str) -> Any:
    """A figure of a setting in the record: a list over the seeds, or one for each length."""
    return found["models"][model][str(state)][str(longest)][what]


def broken(record: Mapping[str, Any]) -> list[str]:
    """What a reader should see, and does not on some seed."""
    problems = []
    for state, longest in product(STATES, LONGEST):
        where = f"state {state}, longest {longest}"
        vector, attention = (each(record, m, state, longest, "digits") for m in MODELS)
        for length in attention:
            low = min(attention[length])
            if low < SURE:
                problems.append(f"{where}: with attention {low} of {length} digits are right")
        last = str(longest)
        if longest > min(LONGEST) and max(vector[last]) >= min(attention[last]):
            problems.append(f"{where}: one vector is not behind attention")
        for model in MODELS:
            slow = max(each(record, model, state, longest, "seconds"))
            if slow > SECONDS:
                problems.append(f"{model}, {where}: {slow} s")
    return problems


def record(runs: list[Run], browser: str) -> dict[str, Any]:
    """Each figure by model, state and longest list, and then by length: a list over the seeds."""
    models: dict[str, Any] = {}
    for one in runs:
        state = models.setdefault(one["model"], {}).setdefault(str(one["state"]), {})
        row = state.setdefault(str(one["longest"]), {"parameters": one["parameters"]})
        looks = ("at", "near") if one["model"] == "attention" else ()
        for name in ("loss", "seconds", *looks):
            row.setdefault(name, []).append(round(one[name], 4))
        for name in ("lists", "digits"):
            by_length = row.setdefault(name, {})
            for length, share in one[name].items():
                by_length.setdefault(length, []).append(round(share, 4))
    return {"seeds": seeds_of(runs), "browser": browser, "models": models}


def main(arguments: list[str] | None = None) -> None:
    axes = {"model": MODELS, "state": STATES, "longest": LONGEST, "seed": range(10)}
    given = command_line(__file__, __doc__, axes, arguments)
    written = grid_in_chromium(lambda browser: partial(run, browser=browser), given, record)
    if problems := broken(written) if written else []:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()

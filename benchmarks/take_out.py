"""The laboratory "Take a part out" on ten seeds: what a model without each part reaches and writes.

    python benchmarks/take_out.py [--seeds 0 1 2 ...] [--only NAME ...]

Each run trains in a fresh page of Chromium with the WebAssembly kernels, and is probed as often as
the panel probes it. Without one part at a time; without the five at once of which each can go by
itself; and without these five and all heads but one. Recorded for each setting and seed: the
numbers of the test that the model writes rightly, word after word; the next words that are right
after the right ones; the mean loss of the last 20 steps; what it writes for the numbers of NAMED;
the seconds that the page's thread worked, start and probes included. It writes
benchmarks/results/take_out.json; at the end each setting is held against its bars.
"""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from playwright.sync_api import Browser

from benchmarks.in_chromium import figures_of, grid_in_chromium, seeds_of
from chapters.transformer.take_out import PARTS
from measure.experiments import Run, command_line
from tests.browser.laboratory_page import LaboratoryPage

WHOLE, FIVE, SIX = "nothing", "five", "six"
SPARE = ("decoder_self_attention", "feed_forward", "root", "norms", "relu")
TAKEN: dict[str, tuple[str, ...]] = {
    WHOLE: (),
    **{part: (part,) for part in PARTS},
    FIVE: SPARE,
    SIX: (*SPARE, "heads"),
}
# The second has the digits of the first in another order
NAMED = ["73691", "19637", "60482", "4217", "70", "7"]
LAST = 20  # steps whose mean loss counts
SECONDS = 8
SURE = (0.95, 1.0)
BARS = {  # of the accuracy; those that are not here are SURE
    "cross_attention": (0.0, 0.0),
    "causal_mask": (0.0, 0.06),
    "residual": (0.2, 1.0),
    "positions": (0.0, 0.25),
    "encoder_self_attention": (0.35, 1.0),
    "heads": (0.4, 1.0),
    FIVE: (0.3, 0.95),
    SIX: (0.0, 0.7),
}
RUN = """
  const run = await start("parts", settings, seed);
  const due = new Set(Array.from({ length: 81 }, (_, k) =>
    Math.round(run.steps * (k / 80) ** 1.5)));
  const losses = [];
  let probe = run.probe(named[0]);
  while (!run.done) {
    const { step, loss } = run.step();
    losses.push(loss);
    if (due.has(step)) probe = run.probe(named[0]);
  }
  return { parameters: run.parameters, accuracy: probe.accuracy,
    next: probe.numbers["next words right after the right ones"],
    loss: losses.slice(-last).reduce((a, b) => a + b) / last,
    writes: Object.fromEntries(named.map((n) => [n, run.ask(n).output.join(" ")])) };
"""


def settings_of(without: str) -> dict[str, bool]:
    """The task's settings for a model without these parts."""
    return {part: part not in TAKEN[without] for part in PARTS}


def run(without: str, seed: int, browser: Browser) -> dict[str, Any]:
    """One run in a page of its own, and the seconds that its thread worked."""
    page = LaboratoryPage(browser)
    session = page.page.context.new_cdp_session(page.page)
    session.send("Performance.enable")
    found = page.run(RUN, settings=settings_of(without), seed=seed, named=NAMED, last=LAST)
    metrics = session.send("Performance.getMetrics")["metrics"]
    page.page.close()
    seconds = next(m["value"] for m in metrics if m["name"] == "ThreadTime")
    figures = {name: round(found[name], 4) for name in ("accuracy", "next", "loss")}
    return found | figures | {"seconds": round(seconds, 2)}


def broken(without: str, run: Mapping[str, Any]) -> list[str]:
    """Which bars of a setting a run breaks, and how."""
    bars = {"accuracy": BARS.get(without, SURE), "seconds": (0, SECONDS)}
    return [
        f"without {without}: {name} is {run[name]}, not from {low} to {high}"
        for name, (low, high) in bars.items()
        if not low <= run[name] <= high
    ]


def record(runs: list[Run], browser: str) -> dict[str, Any]:
    """For each setting its runs, one for each seed."""
    without: dict[str, list[Run]] = {}
    for one in runs:
        without.setdefault(one["without"], []).append(figures_of(one, "without"))
    return {"seeds": seeds_of(runs), "browser": browser, "without": without}


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"without": TAKEN, "seed": range(10)}, arguments)
    written = grid_in_chromium(lambda browser: partial(run, browser=browser), given, record)
    rows = written["without"] if written else {}
    if problems := [p for name, runs in rows.items() for one in runs for p in broken(name, one)]:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()

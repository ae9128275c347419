"""The language model of chapter 14's laboratory on ten seeds: it beats counting, or it overfits.

    python benchmarks/language.py [--seeds 0 1 2 ...] [--only NAME ...]

Each run trains in a fresh page of Chromium with the WebAssembly kernels, on one of the two lists
that come with the book, with each rate of dropout that the panel offers, and is probed as often as
the panel does it. Recorded for each setting: the loss on held-out text of the best n-gram (Witten
and Bell's, n from 1 to 6); and one number for each seed: the seconds that the page's thread had
worked when a probe first found the model below that (or null), and at the end; the least held-out
loss and its step; the last losses on held-out and on training text; of 200 lines that it writes at
temperature 1 how many stand in the training text, and how many in the part kept back. It writes
benchmarks/results/language.json; at the end each setting is held against its bars. Byte pairs are
measured by byte_pairs.py.
"""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from playwright.sync_api import Browser, CDPSession

from benchmarks.in_chromium import grid_in_chromium, seeds_of
from engine.language import DROPOUTS
from engine.texts import text_of
from measure.experiments import Run, command_line
from tests.browser.laboratory_page import LaboratoryPage

TEXTS = ("names", "places")
USUAL = 0.1  # the panel's dropout until the reader chooses another
SECONDS = 45  # in which first names must be predicted better than by counting
STRONG = 0.3  # with which it learns too slowly for the names, and hardly overfits on the places
RISEN, HARDLY = 1.1, 1.05  # of its least: a held-out loss that has risen, and one that hardly has
WRITTEN = 25  # times eight lines
EACH = ("beaten", "seconds", "least", "step", "held", "taught", "copied", "kept")
BEGIN = """
  const run = await start("writing", { text, merges, dropout }, seed);
  const due = new Set(Array.from({ length: 81 }, (_, k) =>
    Math.round(run.steps * (k / 80) ** 1.5)));
  globalThis.watched = { run, due, probes: [run.probe("")] };
  return { counted: Math.min(...watched.probes[0].counted), steps: run.steps,
    parameters: run.parameters, sizes: watched.probes[0].sizes };
"""
GO = """
  const { run, due, probes } = watched;
  const below = () => probes.at(-1).held < counted;
  while (!run.done && !(stops && below())) {
    const { step } = run.step();
    if (due.has(step)) probes.push(run.probe(""));
  }
  return below();
"""
END = """
  const { run, probes } = watched;
  const least = probes.reduce((a, b) => (b.held < a.held ? b : a));
  const states = Array.from({ length: written }, (_, seed) =>
    run.ask(JSON.stringify({ seed })).texts.map(({ state }) => state)).flat();
  const count = (state) => states.filter((one) => one === state).length;
  return { least: least.held, step: least.step, held: probes.at(-1).held,
    taught: probes.at(-1).taught, copied: count("copied"), kept: count("kept") };
"""


def worked(session: CDPSession) -> float:
    """The seconds that the page's thread has worked."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return round(next(one["value"] for one in metrics if one["name"] == "ThreadTime"), 2)


def run(text: str, dropout: float, seed: int, browser: Browser, merges: int = 0) -> dict[str, Any]:
    """One run in a page of its own, of characters or of byte pairs."""
    page = LaboratoryPage(browser)
    session = page.page.context.new_cdp_session(page.page)
    session.send("Performance.enable")
    begun = page.run(BEGIN, text=text_of(text), merges=merges, dropout=dropout, seed=seed)
    beaten = page.run(GO, counted=begun["counted"], stops=True)
    soon = worked(session)
    page.run(GO, counted=begun["counted"], stops=False)
    seconds = worked(session)
    end = page.run(END, written=WRITTEN)
    page.page.close()
    return begun | end | {"beaten": soon if beaten else None, "seconds": seconds}


def broken(record: Mapping[str, Any]) -> list[str]:
    """What a reader should see, and does not on some seed."""
    problems = []
    names = record["texts"]["names"]
    usual = names[str(USUAL)]
    late = [x for x in usual["beaten"] if x is None or x > SECONDS]
    if late or max(usual["held"]) >= usual["counted"]:
        problems.append(f"names: not below the best count, or late: {late}, {usual['held']}")
    if min(names[str(STRONG)]["held"]) <= usual["counted"]:
        problems.append(f"names, dropout {STRONG}: it gets below the best count")
    for dropout, one in record["texts"]["places"].items():
        risen = [last / least for last, least in zip(one["held"], one["least"], strict=True)]
        if dropout == str(STRONG):
            if max(risen) > HARDLY:
                problems.append(
                    f"places, dropout {dropout}: the held-out loss rises by {max(risen)}"
                )
        elif min(risen) < RISEN or min(one["held"]) <= one["counted"]:
            problems.append(f"places, dropout {dropout}: it does not overfit on each seed")
    return problems


def record(runs: list[Run], browser: str) -> dict[str, Any]:
    """Each figure by text and dropout: a list over the seeds."""
    texts: dict[str, Any] = {}
    for one in runs:
        begun = {
            "counted": round(one["counted"], 4),
            "steps": one["steps"],
            "parameters": one["parameters"],
            "sizes": one["sizes"],
        }
        row = texts.setdefault(one["text"], {}).setdefault(str(one["dropout"]), begun)
        for name in EACH:
            value = one.get(name)  # none: never below the best count
            row.setdefault(name, []).append(round(value, 4) if isinstance(value, float) else value)
    return {"seeds": seeds_of(runs), "browser": browser, "texts": texts}


def main(arguments: list[str] | None = None) -> None:
    axes = {"text": TEXTS, "dropout": DROPOUTS, "seed": range(10)}
    given = command_line(__file__, __doc__, axes, arguments)
    written = grid_in_chromium(lambda browser: partial(run, browser=browser), given, record)
    if problems := broken(written) if written else []:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()

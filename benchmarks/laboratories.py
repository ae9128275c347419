"""The laboratories of the pages: what each main setting reaches on five seeds, and in what time.

    python benchmarks/laboratories.py [--seeds 0 1 2 3 4] [--only NAME ...] [--plain]

Each run trains in a fresh page of Chromium, as a reader's first run does: with the WebAssembly
kernels, and probed as often as the panel probes it. Seconds are those that the page's thread
worked, probes and start included. It writes benchmarks/results/laboratories.json: for each setting
and seed the accuracy at the end, the mean loss of the last 20 steps and the numbers that the panel
shows. At the end each setting is held against its bars. With `--plain` the kernels are those in
JavaScript.
"""

import base64
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from playwright.sync_api import Browser

from benchmarks.in_chromium import grid_in_chromium, seeds_of
from engine.text import FOLDER, kernels
from measure.experiments import Run, command_line
from widgets import joiner

PROBES = 80  # of a run, closer together at its start, as in worker.js
LAST = 20  # steps whose mean loss counts
START: dict[str, dict[str, Any]] = {
    "senses": {"attention": "chosen", "unsure": True, "filled": False, "updates": 300}
    | {"n_heads": 2, "d_model": 32, "lr": 5e-3},
    "senses_masked": {"causal": False, "n_heads": 4, "d_model": 32, "lr": 5e-3},
    "senses_ordered": {"wanted": "roles", "positions": "none", "causal": False}
    | {"n_heads": 2, "d_model": 32, "lr": 5e-3},
    "order": {"positions": "none", "causal": False, "n_layers": 2, "n_heads": 4, "d_model": 32}
    | {"lr": 3e-3},
    "neighbours": {"n_heads": 4, "d_model": 32, "d_k": 8, "lr": 1e-2},
    "future": {"causal": True, "n_layers": 2, "n_heads": 4, "d_model": 32, "lr": 1e-2},
    "depth": {"norm": "post", "n_layers": 6, "warmup": 0, "n_heads": 4, "d_model": 32, "lr": 1e-2},
    "longer": {"positions": "none", "n_layers": 1, "n_heads": 4, "d_model": 64, "lr": 1e-2},
    "numbers": {"longest": 4, "n_layers": 1, "n_heads": 4, "d_model": 32, "lr": 1e-2},
}
SECONDS = {"neighbours": 5, "others": 30}
ACCURACY, LOSS = "accuracy", "loss"
INSIDE, NEXT, FAR = "positions 17 to 32", "positions 33 to 48", "positions 113 to 128"
LEAST = "least loss without looking ahead"
LONG = "right among 32 words"
Bars = Mapping[str, tuple[float, float]]


class Setting(NamedTuple):
    """What is measured: changes of a task's START, and from where to where each figure may lie."""

    task: str
    name: str
    changes: Mapping[str, Any]
    bars: Bars

    @property
    def title(self) -> str:
        return f"{self.task}, {self.name}"


SETTINGS = (
    Setting("senses", "by itself", {"attention": "itself"}, {ACCURACY: (0.25, 0.42)}),
    Setting(
        "senses",
        "all words alike",
        {"attention": "equal"},
        {ACCURACY: (0.95, 1), LONG: (0.5, 0.85)},
    ),
    Setting(
        "senses",
        "all words alike, four times as many steps",
        {"attention": "equal", "updates": 1200},
        {ACCURACY: (0.98, 1), LONG: (0.7, 0.95)},
    ),
    Setting(
        "senses",
        "all words alike, long sentences",
        {"attention": "equal", "filled": True, "updates": 1200},
        {ACCURACY: (0.6, 0.9), LONG: (0.9, 1)},
    ),
    Setting("senses", "one head chooses", {"n_heads": 1}, {ACCURACY: (0.8, 1), LONG: (0.8, 1)}),
    Setting(
        "senses",
        "one head, four times as many steps",
        {"n_heads": 1, "updates": 1200},
        {ACCURACY: (0.7, 1), LONG: (0.7, 1)},
    ),
    Setting("senses", "two heads choose", {}, {ACCURACY: (0.97, 1), LONG: (0.93, 1)}),
    Setting("senses", "four heads choose", {"n_heads": 4}, {ACCURACY: (0.98, 1), LONG: (0.93, 1)}),
    Setting(
        "senses",
        "one head, always a clue",
        {"n_heads": 1, "unsure": False},
        {ACCURACY: (0.85, 1)},
    ),
    Setting("senses_masked", "meanings, no mask", {}, {ACCURACY: (0.98, 1)}),
    Setting("senses_masked", "meanings, causal mask", {"causal": True}, {ACCURACY: (0.55, 0.7)}),
    Setting(
        "senses_ordered",
        "meanings, no positions",
        {"wanted": "meanings"},
        {ACCURACY: (0.95, 1)},
    ),
    Setting("senses_ordered", "roles, no positions", {}, {ACCURACY: (0.66, 0.67)}),
    Setting(
        "senses_ordered",
        "roles, sinusoidal",
        {"positions": "sinusoidal"},
        {ACCURACY: (0.99, 1)},
    ),
    Setting("senses_ordered", "roles, ALiBi", {"positions": "alibi"}, {ACCURACY: (0.65, 0.68)}),
    Setting(
        "senses_ordered",
        "roles, no positions, causal mask",
        {"causal": True},
        {ACCURACY: (0.99, 1)},
    ),
    Setting("order", "without positions", {}, {ACCURACY: (0.6, 0.68)}),
    Setting("order", "with positions", {"positions": "learned"}, {ACCURACY: (0.999, 1)}),
    Setting("order", "causal mask, no positions", {"causal": True}, {ACCURACY: (0.999, 1)}),
    Setting("neighbours", "1 head", {"n_heads": 1}, {ACCURACY: (0, 0.25)}),
    Setting("neighbours", "1 head of d_k 32", {"n_heads": 1, "d_k": 32}, {ACCURACY: (0, 0.25)}),
    Setting("neighbours", "2 heads", {"n_heads": 2}, {ACCURACY: (0.95, 1)}),
    Setting("neighbours", "4 heads", {}, {ACCURACY: (0.95, 1)}),
    Setting("future", "with the causal mask", {}, {ACCURACY: (0.8, 1), LOSS: (1.45, 1.8)}),
    Setting("future", "mask forgotten", {"causal": False}, {ACCURACY: (0, 0.1), LOSS: (0, 0.2)}),
    Setting("depth", "post-norm, 2 layers", {"n_layers": 2}, {ACCURACY: (0.98, 1)}),
    Setting("depth", "post-norm, 6 layers", {}, {ACCURACY: (0, 0.5)}),
    Setting("depth", "post-norm, 6, warm-up", {"warmup": 100}, {ACCURACY: (0.98, 1)}),
    Setting("depth", "post-norm, 6, rate 0.003", {"lr": 3e-3}, {ACCURACY: (0.98, 1)}),
    Setting("depth", "pre-norm, 6 layers", {"norm": "pre"}, {ACCURACY: (0.98, 1)}),
    Setting("depth", "pre-norm, 12 layers", {"norm": "pre", "n_layers": 12}, {ACCURACY: (0.98, 1)}),
    Setting("longer", "none", {}, {INSIDE: (0.5, 0.7), FAR: (0.4, 0.6)}),
    Setting("longer", "learned", {"positions": "learned"}, {INSIDE: (0.7, 0.9), NEXT: (0, 0.5)}),
    Setting(
        "longer", "sinusoidal", {"positions": "sinusoidal"}, {INSIDE: (0.7, 0.9), NEXT: (0, 0.5)}
    ),
    Setting(
        "longer",
        "rotary",
        {"positions": "rotary"},
        {INSIDE: (0.7, 0.9), NEXT: (0.7, 0.9), FAR: (0, 0.65)},
    ),
    Setting("longer", "ALiBi", {"positions": "alibi"}, {INSIDE: (0.7, 0.9), FAR: (0.7, 0.9)}),
    Setting("numbers", "up to 999", {"longest": 3}, {ACCURACY: (0.95, 1)}),
    Setting("numbers", "up to 9999", {}, {ACCURACY: (0.95, 1)}),
    Setting("numbers", "up to 999999", {"longest": 6}, {ACCURACY: (0.95, 1)}),
)
BY_TITLE = {setting.title: setting for setting in SETTINGS}
RUN = """async ([wasm, task, settings, seed, probes]) => {
  const bytes = wasm && Uint8Array.from(atob(wasm), (c) => c.charCodeAt(0)).buffer;
  const engine = await $tensors.makeEngine({ wasm: bytes });
  const run = $trainer.makeRun({ engine, task, settings, seed });
  const due = new Set(Array.from({ length: probes + 1 }, (_, k) =>
    Math.round(run.steps * (k / probes) ** 1.5)));
  const losses = [];
  let probe = run.probe();
  while (!run.done) {
    const { step, loss } = run.step();
    losses.push(loss);
    if (due.has(step)) probe = run.probe();
  }
  return { path: engine.path, parameters: run.parameters, losses, accuracy: probe.accuracy,
    numbers: probe.numbers };
}"""


def started(setting: Setting) -> dict[str, Any]:
    """The settings of a task, with the changes of what is measured."""
    return START[setting.task] | dict(setting.changes)


def run(setting: str, seed: int, browser: Browser, wasm: str | None) -> dict[str, Any]:
    """One run in a page of its own: what it reaches, and the seconds that its thread worked."""
    page = browser.new_page()
    page.goto("about:blank")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def worked() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "ThreadTime")

    before = worked()
    page.add_script_tag(content=joiner.join(FOLDER / "trainer.js"))
    task = BY_TITLE[setting].task
    found = page.evaluate(RUN, [wasm, task, started(BY_TITLE[setting]), seed, PROBES])
    seconds = worked() - before
    page.close()
    last = found.pop("losses")[-LAST:]
    numbers = {name: round(value, 4) for name, value in found.pop("numbers").items()}
    figures = {ACCURACY: round(found.pop("accuracy"), 4), LOSS: round(sum(last) / len(last), 4)}
    return found | figures | {"numbers": numbers, "seconds": round(seconds, 2)}


def broken(setting: Setting, run: Mapping[str, Any]) -> list[str]:
    """Which bars of a setting a run breaks, and how."""
    figures = {ACCURACY: run[ACCURACY], LOSS: run[LOSS], **run["numbers"]}
    limit = SECONDS.get(setting.task, SECONDS["others"])
    bars = {**setting.bars, "seconds": (0, limit)}
    figures["seconds"] = run["seconds"]
    return [
        f"{setting.title}: {name} is {figures[name]}, not from {low} to {high}"
        for name, (low, high) in bars.items()
        if not low <= figures[name] <= high
    ]


def record(
    runs: list[Run], browser: str, settings: tuple[Setting, ...] = SETTINGS
) -> dict[str, Any]:
    """For each setting its runs, one for each seed."""
    rows = []
    for setting in settings:
        of_seeds = [
            {name: x for name, x in one.items() if name not in ("setting", "seed")}
            for one in runs
            if one["setting"] == setting.title
        ]
        row = {"task": setting.task, "name": setting.name, "settings": started(setting)}
        rows.append({**row, "runs": of_seeds})
    return {"seeds": seeds_of(runs), "browser": browser, "settings": rows}


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": BY_TITLE, "seed": range(5)}
    given = command_line(__file__, __doc__, over, arguments, plain=False)
    wasm = None if given.options.plain else base64.b64encode(kernels()).decode()
    written = grid_in_chromium(
        lambda browser: partial(run, browser=browser, wasm=wasm), given, record
    )
    rows = zip(SETTINGS, written["settings"] if written else [], strict=False)
    if problems := [
        p for setting, row in rows for one in row["runs"] for p in broken(setting, one)
    ]:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()

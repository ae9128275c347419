"""How long each widget takes to answer a move: milliseconds until its new picture is laid out.

    python benchmarks/widgets.py [--rounds 5] [--only NAME ...]

Measured in Chromium, in a page as the book publishes it: from the `input` event of a slider, or an
arrow key on a point of a drawing, to the end of the layout that it forces; painting is left to the
browser. Each slider moves over its whole range, first once unmeasured, each point back and forth. A
widget stands at its largest size if one is named in `LARGEST`, else as in the tests. The goal is
16 ms, one frame of a screen. "CPU ms" is the time that the page's main thread worked for a move, in
the mean: unlike the others it does not count waiting for a processor that is busy elsewhere. It
writes benchmarks/results/widgets.json.
"""

import shutil
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

from playwright.sync_api import Page, sync_playwright

from build.directives import widgets
from chapters.attention_layer.query_plane import KEYS, VALUES, QueryPlane
from chapters.attention_layer.softmax_scale import SoftmaxScaleExplorer
from chapters.complexity.complexity_explorer import ComplexityExplorer
from chapters.decoding.beam_explorer import BeamExplorer
from chapters.embeddings.tied_softmax import TiedSoftmaxExplorer
from chapters.feed_forward_norm.norm_explorer import NormExplorer
from chapters.masking.mask_builder import MaskBuilder
from chapters.positions.position_explorer import PositionExplorer
from chapters.self_attention.self_attention_explorer import SelfAttentionExplorer
from chapters.training.learning_rate import LearningRateExplorer
from chapters.transformer.forward_tracer import ForwardTracer
from chapters.transformer.tests.samples import traced
from measure.experiments import command_line, grid
from scripts import chromium
from tests.paths import BOOK
from tests.widget_samples import SAMPLES
from widgets.base import BookWidget

GOAL = 16
LARGEST = {
    "beam_explorer": lambda: BeamExplorer({"long": long_table()}, beam=5, alpha=2.0, pruned=True),
    "complexity_explorer": lambda: ComplexityExplorer(
        65_536, 4096, k=2, radius=1, dilated=True, projections=True, pick="attention"
    ),
    "forward_tracer": lambda: ForwardTracer(
        *traced(2, 4, longest=12), sentence=2, stage=11, position=7
    ),
    "learning_rate": lambda: LearningRateExplorer(total=300_000, warmup=8000, step=7),
    "mask_builder": lambda: MaskBuilder(
        64, lengths=57, causal=True, radius=9, n_layers=6, by_hand={(13, 37): True}
    ),
    "norm_explorer": lambda: NormExplorer(24, norm="post", residual=True, scale=1, d_model=64),
    "position_explorer": lambda: PositionExplorer("sinusoidal", 512, length=64),
    "query_plane": lambda: QueryPlane((1.0, 1.0), KEYS, VALUES, scaled=True, temperature=0.7),
    "self_attention_explorer": lambda: SelfAttentionExplorer(
        {"red": [1.0, 0.5], "fox": [-0.25, 1.5]},
        "red fox",
        random=(64, 512),
        spread=0.3,
        scaled=True,
        causal=True,
        positions=True,
    ),
    "softmax_scale": lambda: SoftmaxScaleExplorer(1024, n_keys=64),
    "tied_softmax": lambda: TiedSoftmaxExplorer(
        {f"w{i}": [0.3 * i - 1, 1 - 0.2 * i] for i in range(8)}, [1.0, 0.5], "w3", smoothing=0.1
    ),
}


def long_table() -> dict[tuple[str, ...], dict[str, float]]:
    """Five sentences of 25 tokens that stay equally likely, with three other ends at each token."""
    rows = {(): {f"w{i}": 0.2 for i in range(5)}}
    for start in range(5):
        for length in range(1, 25):
            prefix = (f"w{start}", *("w0",) * (length - 1))
            rows[prefix] = {"w0": 0.9, "w1": 0.05, "w2": 0.03, "w3": 0.02}
            rows |= {(*prefix, word): {"<eos>": 1.0} for word in ("w1", "w2", "w3")}
        rows[(f"w{start}", *("w0",) * 24)] = {"<eos>": 1.0}
    return rows


PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<link rel="stylesheet" href="widgets/base.css">
<link rel="stylesheet" href="widgets/{name}.css">
<script defer src="widget-host.js"></script><script defer src="widgets/shared.js"></script>
<script defer src="widgets/{name}.js"></script></head>
<body style="width: 650px">{html}</body></html>"""
TIMED = """const times = [];
  const timed = async (act, counts) => {
    const before = performance.now();
    act();
    await null; // the widget draws in a microtask of its own
    await null;
    document.documentElement.getBoundingClientRect();
    if (counts) times.push(performance.now() - before);
  };"""
SLIDE = f"""async (input, rounds) => {{
  {TIMED}
  const [low, high] = [+input.min, +input.max];
  const fine = +input.step || 1;
  const step = fine * Math.max(1, Math.ceil((high - low) / fine / 64)); // 64 places are plenty
  const start = input.value;
  const to = (value) => {{
    input.value = value;
    input.dispatchEvent(new Event("input", {{ bubbles: true }}));
  }};
  for (let round = 0; round <= rounds; round += 1) {{
    for (let value = low; value <= high; value += step) await timed(() => to(value), round > 0);
  }}
  to(start);
  await null;
  return times;
}}"""
NUDGE = f"""async (point, rounds) => {{
  {TIMED}
  for (let round = 0; round <= rounds; round += 1) {{
    for (const key of ["ArrowLeft", "ArrowDown", "ArrowRight", "ArrowUp"].flatMap((k) =>
      Array(16).fill(k))) {{
      await timed(() => point.dispatchEvent(new KeyboardEvent("keydown", {{ key }})), round > 0);
    }}
  }}
  return times;
}}"""


def measure(
    page: Page, folder: Path, widget: BookWidget, rounds: int
) -> dict[str, tuple[list[float], float]]:
    """The milliseconds of each move and those of the processor, by the name of what is moved."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def busy() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "ThreadTime")

    html = widget._repr_mimebundle_()[0]["text/html"]
    path = folder / f"{widget._module}.html"
    path.write_text(PAGE.format(name=widget._module, html=html), encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector(".bw")
    found = {}
    for control in page.locator("input[type=range], .bw-handle[tabindex]").all():
        if control.is_visible():
            label = control.evaluate("(node) => node.ariaLabel ?? node.labels[0].textContent")
            move = SLIDE if control.evaluate("(node) => node.tagName") == "INPUT" else NUDGE
            before = busy()
            times = control.evaluate(f"(node) => ({move})(node, {rounds})")
            moves = len(times) * (rounds + 1) / rounds  # with the round that is not measured
            found[label] = times, 1000 * (busy() - before) / moves
    return found


def run(widget: str, page: Page, folder: Path, rounds: int) -> dict[str, dict[str, Any]]:
    controls = {}
    build = LARGEST.get(widget, SAMPLES[widget])
    for label, (times, busy) in measure(page, folder, build(), rounds).items():
        late = statistics.quantiles(times, n=20, method="inclusive")[-1]
        figures = {"median": statistics.median(times), "late": late, "largest": max(times)}
        rounded = {name: round(ms, 1) for name, ms in {**figures, "processor": busy}.items()}
        controls[label] = {"moves": len(times), **rounded}
    return {"controls": controls}


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"widget": sorted(SAMPLES)}, arguments, rounds=5)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        widgets.emit_assets(folder / "widgets")
        shutil.copy(BOOK / "static" / "widget-host.js", folder)
        browser = playwright.chromium.launch(
            executable_path=chromium.executable(), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 700, "height": 900})
        timed = partial(run, page=page, folder=folder, rounds=given.options.rounds)
        found = grid(timed, given, lambda runs: {one["widget"]: one["controls"] for one in runs})
        browser.close()
    slow = [
        f"{widget}, {label}"
        for widget, controls in (found or {}).items()
        for label, figures in controls.items()
        if figures["late"] > GOAL
    ]
    if slow:
        sys.exit(f"slower than {GOAL} ms in more than 5 % of the moves: {'; '.join(slow)}")


if __name__ == "__main__":
    main()

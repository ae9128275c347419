"""A page on which the laboratories' scripts can be called, and the settings that the tests use."""

import base64
import json
from typing import Any

from playwright.sync_api import Browser, Page

from engine.text import FOLDER, kernels
from widgets import joiner

SMALL: dict[str, dict[str, Any]] = {  # each task with settings that train in a moment
    "senses": {"attention": "chosen", "unsure": True, "filled": False, "updates": 300}
    | {"n_heads": 2, "d_model": 14, "lr": 0.005},
    "senses_masked": {"causal": True, "n_heads": 2, "d_model": 14, "lr": 0.005},
    "senses_ordered": {"wanted": "roles", "positions": "learned", "causal": False}
    | {"n_heads": 2, "d_model": 14, "lr": 0.005},
    "order": {"positions": "none", "causal": False, "n_layers": 1, "n_heads": 2, "d_model": 14}
    | {"lr": 0.003},
    "neighbours": {"n_heads": 3, "d_model": 13, "d_k": 5, "lr": 0.01},
    "future": {"causal": True, "n_layers": 1, "n_heads": 2, "d_model": 14, "lr": 0.01},
    "depth": {"norm": "post", "n_layers": 3, "warmup": 2, "n_heads": 2, "d_model": 14, "lr": 0.01},
    "longer": {"positions": "rotary", "n_layers": 1, "n_heads": 2, "d_model": 12, "lr": 0.01},
    "numbers": {"longest": 3, "n_layers": 1, "n_heads": 2, "d_model": 14, "lr": 0.003},
    "copying": {"attention": True, "state": 8, "longest": 3},
    "parts": {"cross_attention": True, "causal_mask": False, "residual": True, "positions": True}
    | {"encoder_self_attention": True, "decoder_self_attention": True, "feed_forward": True}
    | {"heads": True, "root": True, "norms": True, "relu": True},
}
HELPERS = """
  const [tasks, trainer] = [$tasks, $trainer];
  const { makeEngine } = $tensors;
  const { makeRandom } = $random;
  const plainly = (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
  const answer = async (value) => JSON.stringify(await value, plainly);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const start = async (task, settings, seed = 0, plain = false) => trainer.makeRun({
    engine: await makeEngine({ wasm: plain ? null : bytes(WASM) }), task, settings, seed });
  // A model that knows what is wanted (or, with `shift`, always says another class), and the batch
  // on which a task tests a model.
  const oracle = (work, shift = 0) => {
    const { design } = work;
    const classes = design.classes ?? design.target_vocab ?? design.source_vocab;
    const seen = [];
    const read = (batch) => {
      seen.push(batch);
      const targets = batch.targets ?? batch.target_out;
      const logits = new Float32Array(targets.length * classes);
      targets.forEach((target, row) => {
        if (target >= 0) logits[row * classes + ((target + shift) % classes)] = 1;
      });
      return { logits, maps: [] };
    };
    return { read, seen };
  };
"""


class LaboratoryPage:
    """Runs expressions of JavaScript among the scripts of the laboratories."""

    def __init__(self, browser: Browser):
        self.page: Page = browser.new_page()
        self.page.goto("about:blank")
        text = joiner.join(FOLDER / "trainer.js", FOLDER / "writing.js")
        wasm = f'const WASM = "{base64.b64encode(kernels()).decode()}";'
        self.page.add_script_tag(content=text + wasm + HELPERS)

    def run(self, body: str, **given: Any) -> Any:
        """What a function of these arguments returns; its arrays of numbers come as lists."""
        names = ", ".join(given)
        function = f"async ({{ {names} }}) => answer((async () => {{ {body} }})())"
        return json.loads(self.page.evaluate(function, given))

    def refusal(self, body: str, **given: Any) -> dict[str, Any]:
        """The error that a function throws: its name, message and step."""
        caught = "({ name: error.name, message: error.message, step: error.step ?? null })"
        body = f"try {{ {body} }} catch (error) {{ return {caught}; }} return null;"
        found = self.run(body, **given)
        assert found is not None, "expected an error"
        return found

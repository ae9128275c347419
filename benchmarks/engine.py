"""How long the page's engine takes for a step of training, beside torch in the same run.

    python benchmarks/engine.py [--rounds 41]

Chromium runs the engine, on its kernels in WebAssembly and on the plain ones; torch runs in this
process, on one thread, the same model from the same parameters on the same batch. They take turns:
a round is some steps of each, and each ratio is the median over the rounds. "neighbours" is
chapter 5's model; the translator is the largest of the Transformers; "one vector" and "attention"
are the recurrent models of chapters 1 and 2, with the largest state of their laboratory; "language"
is chapter 14's language model on a batch of first names, with dropout. For "one vector" torch runs
its own nn.GRU, for "attention" the book's loop over time, for its attention reads each state before
the next one is there. A step is forward, backward and Adam. Written to results/engine.json.
"""

import base64
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

import torch
from playwright.sync_api import Page, sync_playwright
from torch import Tensor, nn

from engine.replay import PageDropout, Replay
from engine.texts import text_of
from lib.seq2seq import Seq2Seq
from measure.experiments import command_line
from measure.records import as_json, replace
from scripts import chromium
from tests.browser.fixtures import FLAGS
from tests.browser.test_engine import BYTES, ENGINE, engine_text

# Of torch's time
BARS = {"neighbours": 1.0, "translator": 2.0, "one vector": 1.0, "attention": 1.0}
BARS["language"] = 1.2
STEPS = {name: 20 if name == "neighbours" else 10 for name in BARS}  # in a turn
OPTIONS = {"steps": 10**6, "lr": 1e-3, "schedule": "constant", "warmup": 0, "clip": 1.0}
NEIGHBOURS = {
    "kind": "reader",
    "vocab": 10,
    "classes": 10,
    "outputs": 2,
    "d_model": 32,
    "n_heads": 4,
    "d_k": 8,
    "positions": "learned",
    "length": 12,
}
TRANSLATOR = {
    "kind": "translator",
    "source_vocab": 14,
    "target_vocab": 36,
    "d_model": 64,
    "n_heads": 4,
    "d_ff": 128,
    "n_layers": 2,
    "norm": "pre",
    "positions": "sinusoidal",
    "activation": "relu",
    "tied": True,
    "max_length": 32,
}
RECURRENT = {
    "kind": "recurrent",
    "source_vocab": 13,
    "target_vocab": 13,
    "d_embed": 16,
    "d_hidden": 32,
}
LANGUAGE = {
    "kind": "one_stack",
    "source_vocab": 53,
    "d_model": 48,
    "n_heads": 4,
    "d_ff": 192,
    "n_layers": 2,
    "norm": "pre",
    "positions": "learned",
    "activation": "relu",
    "tied": False,
    "causal": True,
    "max_length": 64,
    "dropout": 0.1,
}
MAKE = """async ([name, wasm, design, options, batch]) => {
  const engine = await makeEngine({ wasm: bytesOf(wasm) });
  const model = makeModel(engine, design, makeRandom(7));
  const adam = makeAdam(model.parameters, options);
  for (const key of Object.keys(batch)) {
    if (Array.isArray(batch[key])) batch[key] = Int32Array.from(batch[key]);
  }
  let n = 0;
  (window.turns ??= {})[name] = (steps) => {
    const before = performance.now();
    for (let i = 0; i < steps; i += 1, n += 1) { model.learn(batch); adam.step(n); }
    return (performance.now() - before) / steps;
  };
  return { path: engine.path, parameters: model.parameters.map((p) => (
    { name: p.name, shape: p.shape, data: Array.from(p.data) })) };
}"""


def neighbours_batch(draw: random.Random, rows: int = 64, time: int = 12) -> dict:
    digits = [[draw.randrange(10) for _ in range(time)] for _ in range(rows)]
    wanted = [d for row in digits for i in range(time) for d in (row[i - 1], row[(i + 1) % time])]
    tokens = [digit for row in digits for digit in row]
    return {"tokens": tokens, "rows": rows, "time": time, "targets": wanted}


def translator_batch(draw: random.Random, rows: int = 32, time: int = 12) -> dict:
    source = [draw.randrange(14) for _ in range(rows * time)]
    target = [draw.randrange(36) for _ in range(rows * time)]
    lengths = [draw.randint(time // 2, time) for _ in range(rows)]
    return {
        "source": source,
        "source_lengths": lengths,
        "rows": rows,
        "source_time": time,
        "target_time": time,
        "target_in": target,
        "target_out": target[1:] + target[:1],
    }


def copying_batch(draw: random.Random, rows: int = 32, longest: int = 12) -> dict:
    """Lists of two digits and more, each with its end, to be copied."""
    lists = [
        [draw.randrange(3, 13) for _ in range(draw.randint(2, longest))] for _ in range(rows - 1)
    ]
    lists.append([draw.randrange(3, 13) for _ in range(longest)])
    behind = [longest - len(digits) for digits in lists]

    def padded(begin: list[int], end: list[int], filler: int) -> list[int]:
        return [
            token
            for digits, more in zip(lists, behind, strict=True)
            for token in begin + digits + end + [filler] * more
        ]

    return {
        "source": padded([], [2], 0),
        "source_lengths": [len(digits) + 1 for digits in lists],
        "rows": rows,
        "source_time": longest + 1,
        "target_time": longest + 1,
        "target_in": padded([1], [], 0),
        "target_out": padded([], [2], -1),
    }


def names_batch(draw: random.Random, rows: int = 32) -> dict:
    """First names, each read one token later than it is asked for."""
    text = text_of("names")
    numbers = {character: n for n, character in enumerate(sorted(set(text)))}  # 0: a line's end
    names = draw.sample(text.split(), rows)
    longest = max(map(len, names)) + 1
    read = [[0, *map(numbers.__getitem__, name)] for name in names]
    return {
        "tokens": [t for row in read for t in row + [0] * (longest - len(row))],
        "targets": [t for row in read for t in row[1:] + [0] + [-1] * (longest - len(row))],
        "rows": rows,
        "time": longest,
        "noise": 7,
    }


class WithTorchsGRU(nn.Module):
    """A `Seq2Seq` whose two loops are torch's own nn.GRU, with the same parameters."""

    def __init__(self, model: Seq2Seq):
        super().__init__()
        encoder, decoder = model.encoder, model.decoder
        d_embed, d_hidden = encoder.cell.input_map.in_features, encoder.d_hidden
        self.read = nn.GRU(d_embed, d_hidden, batch_first=True)
        self.write = nn.GRU(d_embed + d_hidden, d_hidden, batch_first=True)
        self.source, self.target = encoder.embedding, decoder.embedding
        self.output = decoder.output
        both = torch.cat([decoder.cell.input_map.weight, decoder.context_map.weight], dim=1)
        for gru, cell, into in (
            (self.read, encoder.cell, encoder.cell.input_map.weight),
            (self.write, decoder.cell, both),
        ):
            gru.weight_ih_l0.data = into.data.clone()
            gru.bias_ih_l0.data = cell.input_map.bias.data
            gru.weight_hh_l0.data = cell.hidden_map.weight.data
            gru.bias_hh_l0.data = cell.hidden_map.bias.data

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        states, _ = self.read(self.source(source))
        last = states[torch.arange(len(source)), source_lengths - 1]
        context = last.unsqueeze(1).expand(-1, target_in.shape[1], -1)
        read = torch.cat([self.target(target_in), context], dim=-1)
        return self.output(self.write(read, last.unsqueeze(0))[0])


def fastest(replay: Replay, batch: dict) -> Replay:
    """With torch's nn.GRU where that can take the same steps, which is tried; and with its dropout,
    which draws faster than ours in torch, and drops other entries.
    """
    if replay.dropouts:
        for module in list(replay.model.modules()):
            for name, child in module.named_children():
                if isinstance(child, PageDropout):
                    setattr(module, name, nn.Dropout(child.rate))
        replay.model.train()
        replay.dropouts = []
    if type(replay.model) is not Seq2Seq:
        return replay
    wanted = replay.learn(batch)
    replay.model = WithTorchsGRU(replay.model)
    replay.optimizer = torch.optim.Adam(replay.model.parameters(), lr=replay.lr, fused=True)
    if abs(replay.learn(batch) - wanted) > 1e-5:
        raise SystemExit(f"expected a loss of {wanted} with nn.GRU, got {replay.learn(batch)}")
    return replay


def torch_turn(replay: Replay, batch: dict, steps: int) -> float:
    before = time.perf_counter()
    for n in range(steps):
        replay.learn(batch)
        replay.step(n)
    return 1000 * (time.perf_counter() - before) / steps


def ratio(times: list[float], others: list[float]) -> float:
    """Of the times of a round to each other, the median over the rounds."""
    return round(statistics.median(a / b for a, b in zip(times, others, strict=True)), 2)


def measure(page: Page, name: str, design: dict, batch: dict, rounds: int) -> dict:
    wasm = base64.b64encode((ENGINE / "kernels.wasm").read_bytes()).decode()
    made = {}
    for path, given in (("wasm", wasm), ("plain", None)):
        made = page.evaluate(MAKE, [path, given, design, OPTIONS, batch])
        if made["path"] != path:
            raise SystemExit(f"expected the path {path}, got {made['path']}")
    replay = Replay(design, OPTIONS, made["parameters"])
    tensors = {k: torch.tensor(v) if isinstance(v, list) else v for k, v in batch.items()}
    replay = fastest(replay, tensors)
    turns = {
        "wasm": lambda: page.evaluate("(n) => turns.wasm(n)", STEPS[name]),
        "torch": lambda: torch_turn(replay, tensors, STEPS[name]),
        "plain": lambda: page.evaluate("(n) => turns.plain(n)", STEPS[name]),
    }
    for turn in turns.values():  # the browser compiles, torch allocates
        turn()
    found: dict[str, list[float]] = {path: [] for path in turns}
    for _ in range(rounds):
        for path, turn in turns.items():
            found[path].append(turn())
    return {
        "parameters": sum(p.numel() for p in replay.model.parameters()),
        "milliseconds": {p: round(statistics.median(times), 2) for p, times in found.items()},
        "of_torch": {path: ratio(found[path], found["torch"]) for path in ("wasm", "plain")},
        "plain_of_wasm": ratio(found["plain"], found["wasm"]),
    }


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, arguments=arguments, rounds=41)
    rounds = given.options.rounds
    torch.set_num_threads(1)
    draw = random.Random(0)
    models = {
        "neighbours": (NEIGHBOURS, neighbours_batch(draw)),
        "translator": (TRANSLATOR, translator_batch(draw)),
        "one vector": (RECURRENT | {"attention": False}, copying_batch(draw)),
        "attention": (RECURRENT | {"attention": True, "d_scorer": 32}, copying_batch(draw)),
        "language": (LANGUAGE, names_batch(draw)),
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.executable(), args=FLAGS)
        page = browser.new_page()
        page.goto("about:blank")
        page.evaluate(f"() => {{ {engine_text()} }}")
        page.evaluate(f"() => {{ window.bytesOf = {BYTES}; }}")
        rows = {name: measure(page, name, *given, rounds) for name, given in models.items()}
        browser.close()
    replace(given.path, as_json(rows, indent=2))
    missed = [name for name, row in rows.items() if row["of_torch"]["wasm"] > BARS[name]]
    if missed:
        sys.exit(f"slower than the bar allows: {', '.join(missed)}")


if __name__ == "__main__":
    main()

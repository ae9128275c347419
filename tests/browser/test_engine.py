"""The page's engine against torch, in a real browser, with WebAssembly and without it."""

import base64
import random
from itertools import product

import pytest
import torch

from kit.shared.replay import Replay
from tests.paths import BOOK

pytestmark = pytest.mark.browser
ENGINE = BOOK / "kit" / "shared" / "engine"
SCRIPTS = ["random", "plain", "tensors", "layers", "model", "optimiser"]
NAMES = "makeRandom, makeEngine, makeModel, makeAdam"
STEPS = 50
CLOSE = 1e-4
SEEDS = (7, 8, 9)
ROWS, TIME, SOURCE_TIME, TARGET_TIME = 3, 5, 7, 11
TRAIN = """async ([wasm, design, options, batches, seed]) => {
  const bytes = wasm && Uint8Array.from(atob(wasm), (c) => c.charCodeAt(0)).buffer;
  const engine = await makeEngine({ wasm: bytes });
  const model = makeModel(engine, design, makeRandom(seed));
  const copy = (of) => model.parameters.map((p) => (
    { name: p.name, shape: p.shape, data: Array.from(p[of]) }));
  const first = copy("data");
  const adam = makeAdam(model.parameters, options);
  const losses = [];
  let gradients = null;
  batches.forEach((batch, n) => {
    losses.push(model.learn(batch).loss);
    gradients ??= copy("grad");
    adam.step(n);
  });
  const { logits, maps } = model.read(batches[0], { maps: true });
  return { path: engine.path, count: model.count, first, losses, gradients, last: copy("data"),
    logits: Array.from(logits), maps: maps.map((m) => ({ ...m, data: Array.from(m.data) })) };
}"""


def engine_text() -> str:
    paths = [BOOK / "kit" / "shared" / "math.js", *(ENGINE / f"{name}.js" for name in SCRIPTS)]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


def readers():
    for n, (n_heads, positions) in enumerate(product((1, 2, 4), ("none", "learned"))):
        sizes = {"vocab": 13, "classes": 5, "outputs": 2, "d_model": 7, "length": TIME}
        yield {"kind": "reader", "n_heads": n_heads, "d_k": (2, 3, 5)[n % 3], **sizes} | {
            "positions": positions
        }


def stacks(kind: str, switch: str):
    """Each scheme, each norm, and a switch on and off; heads and what else there is take turns."""
    schemes = ("none", "sinusoidal", "learned", "rotary", "alibi")
    for n, (positions, norm, on) in enumerate(product(schemes, ("pre", "post"), (True, False))):
        n_heads = (1, 2, 4)[n % 3]
        d_k = {1: 10, 2: 6, 4: 2} if positions == "rotary" else {1: 11, 2: 7, 4: 5}
        sizes = {"d_model": n_heads * d_k[n_heads], "d_ff": 23}
        other = "tied" if switch == "causal" else "shared"
        design = {"kind": kind, "source_vocab": 13, "n_heads": n_heads, "n_layers": 1 + (n % 5 == 0), **sizes}
        design |= {"norm": norm, "positions": positions, "activation": "relu", "max_length": 19}
        design |= {switch: on, other: n % 3 > 0}
        shared = design.pop("shared", False)
        yield design | ({"target_vocab": None if shared else 17} if kind == "translator" else {})


DESIGNS = [*readers(), *stacks("one_stack", "causal"), *stacks("translator", "tied")]
OPTIONS = [
    {"steps": STEPS, "lr": 1e-3, "schedule": "cosine", "warmup": 7, "clip": 0.5},
    {"steps": STEPS, "lr": 1e-3, "schedule": "linear", "warmup": 0, "clip": None},
    {"steps": STEPS, "lr": 1e-3, "schedule": "constant", "warmup": 3, "clip": 1.0},
]


def name_of(design: dict) -> str:
    return " ".join(f"{v}" if isinstance(v, str) else f"{k}={v}" for k, v in design.items())


def batch_of(design: dict, draw: random.Random) -> dict:
    def tokens(n: int, vocab: int) -> list[int]:
        return [draw.randrange(vocab) for _ in range(n)]

    if design["kind"] == "reader":
        given = {"tokens": tokens(ROWS * TIME, 13), "rows": ROWS, "time": TIME}
        return given | {"targets": tokens(ROWS * TIME * 2, 5)}
    if design["kind"] == "one_stack":
        given = {"tokens": tokens(ROWS * TIME, 13), "rows": ROWS, "time": TIME}
        return given | {"targets": [t - 1 for t in tokens(ROWS * TIME, 14)]}  # some are -1
    lengths = [draw.randint(1, SOURCE_TIME) for _ in range(ROWS)]
    ends = [draw.randint(1, TARGET_TIME) for _ in range(ROWS)]
    vocab = design["target_vocab"] or 13
    written = [tokens(end, vocab) + [-1] * (TARGET_TIME - end) for end in ends]
    return {
        "source": [t for n in lengths for t in tokens(n, 13) + [0] * (SOURCE_TIME - n)],
        "source_lengths": lengths,
        "rows": ROWS,
        "source_time": SOURCE_TIME,
        "target_time": TARGET_TIME,
        "target_in": [max(t, 0) for row in written for t in [1, *row[:-1]]],
        "target_out": [t for row in written for t in row],
    }


@pytest.fixture(scope="module")
def train(browser):
    """Trains in the page: (wasm or None, design, options, batches, seed) -> what it did."""
    page = browser.new_page()
    page.goto("about:blank")
    page.evaluate(f"() => {{ {engine_text()}; Object.assign(window, {{ {NAMES} }}); }}")
    yield lambda *given: page.evaluate(TRAIN, list(given))
    page.close()


@pytest.fixture(scope="module")
def wasm() -> str:
    return base64.b64encode((ENGINE / "kernels.wasm").read_bytes()).decode()


def apart(got: dict, expected: dict[str, torch.Tensor], least: float) -> dict[str, float]:
    """How far each tensor is from torch's, in units of its largest entry or of `least`."""
    found = {}
    for name, wanted in expected.items():
        data = torch.tensor(got[name]["data"]).view(got[name]["shape"])
        assert data.shape == wanted.shape
        scale = max(wanted.abs().max().item(), least)
        found[name] = (data - wanted).abs().max().item() / scale
    return found


def by_name(parameters: list[dict]) -> dict[str, dict]:
    return {parameter["name"]: parameter for parameter in parameters}


@pytest.mark.parametrize("number", range(len(DESIGNS)), ids=lambda n: name_of(DESIGNS[n]))
def test_a_run_is_torchs(train, wasm, one_thread, number):
    """Loss, maps, every gradient, and the parameters after 50 steps of Adam, on both paths.

    ReLU has a kink: where rounding moves a unit across it, or Adam makes whole steps of a gradient
    that is rounding alone, two right runs part. Such a run is taken again, from another seed.
    """
    ends: list[dict[str, float]] = []
    for seed in SEEDS:
        ends.append(run_beside_torch(train, wasm, number, seed))
        if max(ends[-1].values()) < CLOSE:
            return
    pytest.fail(f"expected one run of {len(SEEDS)} within {CLOSE} of torch's, got {ends}")


def run_beside_torch(train, wasm: str, number: int, seed: int) -> dict[str, float]:
    """Compare the first step; return how far the losses and the last parameters are from torch's."""
    design, options = DESIGNS[number], OPTIONS[number % len(OPTIONS)]
    draw = random.Random(seed)
    batches = [batch_of(design, draw) for _ in range(STEPS)]
    runs = [train(given, design, options, batches, seed) for given in (wasm, None)]
    assert [run["path"] for run in runs] == ["wasm", "plain"]
    assert runs[0]["first"] == runs[1]["first"]
    replay = Replay(design, options, runs[0]["first"])
    parameters = dict(replay.model.named_parameters())
    loss = replay.learn(batches[0])
    gradients = {name: p.grad.clone() for name, p in parameters.items()}
    largest = max(gradient.abs().max().item() for gradient in gradients.values())
    losses = torch.tensor(replay.run(batches))
    # A tensor that no loss depends on, such as a bias of the keys, has rounding for a gradient.
    felt = {n: p for n, p in parameters.items() if gradients[n].abs().max() > 1e-6 * largest}
    ends: dict[str, float] = {}
    for run in runs:
        assert run["count"] == sum(p.numel() for p in parameters.values())
        assert run["losses"][0] == pytest.approx(loss, rel=1e-5)
        worst = apart(by_name(run["gradients"]), gradients, least=1e-3 * largest)
        assert max(worst.values()) < CLOSE, worst
        torch.testing.assert_close(
            torch.tensor(run["logits"]), replay.logits(batches[0]).flatten(), rtol=1e-3, atol=1e-3
        )
        assert_maps(run["maps"], replay, batches[0])
        steps = ((torch.tensor(run["losses"]) - losses) / losses).abs().max().item()
        found = {"the losses": steps} | apart(by_name(run["last"]), felt, least=0.1)
        ends |= {f"{run['path']}, {name}": far for name, far in found.items()}
    return ends


def assert_maps(got: list[dict], replay: Replay, batch: dict) -> None:
    expected = replay.maps(batch)
    assert [m["name"] for m in got] == list(expected)
    for found, wanted in zip(got, expected.values(), strict=True):
        shape = (ROWS, found["heads"], found["queries"], found["keys"])
        assert shape == wanted.shape
        torch.testing.assert_close(
            torch.tensor(found["data"]).view(shape), wanted, rtol=1e-3, atol=1e-3
        )

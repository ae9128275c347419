"""The page's engine against torch, in a real browser, with WebAssembly and without it."""

import base64
import math
import random
from itertools import product

import pytest
import torch

from engine.replay import SCHEDULES, Replay, make_model
from tests.gate import some
from tests.paths import BOOK
from widgets import joiner

pytestmark = pytest.mark.browser
ENGINE = BOOK / "engine"
SCRIPTS = ["random", "tensors", "model", "optimiser"]
STEPS = 50
CLOSE = 1e-4
SEEDS = (7, 8, 9)
ROWS, TIME, SOURCE_TIME, TARGET_TIME = 3, 5, 7, 11
BYTES = "(text) => text && Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer"
TRAIN = """async ([wasm, design, options, batches, seed]) => {
  const engine = await makeEngine({ wasm: bytesOf(wasm) });
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
    """The engine, and statements that give the page what its scripts export."""
    given = "".join(f"Object.assign(window, ${name});\n" for name in SCRIPTS)
    return joiner.join(*(ENGINE / f"{name}.js" for name in SCRIPTS)) + given


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
        design = {
            "kind": kind,
            "source_vocab": 13,
            "n_heads": n_heads,
            "n_layers": 1 + (n % 5 == 0),
            **sizes,
        }
        design |= {"norm": norm, "positions": positions, "activation": "relu", "max_length": 19}
        design |= {switch: on, other: n % 3 > 0}
        shared = design.pop("shared", False)
        yield design | ({"target_vocab": None if shared else 17} if kind == "translator" else {})


def language_models():
    """Stacks under a causal mask with dropout, the rates one that floats hold and some others."""
    schemes = ("sinusoidal", "learned", "rotary", "alibi")
    for n, (norm, rate) in enumerate(product(("pre", "post"), (0.1, 0.25, 0.7))):
        sizes = {"source_vocab": 13, "n_heads": 2, "d_model": 12, "d_ff": 23, "n_layers": 1 + n % 2}
        design = {"kind": "one_stack", **sizes, "norm": norm, "positions": schemes[n % 4]}
        design |= {"activation": "relu", "max_length": 19, "causal": True, "tied": n % 3 == 0}
        yield design | {"dropout": rate}


def padded():
    """Stacks for sentences of different lengths; one whose weights are equal, and stay it."""
    sizes = {"source_vocab": 13, "n_layers": 1, "d_ff": 23, "activation": "relu", "tied": False}
    for equal, (n_heads, d_model), causal in product(
        (False, True), ((1, 11), (2, 14)), (False, True)
    ):
        design = {"kind": "one_stack", **sizes, "n_heads": n_heads, "d_model": d_model}
        design |= {"norm": "pre", "positions": "none", "causal": causal}
        yield design | {"equal_weights": equal, "padded": True}
    for scheme, causal in product(("learned", "sinusoidal", "rotary", "alibi"), (False, True)):
        design = {"kind": "one_stack", **sizes, "n_heads": 2, "d_model": 12, "norm": "pre"}
        yield design | {"positions": scheme, "causal": causal, "max_length": 19, "padded": True}


PARTS = (
    "cross_attention",
    "causal_mask",
    "residual",
    "positions",
    "encoder_self_attention",
    "decoder_self_attention",
    "feed_forward",
    "heads",
    "root",
    "norms",
    "relu",
)
PAIRS = (  # parts of which one changes what the other leaves
    ("residual", "norms"),
    ("residual", "cross_attention"),
    ("causal_mask", "relu"),
    ("norms", "encoder_self_attention", "relu"),
    ("feed_forward", "relu", "positions"),
    ("cross_attention", "decoder_self_attention", "encoder_self_attention"),
)


def without():
    """A small Transformer without each of its parts, and without several; pre-norm too."""
    sizes = {"source_vocab": 13, "target_vocab": 17, "n_layers": 1, "d_model": 12, "d_ff": 23}
    taken = [(), *((part,) for part in PARTS), *PAIRS]
    for parts, norm in [*product(taken, ("post",)), *product(PAIRS[:4], ("pre",))]:
        design = {"kind": "translator", **sizes, "norm": norm, "activation": "relu", "tied": False}
        yield design | {
            "n_heads": 1 if "heads" in parts else 4,
            "positions": "none" if "positions" in parts else "sinusoidal",
            "without": list(parts),
        }


def recurrent():
    """The models of chapters 1 and 2, with sizes that no two of them share, and of one number."""
    for sizes, attention in product(((3, 5, 7), (7, 11, 2), (1, 1, 1)), (False, True)):
        d_embed, d_hidden, d_scorer = sizes
        design = {"kind": "recurrent", "source_vocab": 13, "target_vocab": 17, "d_embed": d_embed}
        design |= {"d_hidden": d_hidden, "attention": attention}
        yield design | ({"d_scorer": d_scorer} if attention else {})


DESIGNS = [
    *readers(),
    *stacks("one_stack", "causal"),
    *stacks("translator", "tied"),
    *padded(),
    *language_models(),
    *without(),
    *recurrent(),
]
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
        if design.get("padded"):
            given["lengths"] = [TIME, *(draw.randint(1, TIME) for _ in range(ROWS - 1))]
        if "dropout" in design:
            given["noise"] = draw.randrange(2**32)
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
def run(browser):
    """Runs a function of one argument in a page that has the engine."""
    page = browser.new_page()
    page.goto("about:blank")
    page.evaluate(f"() => {{ {engine_text()} }}")
    page.evaluate(f"() => {{ window.bytesOf = {BYTES}; }}")
    yield page.evaluate
    page.close()


@pytest.fixture(scope="module")
def train(run):
    """Trains in the page: (wasm or None, design, options, batches, seed) -> what it did."""
    return lambda *given: run(TRAIN, list(given))


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


@pytest.mark.parametrize("number", some(range(len(DESIGNS)), 4), ids=lambda n: name_of(DESIGNS[n]))
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
    """Compare a first step; return how far all losses and the last parameters are from torch's."""
    design, options = DESIGNS[number], OPTIONS[number % len(OPTIONS)]
    draw = random.Random(seed)
    batches = [batch_of(design, draw) for _ in range(STEPS)]
    runs = [train(given, design, options, batches, seed) for given in (wasm, None)]
    assert [run["path"] for run in runs] == ["wasm", "plain"]
    assert runs[0]["first"] == runs[1]["first"]
    replay = Replay(design, options, runs[0]["first"])
    parameters = dict(replay.model.named_parameters())
    loss = replay.learn(batches[0])
    # Where nothing reads the encoder, torch gives its parameters no gradient.
    gradients = {
        n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in parameters.items()
    }
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


# --- parts --------------------------------------------------------------------------------------

PATHS = ["wasm", "plain"]
READER, STACK = DESIGNS[1], DESIGNS[6]
TOKENS = {"rows": 2, "time": 3, "tokens": [1, 2, 3, 4, 5, 6]}
ADAM = """async ([wasm, options, first, gradients]) => {
  const engine = await makeEngine({ wasm: bytesOf(wasm) });
  const x = engine.parameter("x", [first.length], () => 0);
  engine.keepParameters([x]);
  x.data.set(first);
  const adam = makeAdam([x], options);
  const steps = gradients.map((gradient, n) => { x.grad.set(gradient); return adam.step(n); });
  return { x: Array.from(x.data), steps };
}"""
REFUSED = """async ([wasm, design, options, batch]) => {
  try {
    const model = makeModel(await makeEngine({ wasm: bytesOf(wasm) }), design, makeRandom(1));
    makeAdam(model.parameters, options);
    model.learn(batch);
    return "nothing";
  } catch (error) { return error.message; }
}"""


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "options", [{"clip": 0.5}, {"clip": None}, {"betas": [0.8, 0.98], "eps": 1e-5}]
)
def test_adam_is_torchs(run, wasm, path, options):
    """From given gradients, large and small, with torch's own eps unless another is given."""
    options = {"steps": 41, "lr": 1e-2, "schedule": "constant", "warmup": 0} | options
    generator = torch.Generator().manual_seed(3)
    first = torch.randn(101, generator=generator)
    sizes = 10 ** torch.linspace(-9, 1, 101)
    gradients = torch.randn(41, 101, generator=generator) * sizes
    x = torch.nn.Parameter(first.clone())
    betas, eps = options.get("betas", (0.9, 0.999)), options.get("eps", 1e-8)
    adam = torch.optim.Adam([x], lr=1e-2, betas=tuple(betas), eps=eps)
    norms = []
    for gradient in gradients:
        x.grad = gradient.clone()
        clip = options.get("clip")
        norms.append(torch.nn.utils.clip_grad_norm_([x], clip or torch.inf).item())
        adam.step()
    given = wasm if path == "wasm" else None
    got = run(ADAM, [given, options, first.tolist(), gradients.tolist()])
    torch.testing.assert_close(torch.tensor(got["x"]), x.detach(), rtol=1e-5, atol=1e-6)
    assert [step["norm"] for step in got["steps"]] == pytest.approx(norms, rel=1e-5)
    assert {step["lr"] for step in got["steps"]} == {1e-2}


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_the_schedules_are_those_of_replay(run, schedule):
    options = {"steps": 23, "lr": 1.0, "schedule": schedule, "warmup": 5}
    got = run(ADAM, [None, options, [1.0], [[1.0]] * 23])
    factor = SCHEDULES[schedule](23, 5)
    assert [s["lr"] for s in got["steps"]] == pytest.approx([factor(n) for n in range(23)])


@pytest.mark.parametrize("path", PATHS)
def test_the_same_seed_gives_the_same_run(run, train, wasm, path):
    given = wasm if path == "wasm" else None
    batches = [batch_of(STACK, random.Random(1)) for _ in range(5)]
    first, again = (train(given, STACK, OPTIONS[0], batches, 5) for _ in range(2))
    assert first == again
    assert train(given, STACK, OPTIONS[0], batches, 6)["last"] != first["last"]


def test_memory_grows_and_parameters_stay(run, wasm):
    """A batch beyond the first room: the buffer is another one, the numbers are the same."""
    got = run(
        """async ([wasm, design]) => {
          const found = [];
          for (const given of [bytesOf(wasm), null]) {
            const engine = await makeEngine({ wasm: given });
            const model = makeModel(engine, design, makeRandom(1));
            const [before, room] = [model.save(), engine.memory.floats.length];
            const tokens = new Int32Array(5 * 5000).map((_, i) => i % 13);
            const small = { tokens: tokens.slice(0, 15), rows: 3, time: 5 };
            const { logits } = model.read(small);
            const targets = new Int32Array(tokens.length * 2).map((_, i) => i % 5);
            const { loss } = model.learn({ tokens, rows: 5000, time: 5, targets });
            const same = (a, b) => a.every((x, i) => x === b[i]);
            const grown = engine.memory.floats.length > room;
            const kept = same(before, model.save()) && same(logits, model.read(small).logits);
            model.load(before.map((x) => 2 * x));
            const loaded = model.parameters[0].data[3] === 2 * before[3];
            found.push({ grown, kept, loaded, loss });
          }
          return found;
        }""",
        [wasm, READER],
    )
    for one in got:
        assert one["grown"]
        assert one["kept"]
        assert one["loaded"]
    assert got[0]["loss"] == pytest.approx(got[1]["loss"], rel=1e-5)


def test_bytes_that_are_no_module_give_the_plain_path(run):
    assert run("async () => (await makeEngine({ wasm: new ArrayBuffer(8) })).path") == "plain"
    assert run("async () => (await makeEngine()).path") == "plain"


@pytest.mark.parametrize("path", PATHS)
def test_a_source_of_padding_alone_is_torchs(train, wasm, path):
    design = [design for design in DESIGNS if design["kind"] == "translator"][-1]
    batch = batch_of(design, random.Random(2)) | {"source_lengths": [0, 7, 3]}
    got = train(wasm if path == "wasm" else None, design, OPTIONS[1], [batch] * 2, 5)
    replay = Replay(design, OPTIONS[1], got["first"])
    assert got["losses"] == pytest.approx(replay.run([batch] * 2), rel=1e-5)
    cross = {m["name"]: m["data"] for m in got["maps"]}["decoder.layers.0.cross_attention"]
    assert not any(cross[: len(cross) // ROWS])


@pytest.mark.parametrize("path", PATHS)
def test_a_rate_too_high_gives_large_losses_or_nan_and_no_error(train, wasm, path):
    batches = [batch_of(READER, random.Random(n)) for n in range(5)]
    given = wasm if path == "wasm" else None
    options = {"steps": 5, "lr": 1e3, "schedule": "constant"}
    got = train(given, READER, options, batches, 5)
    losses = got["losses"]
    expected = Replay(READER, options, got["first"]).run(batches)
    assert losses[1] > 100  # the right class has a probability that no float holds
    assert losses[1] == pytest.approx(expected[1], rel=1e-2)
    worse = options | {"lr": 1e30}
    assert any(not math.isfinite(x) for x in train(given, READER, worse, batches, 5)["losses"])


@pytest.mark.parametrize(
    ("design", "options", "batch", "message"),
    [
        (
            {"kind": "writer"},
            {},
            {},
            "expected a kind out of reader, one_stack, translator, recurrent",
        ),
        ({"d_k": 2.5}, {}, {}, "multiple of n_heads"),
        ({}, {"schedule": "step"}, {}, "expected a schedule out of constant, linear, cosine"),
        ({}, {"warmup": 50}, {}, "expected fewer steps of warm-up than 50, got 50"),
        ({}, {}, {"tokens": [1, 2, 3, 4, 5, 13]}, "expected tokens from 0 to 12, got 13"),
        ({}, {}, {"tokens": [1, 2, 3, 4, 5, -1]}, "expected tokens from 0 to 12, got -1"),
        ({}, {}, {"targets": [1]}, "expected 12 targets, got 1"),
        ({"length": 2}, {}, {}, "expected at most 2 positions, got 3"),
    ],
)
def test_what_is_wrong_is_named(run, wasm, design, options, batch, message):
    given = [READER | design, OPTIONS[0] | options, TOKENS | {"targets": [0] * 12} | batch]
    assert message in run(REFUSED, [wasm, *given])
    stack = STACK | {"positions": "rotary", "d_model": 7}
    assert "even d_k" in run(REFUSED, [None, stack, OPTIONS[0], TOKENS])
    sequences = {"source": [3, 2], "source_lengths": [3], "rows": 1, "source_time": 2}
    sequences |= {"target_in": [1], "target_time": 1, "target_out": [3]}
    assert "expected lengths from 1 to 2, got 3" in run(
        REFUSED, [wasm, DESIGNS[-1], OPTIONS[0], sequences]
    )
    stack = STACK | {"positions": "spiral"}
    assert "positions out of none, sinusoidal" in run(REFUSED, [None, stack, OPTIONS[0], TOKENS])


def test_random_numbers(run):
    got = run(
        """() => {
          const make = () => {
            const r = makeRandom(11);
            return { normal: Array.from({ length: 20001 }, r.normal),
              whole: Array.from({ length: 7000 }, () => r.integer(7)),
              mixed: r.shuffle([..."abcdefghijk"]), some: r.sample([..."abcdefghijk"], 5),
              uniform: r.uniform() };
          };
          return [make(), make(), makeRandom(12).normal()];
        }"""
    )
    first, again, other = got
    assert first == again
    assert other != first["normal"][0]
    normal = torch.tensor(first["normal"], dtype=torch.float64)
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.03
    assert abs((normal**4).mean() - 3) < 0.2
    assert abs(torch.corrcoef(normal[:20000].view(-1, 2).T)[0, 1]) < 0.03
    counts = torch.tensor(first["whole"]).bincount(minlength=7)
    assert len(counts) == 7
    assert (counts - 1000).abs().max() < 150
    assert sorted(first["mixed"]) == list("abcdefghijk") != first["mixed"]
    assert len(set(first["some"])) == 5
    assert 0 <= first["uniform"] < 1


def test_normal_numbers_need_no_logarithm_of_the_browsers(run):
    """Their logarithm is exact to a float64's rounding, so the method is the polar one."""
    assert run(
        "() => { const log = Math.log; Math.log = null; try { return makeRandom(3).normal(); }"
        " finally { Math.log = log; } }"
    ) == run("() => makeRandom(3).normal()")


@pytest.mark.parametrize("number", [0, 1, 6, 8, 26, 27, -6, -5])
def test_first_parameters_are_spread_as_the_librarys(train, number):
    """Each parameter's mean and spread, over some seeds of both."""
    design = DESIGNS[number]
    ours: dict[str, list[torch.Tensor]] = {}
    theirs: dict[str, list[torch.Tensor]] = {}
    torch.manual_seed(number)
    for seed in range(8):
        batches = [batch_of(design, random.Random(1))]
        for one in train(None, design, OPTIONS[0], batches, seed)["first"]:
            ours.setdefault(one["name"], []).append(torch.tensor(one["data"], dtype=torch.float32))
        for name, parameter in make_model(design).named_parameters():
            theirs.setdefault(name, []).append(parameter.detach().flatten())
    assert ours.keys() == theirs.keys()
    for name, numbers in ours.items():
        mine, other = torch.cat(numbers), torch.cat(theirs[name])
        assert len(mine) == len(other)
        spread, n = other.std(), len(other)
        assert abs(mine.mean() - other.mean()) <= 6 * spread / n**0.5, name
        assert abs(mine.std() - spread) <= 6 * spread / n**0.5, name

"""One run of a laboratory: fixed by its seed, repeated by torch, stopped where it diverges."""

from collections.abc import Iterator

import pytest

from engine.replay import Replay
from engine.text import worker_text
from tests.browser.laboratory_page import SMALL, LaboratoryPage

pytestmark = pytest.mark.browser
LOSSES = """const run = await start(task, settings, seed, plain);
  const losses = [];
  for (let n = 0; n < steps; n += 1) losses.push(run.step().loss);"""


@pytest.fixture(scope="module")
def page(browser) -> Iterator[LaboratoryPage]:
    page = LaboratoryPage(browser)
    yield page
    page.page.close()


def losses(page: LaboratoryPage, task: str, seed: int = 0, steps: int = 3, **more) -> list[float]:
    given = {"task": task, "settings": SMALL[task], "seed": seed, "steps": steps, "plain": False}
    return page.run(LOSSES + "return losses;", **given | more)


@pytest.mark.parametrize("task", SMALL)
def test_the_same_seed_gives_the_same_run(page, task):
    first = losses(page, task)
    assert losses(page, task) == first
    others = [losses(page, task, seed=seed) for seed in (1, 2, 2**32 - 1)]
    assert len({tuple(run) for run in [first, *others]}) == 4


@pytest.mark.parametrize("plain", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("task", SMALL)
def test_torch_takes_the_same_steps(page, one_thread, task, plain):
    body = (
        LOSSES
        + """const { design, options, parameters, batch } = run.record();
      const batches = Array.from({ length: steps }, (_, n) => batch(n));
      return { losses, count: run.parameters, design, options, parameters, batches };"""
    )
    found = page.run(
        body, task=task, settings=SMALL[task], seed=5, steps=7, plain=plain
    )  # the record is taken after the steps: it must hold the parameters from before them
    replay = Replay(found["design"], found["options"], found["parameters"])
    assert replay.run(found["batches"]) == pytest.approx(found["losses"], rel=1e-4)
    assert sum(p.numel() for p in replay.model.parameters()) == found["count"]


TEXTS = {
    "senses": ("the bat near my ball", ["the", "bat", "near", "my", "ball"]),
    "order": ("dog bites dog", ["dog", "bites", "dog"]),
    "neighbours": ("314159265358", list("314159265358")),
    "future": ("the small dogs", [".", "the", "small", "dogs"]),
    "depth": ("31415926", list("31415926")),
    "numbers": ("342", ["3", "4", "2", "<eos>"]),
    "parts": ("342", ["3", "4", "2", "<eos>"]),
}


@pytest.mark.parametrize("task", SMALL)
def test_maps_are_of_the_readers_own_text_where_it_fits(page, task):
    text, labels = TEXTS.get(task, ("anything", None))
    body = """const run = await start(task, settings);
      return [run.probe(text), run.probe("%"), run.probe(), run.ask(text)];"""
    own, unfit, plain, answer = page.run(body, task=task, settings=SMALL[task], text=text)
    assert (unfit["own"], plain["own"]) == (False, False)
    assert unfit["maps"] == plain["maps"]
    assert own["own"] is (labels is not None)
    if labels is None:
        assert own["maps"] == plain["maps"]
        assert list(answer) == ["error"]
        return
    first = own["maps"][0]
    assert first["columns"][: len(labels)] == labels
    assert len(first["data"]) == first["heads"] * len(first["rows"]) * len(first["columns"])
    assert {name: own[name] for name in ("accuracy", "examples", "numbers")} == {
        name: plain[name] for name in ("accuracy", "examples", "numbers")
    }


@pytest.mark.parametrize(("attention", "weight"), [("itself", None), ("equal", 1 / 5)])
def test_maps_of_a_model_that_does_not_choose(page, attention, weight):
    body = """const run = await start("senses", settings);
      for (let n = 0; n < 20; n += 1) run.step();
      return run.probe("bat bites man in cave").maps[0];"""
    found = page.run(body, settings=SMALL["senses"] | {"attention": attention})
    for at in range(0, len(found["data"]), 5):
        row = [float(at // 5 % 5 == k) for k in range(5)] if weight is None else [weight] * 5
        assert found["data"][at : at + 5] == pytest.approx(row)


@pytest.mark.parametrize("task", SMALL)
def test_a_probe_shows_maps_examples_and_numbers_and_changes_nothing(page, task):
    body = """const run = await start(task, settings);
      const [first, again] = [run.probe(), run.probe()];
      const { loss } = run.step();
      return { first, again, loss, after: run.probe() };"""
    found = page.run(body, task=task, settings=SMALL[task])
    first = found["first"]
    assert first == found["again"]
    assert found["loss"] == losses(page, task)[0]
    assert (first["step"], found["after"]["step"]) == (0, 1)
    assert 0 <= first["accuracy"] <= 1
    assert first["examples"]
    assert first["numbers"]
    for one in first["examples"]:
        assert all(
            isinstance(token, str) for key in ("input", "wanted", "got") for token in one[key]
        )
    names = [one["name"] for one in first["maps"]]
    assert len(set(names)) == len(names) == {"depth": 3, "numbers": 3, "parts": 3}.get(task, 1)
    for one in first["maps"]:
        heads, queries, keys = one["heads"], one["queries"], one["keys"]
        assert (heads, queries, keys) == (
            SMALL[task].get("n_heads", 1 if task == "copying" else 4),
            len(one["rows"]),
            len(one["columns"]),
        )
        rows = [one["data"][at : at + keys] for at in range(0, len(one["data"]), keys)]
        assert len(rows) == heads * queries
        assert all(sum(row) == pytest.approx(1, abs=1e-5) for row in rows)


def test_a_run_ends(page):
    body = """const run = await start(task, settings);
      const seen = [run.done];
      let last = null;
      while (!run.done) last = run.step();
      let message = "";
      try { run.step(); } catch (error) { message = error.message; }
      return { seen, last, steps: run.steps, done: run.done, message };"""
    found = page.run(body, task="order", settings=SMALL["order"])
    assert found["seen"] == [False]
    assert found["done"]
    assert found["last"]["step"] == found["steps"] == 150
    assert 0 < found["last"]["lr"] < SMALL["order"]["lr"] / 100
    assert found["message"] == "the run has ended: it has 150 steps"


def test_a_number_that_is_none_is_caught(page):
    body = "const run = await start(task, settings); while (!run.done) run.step();"
    settings = SMALL["neighbours"] | {"lr": 1e30}
    found = page.refusal(body, task="neighbours", settings=settings)
    assert found["name"] == "Diverged"
    assert found["step"] <= 4
    assert "the loss is no longer a number" in found["message"]
    assert "The learning rate, 1e+30, is too high" in found["message"]


def test_a_loss_far_above_a_guess_is_caught(page):
    body = "const run = await start(task, settings); while (!run.done) run.step();"
    found = page.refusal(body, task="neighbours", settings=SMALL["neighbours"] | {"lr": 10})
    assert found["name"] == "Diverged"
    assert found["step"] >= 20
    assert "more than 5 times that of a guess, 2.30" in found["message"]


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, "0", None])
def test_seeds_that_are_none(page, seed):
    body = "await start(task, settings, seed);"
    found = page.refusal(body, task="order", settings=SMALL["order"], seed=seed)
    assert found["message"].startswith("expected a seed from 0 to 4294967295, a whole number")


def test_a_task_without_texts_says_so(page):
    body = "const run = await start(task, settings); return run.ask('the');"
    assert page.run(body, task="longer", settings=SMALL["longer"]) == {
        "error": "This laboratory takes no text."
    }


def test_heads_divide_the_work_and_one_head_fails(page):
    body = """const run = await start(task, settings);
      while (!run.done) run.step();
      return run.probe();"""
    settings = {"d_model": 32, "d_k": 8, "lr": 0.01}
    one, four = (
        page.run(body, task="neighbours", settings=settings | {"n_heads": n}) for n in (1, 4)
    )
    assert one["accuracy"] < 0.25
    assert four["accuracy"] > 0.95
    sides = set()
    [found] = four["maps"]
    for head in range(4):
        rows = [found["data"][(12 * head + i) * 12 :][:12] for i in range(12)]
        for side, step in (("left", -1), ("right", 1)):
            if sum(row[(i + step) % 12] for i, row in enumerate(rows)) / 12 > 0.7:
                sides.add(side)
    assert sides == {"left", "right"}


@pytest.mark.parametrize(
    ("lr", "says"),
    [
        (1e-2, None),
        (1e-3, None),
        (0.1, "often learn badly or not at all: each step goes too far."),
        (3e-4, "by at most about 0.06 in this run, which may be too little to learn the task."),
    ],
)
def test_rates_that_will_hardly_do_are_noted(page, lr, says):
    body = "const run = await start(task, settings); return run.note;"
    note = page.run(body, task="neighbours", settings=SMALL["neighbours"] | {"lr": lr})
    assert note is None if says is None else note.endswith(says)


def test_parts_that_stay_begin_as_in_the_whole_model(page):
    body = """const { parameters } = (await start("parts", settings, 3)).record();
      return parameters.map(({ name, data }) => [name, data]);"""
    whole = dict(page.run(body, settings=dict.fromkeys(SMALL["parts"], True)))
    gone = {
        "cross_attention": "decoder.layers.0.cross_attention.sublayer.",
        "encoder_self_attention": "encoder.layers.0.self_attention.sublayer.",
        "feed_forward": "feed_forward.sublayer.",
        "norms": ".norm.",
    }
    for part in SMALL["parts"]:
        found = dict(page.run(body, settings=dict.fromkeys(SMALL["parts"], True) | {part: False}))
        assert found == {name: whole[name] for name in found}
        if part in gone:
            assert {gone[part] in name for name in whole.keys() - found.keys()} == {True}
    drawn = [tuple(data) for data in whole.values() if len(set(data)) > 1]
    assert len(set(drawn)) == len(drawn) > 15


@pytest.mark.parametrize("plain", [False, True])
def test_no_number_of_a_high_rate_is_too_small_to_be_fast(page, plain):
    """Subnormal numbers take a processor many times as long; a whole number up to 1023 looks alike.

    At a rate of 0.1 scores grow until the softmax has weights of e^-80 and less.
    """
    body = """const engine = await makeEngine({ wasm: plain ? null : bytes(WASM) });
      const run = trainer.makeRun({ engine, task: "neighbours", settings, seed: 0 });
      while (run.step().step < 100);
      const { floats, integers, top } = engine.memory;
      let count = 0;
      for (let i = 0; i < top / 4; i += 1) {
        count += Math.abs(floats[i]) < 2 ** -126 && (integers[i] & 0x7fffffff) > 1023;
      }
      return { count, all: top / 4 };"""
    settings = {"n_heads": 4, "d_model": 32, "d_k": 8, "lr": 0.1}
    found = page.run(body, settings=settings, plain=plain)
    assert found["all"] > 100_000
    assert found["count"] == 0


SILENT = "self.MessageChannel = class { port1 = {}; port2 = { postMessage() {} }; };"
TOLD = """return await new Promise((resolve, reject) => {
  const worker = new Worker(URL.createObjectURL(new Blob([text])));
  const losses = [];
  worker.onmessage = ({ data: { type, losses: more = [], step, message } }) => {
    losses.push(...more);
    if (type === "failed") reject(new Error(message));
    if (type === "halted") resolve({ losses, step });
  };
  worker.onerror = ({ message }) => reject(new Error(message));
  const wasm = bytes(WASM);
  worker.postMessage({ type: "start", id: 1, task, settings, seed: 0, wasm, until: 30 });
});"""


@pytest.mark.parametrize("before", ["", SILENT])
def test_each_step_is_taken_once_even_if_messages_to_oneself_wait(page, before):
    """In WebKit they go by way of the page: while it drew, nothing was trained."""
    given = {"task": "order", "settings": SMALL["order"]}
    found = page.run(TOLD, text=before + worker_text(), **given)
    assert found["step"] == 30
    assert [step for step, _ in found["losses"]] == list(range(1, 31))
    assert [loss for _, loss in found["losses"]] == losses(page, "order", steps=30)

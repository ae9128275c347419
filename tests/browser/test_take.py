"""Models out of the page into Python and back: in each task the same numbers and the same logits."""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.replay import Replay, inputs_of
from engine.take import answer, load_model, save_model
from tests.browser.laboratory_page import SMALL, LaboratoryPage

pytestmark = pytest.mark.browser
CLOSE = 1e-5
HELPERS = """
  const loaded = async (run, batch, plain = false) => {
    const engine = await makeEngine({ wasm: plain ? null : bytes(WASM) });
    const model = $model.makeModel(engine, run.record().design, makeRandom(1));
    model.load(run.save());
    return model.read(batch).logits;
  };
  const opened = async (task, file) => $trainer.openRun(
    { engine: await makeEngine({ wasm: bytes(WASM) }), task, bytes: bytes(file) });
"""
TEXTS = {
    "senses": "bat bites man in cave",
    "order": "man bites dog",
    "neighbours": "314159265358",
    "depth": "31415926",
    "numbers": "342",
    "parts": "73691",
    "copying": "204",
}
# Of each task further settings, so that each kind of its models is among them
MORE = [
    ("senses", {"attention": "itself"}),
    ("senses", {"attention": "equal"}),
    ("order", {"positions": "learned", "causal": True}),
    ("future", {"causal": False}),
    ("depth", {"norm": "pre"}),
    *(("longer", {"positions": one}) for one in ("none", "learned", "sinusoidal", "alibi")),
    ("copying", {"attention": False}),
    ("parts", {"norms": False, "root": False, "cross_attention": False, "heads": False}),
    ("parts", {"causal_mask": True, "residual": False, "feed_forward": False}),
]
CASES = [*((task, {}) for task in SMALL), *MORE]


@pytest.fixture(scope="module")
def page(browser) -> Iterator[LaboratoryPage]:
    page = LaboratoryPage(browser)
    page.page.add_script_tag(content=HELPERS)
    yield page
    page.page.close()


def taken(page: LaboratoryPage, task: str, path: Path, *, steps: int = 20, **settings) -> Any:
    """Train in the page, and write the file that it makes; what the page knows of the model."""
    found = page.run(
        """const run = await start(task, settings, 3);
        for (let n = 0; n < steps; n += 1) run.step();
        const batch = run.record().batch(77);
        return { file: run.pack(), batch, design: run.record().design, options: run.record().options,
          logits: await loaded(run, batch), said: text ? run.ask(text).output : null,
          batches: [78, 79, 80].map((n) => run.record().batch(n)) };""",
        task=task,
        settings=SMALL[task] | settings,
        steps=steps,
        text=TEXTS.get(task),
    )
    assert found["file"]["step"] == steps
    path.write_bytes(bytes(found["file"]["bytes"]))
    return found


def told(page: LaboratoryPage, task: str, content: bytes) -> str:
    """What the page says of a file that it does not open."""
    file = base64.b64encode(content).decode()
    return page.refusal("await opened(task, file);", task=task, file=file)["message"]


@pytest.mark.parametrize(("task", "settings"), CASES)
def test_python_has_the_pages_logits_and_answers(page, tmp_path, one_thread, task, settings):
    path = tmp_path / "model.safetensors"
    found = taken(page, task, path, **settings)
    model, card = load_model(path)
    assert (card.task, card.step) == (task, 20)
    assert card.settings == SMALL[task] | settings | {"seed": 3}
    assert card.design == found["design"]
    with torch.no_grad():
        logits = model(*inputs_of(card.design, found["batch"]))
    assert float(logits.std()) > 0.05
    torch.testing.assert_close(
        logits.flatten(), torch.tensor(found["logits"]), rtol=CLOSE, atol=CLOSE
    )
    if found["said"] is None:
        return
    said = answer(model, card, TEXTS[task])
    if task == "senses":  # the panel shows the words of two meanings alone
        assert said[0] == found["said"][0].removeprefix("bat: ")
    else:
        assert said == found["said"]


@pytest.mark.parametrize(("task", "settings"), CASES)
def test_the_page_has_pythons_logits(page, tmp_path, one_thread, task, settings):
    """torch takes three steps more, and the page opens the model that comes of it."""
    path = tmp_path / "model.safetensors"
    found = taken(page, task, path, **settings)
    model, card = load_model(path)
    parameters = [
        {"name": name, "shape": list(p.shape), "data": p.detach()}
        for name, p in model.named_parameters()
    ]
    replay = Replay(card.design, found["options"], parameters)
    replay.run(found["batches"])
    save_model(path, replay.model, card, step=23)
    opened = page.run(
        """const { run, settings } = await opened(task, file);
        const { step, maps } = run.probe();
        return { settings, step, maps: maps.length,
          logits: await loaded(run, batch), again: run.pack() };""",
        task=task,
        file=base64.b64encode(path.read_bytes()).decode(),
        batch=found["batch"],
    )
    assert (opened["settings"], opened["step"]) == (card.settings, 23)
    with torch.no_grad():
        logits = replay.model(*inputs_of(card.design, found["batch"])).flatten()
    assert not torch.allclose(logits, torch.tensor(found["logits"]), atol=1e-3)
    torch.testing.assert_close(logits, torch.tensor(opened["logits"]), rtol=CLOSE, atol=CLOSE)
    path.write_bytes(bytes(opened["again"]["bytes"]))
    assert load_model(path)[1] == replace(card, step=23)
    again = load_file(path)
    assert all(torch.equal(p, again[name]) for name, p in replay.model.named_parameters())


def test_without_webassembly_the_logits_are_the_same(page, tmp_path):
    path = tmp_path / "model.safetensors"
    found = taken(page, "numbers", path)
    plain = page.run(
        """const { run } = await opened("numbers", file);
        return loaded(run, batch, true);""",
        file=base64.b64encode(path.read_bytes()).decode(),
        batch=found["batch"],
    )
    assert plain == pytest.approx(found["logits"], rel=CLOSE, abs=CLOSE)


NO_FILE = "It is no safetensors file, or only a part of one."


def edited(path: Path, edit: Callable[[dict], Any]) -> bytes:
    """A file with another header."""
    whole = path.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:end])
    edit(header)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + whole[end:]


def on_card(**changes: Any) -> Callable[[dict], None]:
    def edit(header: dict) -> None:
        card = json.loads(header["__metadata__"]["laboratory"]) | changes
        header["__metadata__"]["laboratory"] = json.dumps(card)

    return edit


def on_first(**changes: Any) -> Callable[[dict], None]:
    def edit(header: dict) -> None:
        header["embedding.weight"] |= changes

    return edit


def test_the_page_says_what_is_wrong_with_a_file(page, tmp_path):
    path = tmp_path / "model.safetensors"
    taken(page, "order", path, steps=1)
    whole = path.read_bytes()
    for content in (b"", b"<html>none</html>", whole[:-4], whole[:100], b"\xff" * 99):
        assert told(page, "order", content) == NO_FILE
    save_file({"a": torch.ones(3)}, tmp_path / "other.safetensors")
    foreign = (
        "It holds no model of a laboratory. In a notebook, save_model of engine.take writes one."
    )
    assert told(page, "order", (tmp_path / "other.safetensors").read_bytes()) == foreign
    assert "another laboratory, “order”; this one is “depth”" in told(page, "depth", whole)
    save_file(
        {name: tensor.double() for name, tensor in load_file(path).items()},
        tmp_path / "double.safetensors",
        json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])["__metadata__"],
    )
    design = load_model(path)[1].design
    broken = torch.full((15, 14), float("nan")).numpy().tobytes()
    at = len(whole) - sum(4 * t.numel() for t in load_file(path).values())
    cases: list[tuple[bytes, str]] = [
        (edited(path, on_card(version=2)), "Another version of this book has written it."),
        (edited(path, on_card(step=-1)), foreign),
        (edited(path, on_card(settings=[])), foreign),
        (edited(path, on_card(settings=None)), foreign),
        (
            edited(path, on_card(settings={"seed": 0})),
            "expected positions to be none or learned, got unde",
        ),
        (edited(path, on_card(settings=SMALL["order"])), "expected a seed from 0 to"),
        (
            edited(path, on_card(settings=SMALL["order"] | {"seed": 0, "d_model": 16})),
            "Its design is not the one that this laboratory has for its settings.",
        ),
        (edited(path, on_card(design=design | {"norm": "pre"})), "Its design is not the one"),
        (edited(path, lambda header: header.pop("embedding.weight")), "weight is missing"),
        (edited(path, lambda header: header.update(odd={})), "odd is too much"),
        (edited(path, on_first(shape=[14, 15])), "is F32 of shape 14,15, not F32 of shape 15,14"),
        (edited(path, on_first(dtype="I32")), "embedding.weight is I32 of shape 15,14, not F32"),
        (edited(path, on_first(data_offsets=[0, 4])), NO_FILE),
        (edited(path, on_first(data_offsets=None)), NO_FILE),
        (edited(path, on_first(data_offsets=[-840, 0])), NO_FILE),
        ((tmp_path / "double.safetensors").read_bytes(), "is F64 of shape"),
        (whole[:at] + broken + whole[at + len(broken) :], "It has numbers that are not finite."),
    ]
    for content, message in cases:
        assert message in told(page, "order", content)

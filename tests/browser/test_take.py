"""Models out of the page into Python and back: of each task the same numbers and logits."""

import base64
import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect
from safetensors.torch import load_file, save_file

from chapters.transformer.take_out import TakeOut
from engine.bottleneck import Bottleneck
from engine.laboratory import TASKS, Laboratory
from engine.replay import Replay, inputs_of
from engine.take import Card, answer, load_model, save_model
from engine.train_now import TrainNow
from lib.seq2seq import AttentionSeq2Seq
from lib.transformer import Transformer
from tests.browser.laboratory_page import SMALL, LaboratoryPage
from tests.browser.test_laboratory import drawn, no_worker, stop, wait, with_kernel

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
NAMES = "\n".join(a + b + c for a in ("Ma", "Lo", "Bri", "To") for b in "rnlst" for c in ("a", "o"))
NAMES += "\n" + "\n".join(f"Zo{a}{b}" for a in "abcdefghij" for b in "eiou")
POEM = "The cat sat on the mat, and the dog sat on the log.\nSo they both were flat.\n\n" * 40
SETTINGS = SMALL | {"writing": {"text": NAMES, "merges": 0, "dropout": 0.1}}
PAIRS = [("writing", {"merges": 40}), ("writing", {"text": POEM, "merges": 40, "dropout": 0})]
CASES = [*((task, {}) for task in SETTINGS), *MORE, *PAIRS]


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
        const { design, options } = run.record();
        return { file: run.pack(), batch, design, options,
          logits: await loaded(run, batch), said: text ? run.ask(text).output : null,
          batches: [78, 79, 80].map((n) => run.record().batch(n)) };""",
        task=task,
        settings=SETTINGS[task] | settings,
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
    assert card.settings == SETTINGS[task] | settings | {"seed": 3}
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


@pytest.mark.parametrize("settings", [{}, PAIRS[0][1], PAIRS[1][1]])
@pytest.mark.parametrize("prefix", ["", "Zo", "The dog sat"])
def test_the_language_model_goes_on_as_in_the_page(page, tmp_path, one_thread, settings, prefix):
    if prefix and prefix not in settings.get("text", NAMES):
        prefix = settings.get("text", NAMES)[:5]
    path = tmp_path / "model.safetensors"
    taken(page, "writing", path, steps=60, **settings)
    page_says = page.run(
        """const { run } = await opened("writing", file);
        const { texts: [{ row, said }], start, pieces } = run.ask(JSON.stringify({ prefix, k: 1 }));
        return { said: row.slice(start).map((id) => pieces[id]), start, whole: said };""",
        file=base64.b64encode(path.read_bytes()).decode(),
        prefix=prefix,
    )
    model, card = load_model(path)
    said = answer(model, card, prefix)
    line = list(itertools.takewhile(lambda piece: piece != "\n", page_says["said"]))
    assert said == line[: len(said)]
    assert len(said) == len(line) or len(said) + 1 + page_says["start"] == 64, "a window is full"
    assert page_says["whole"].startswith(prefix + "".join(said))
    with pytest.raises(ValueError, match="expected characters of its text, got 'ß' in 'aß'"):
        answer(model, card, "aß")


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


NO_FILE = "It is no file of a laboratory's model, or only a part of one."


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
    assert told(page, "order", (tmp_path / "other.safetensors").read_bytes()) == NO_FILE
    assert "another laboratory, “order”; this one is “depth”" in told(page, "depth", whole)
    save_file(
        {name: tensor.double() for name, tensor in load_file(path).items()},
        tmp_path / "double.safetensors",
        json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])["__metadata__"],
    )
    design = load_model(path)[1].design
    broken = torch.full((15, 14), float("nan")).numpy().tobytes()
    at = len(whole) - sum(4 * t.numel() for t in load_file(path).values())
    version = "Another version of this book wrote it."
    mismatch = "Its parameters are not those of its settings: {}."
    cases: list[tuple[bytes, str]] = [
        (edited(path, on_card(version=2)), version),
        (edited(path, on_card(step=-1)), version),
        (edited(path, on_card(settings=None)), NO_FILE),
        (
            edited(path, on_card(settings={"seed": 0})),
            "expected positions to be none or learned, g",
        ),
        (edited(path, on_card(settings=SMALL["order"])), "expected a seed from 0 to"),
        (
            edited(path, on_card(settings=SMALL["order"] | {"seed": 0, "d_model": 16})),
            "Its design is not that of its settings.",
        ),
        (edited(path, on_card(design=design | {"norm": "pre"})), "Its design is not that of its s"),
        (edited(path, on_card(design=None)), NO_FILE),
        (
            edited(path, lambda header: header.pop("embedding.weight")),
            mismatch.format("embedding.weight"),
        ),
        (edited(path, lambda header: header.update(odd={})), mismatch.format("odd")),
        (edited(path, lambda header: header.update(odd=None)), mismatch.format("odd")),
        (edited(path, on_first(shape=[14, 15])), mismatch.format("embedding.weight")),
        (edited(path, on_first(dtype="I32")), mismatch.format("embedding.weight")),
        (edited(path, on_first(data_offsets=[0, 4])), NO_FILE),
        (edited(path, on_first(data_offsets=None)), NO_FILE),
        (edited(path, on_first(data_offsets=[-840])), NO_FILE),
        ((tmp_path / "double.safetensors").read_bytes(), mismatch.format("embedding.weight")),
        (whole[:at] + broken + whole[at + len(broken) :], "It has numbers that are not finite."),
    ]
    for content, message in cases:
        assert message in told(page, "order", content)


# --- in the panels --------------------------------------------------------------------------------

LOADS = 'answer(model, card, "'


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def downloaded(page: Page, name: str, folder: Path) -> Path:
    """Download a model; the file under the name that the panel gives it."""
    with page.expect_download() as caught:
        press(page, f"Download {name}")
    path = folder / caught.value.suggested_filename
    caught.value.save_as(path)
    expect(page.locator(".lab-take > [role=status]")).to_contain_text(path.name)
    return path


def run_cell(page: Page, folder: Path) -> dict[str, Any]:
    """Run the cell of the panel in this folder; what it leaves, and its answer as `value`."""
    cell = page.locator(".lab-take textarea").input_value()
    lines = cell.split("\n")
    if LOADS in cell:
        lines = [f"value = {line}" if line.startswith("answer(") else line for line in lines]
    left: dict[str, Any] = {}
    with contextlib.chdir(folder):
        exec("\n".join(lines), left)  # as a reader copies it
    return left


def open_file(page: Page, path: Path) -> str:
    page.locator(".lab-take input[type=file]").set_input_files(path)
    said = page.locator(".lab-take > [role=status]")
    expect(said).not_to_contain_text("is being opened")
    return said.inner_text()


def changed(path: Path, to: Path, *, step: int | None = None) -> None:
    """The model of a file with other numbers, as a notebook may leave it, in another file."""
    model, card = load_model(path)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    save_model(to, model, card, step=step)


def logits_agree(page: LaboratoryPage, model: torch.nn.Module, card: Card) -> None:
    """The engine trains the model of a card again; that has the logits of the model."""
    settings = {name: value for name, value in card.settings.items() if name != "seed"}
    found = page.run(
        """const run = await start(task, settings, seed);
        for (let n = 0; n < steps; n += 1) run.step();
        const batch = run.record().batch(77);
        return { batch, logits: await loaded(run, batch) };""",
        task=card.task,
        settings=settings,
        seed=card.settings["seed"],
        steps=card.step,
    )
    with torch.no_grad():
        logits = model(*inputs_of(card.design, found["batch"])).flatten()
    close = CLOSE * max(1.0, float(logits.abs().max()))  # without norms they may be large
    torch.testing.assert_close(logits, torch.tensor(found["logits"]), rtol=CLOSE, atol=close)


FEW = {"n_heads": 1, "d_model": 16}  # settings of a panel with which a step takes a moment
PANELS = {
    task: FEW | ({"n_layers": 1} if "n_layers" in TASKS[task].settings else {}) for task in TASKS
}


@pytest.mark.parametrize("task", TASKS)
def test_a_laboratorys_model_goes_into_a_notebook_and_comes_back(stage, page, tmp_path, task):
    shown = stage.show(Laboratory(task, seed=2, **PANELS[task]))
    press(shown, "Take it with you")
    expect(shown.locator(".lab-take")).to_contain_text("Train a model first.")
    for _ in range(3):
        press(shown, "One step")
        expect(shown.locator(".lab-status")).to_contain_text(re.compile(r"[Ss]tep [1-3] of"))
    expect(shown.locator(".lab-status")).to_contain_text("tep 3 of")
    path = downloaded(shown, "run 1", tmp_path)
    left = run_cell(shown, tmp_path)
    model, card = left["model"], left["card"]
    assert path.name == f"{task}-run-1-step-{card.step}.safetensors"
    assert card.step in (2, 3), "the last one that the panel looked at"
    assert (card.task, card.settings["seed"]) == (task, 2)
    logits_agree(page, model, card)
    # The other way
    changed(path, tmp_path / "mine.safetensors", step=40)
    said = open_file(shown, tmp_path / "mine.safetensors")
    assert said == "Run 2, mine: the model of the file, after step 40."
    expect(shown.locator(".lab-runs > li")).to_have_count(2)
    drawn(shown)
    expect(shown.locator(".lab-map-head")).to_contain_text("run 2, mine, step 40")
    expect(shown.locator(".lab-head").first).to_be_visible()
    if TASKS[task].asks:
        answers = shown.locator(".lab-answers > li").first
        expect(answers).to_contain_text("run 2, mine, step 40")
    again = downloaded(shown, "run 2, mine", tmp_path)
    assert again.name == f"{task}-run-2-mine-step-40.safetensors"
    assert all(
        torch.equal(tensor, load_file(tmp_path / "mine.safetensors")[name])
        for name, tensor in load_file(again).items()
    )
    assert stage.violations(shown) == []


def test_an_opened_model_answers_as_in_the_notebook(stage, tmp_path):
    shown = stage.show(Laboratory("numbers", longest=3))
    press(shown, "Train")
    wait(shown)
    press(shown, "Take it with you")
    path = downloaded(shown, "run 1", tmp_path)
    said = shown.locator(".lab-answers .lab-tokens").first.inner_text().split()
    assert run_cell(shown, tmp_path)["value"] == said == ["three", "hundred", "and", "forty", "two"]
    # A page that has trained nothing opens it, and asks it
    shown = stage.show(Laboratory("numbers"))
    press(shown, "Take it with you")
    assert open_file(shown, path).startswith("Run 1, numbers-run-1-step-500: the model of the")
    drawn(shown)
    expect(shown.locator(".lab-answers .lab-tokens").first).to_have_text(
        "three hundred and forty two", use_inner_text=True
    )
    shown.get_by_label("Your own number").fill("517")
    press(shown, "Ask")
    expect(shown.locator(".lab-answers .lab-tokens").first).to_contain_text("seventeen")
    assert run_cell_of(shown, "517", path) == ["five", "hundred", "and", "seventeen"]
    names = shown.locator(".lab-actions").first.get_by_role("button").all_inner_texts()
    assert names == ["Use settings", "Remove"], "no settings and no seed have its numbers"
    press(shown, "Train")  # goes on beside it
    shown.wait_for_function("() => document.querySelectorAll('.lab-runs > li').length === 2")
    press(shown, "Remove run 1")
    expect(shown.locator(".lab-runs > li")).to_have_count(1)


def run_cell_of(page: Page, question: str, path: Path) -> list[str]:
    """The answer by the cell's own words, of a file that lies elsewhere."""
    line = f'answer(model, card, "{question}")'
    assert line in page.locator(".lab-take textarea").input_value().split("\n")
    model, card = load_model(path)
    return answer(model, card, question)


def test_a_file_that_does_not_fit_is_said_and_loses_nothing(stage, page, tmp_path):
    shown = stage.show(Laboratory("order", **PANELS["order"]))
    press(shown, "One step")
    expect(shown.locator(".lab-status")).to_contain_text("Step 1 of 150")
    press(shown, "Take it with you")
    path = downloaded(shown, "run 1", tmp_path)
    drawn(shown)
    before = shown.locator(".lab-stage").inner_text()
    other = tmp_path / "other.safetensors"
    taken(page, "depth", other, steps=1)
    odd = tmp_path / "odd.safetensors"
    taken(page, "order", odd, steps=1)  # its d_model is 14
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(path.read_bytes()[:-9])
    for one, message in (
        (other, "It is a model of another laboratory, “depth”; this one is “order”."),
        (odd, "This laboratory does not offer its settings."),
        (cut, NO_FILE),
    ):
        assert open_file(shown, one) == f"✗ {one.name} is not opened. {message}"
        expect(shown.locator(".lab-take > [role=status]")).to_have_class(re.compile("bw-problem"))
    assert shown.locator(".lab-stage").inner_text() == before
    expect(shown.locator(".lab-runs > li")).to_have_count(1)
    press(shown, "One step")  # the run is still there
    expect(shown.locator(".lab-status")).to_contain_text("Step 2 of 150")
    shown.wait_for_timeout(300)
    assert len(shown.workers) == 1


def test_a_file_can_be_dropped_and_opened_by_keyboard(stage, page, tmp_path):
    path = tmp_path / "a.safetensors"
    taken(page, "order", path, steps=1, n_heads=1, d_model=16)
    shown = stage.show(Laboratory("order"))
    toggle = shown.get_by_role("button", name="Take it with you")
    toggle.press("Enter")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    with shown.expect_file_chooser() as chooser:
        shown.get_by_role("button", name="Open a file").press("Enter")
    chooser.value.set_files(path)
    expect(shown.locator(".lab-take > [role=status]")).to_contain_text("Run 1, a: the model")
    data = base64.b64encode(path.read_bytes()).decode()
    shown.evaluate(
        """(data) => {
          const held = new DataTransfer();
          const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
          held.items.add(new File([bytes], "b.safetensors"));
          document.querySelector(".lab-take").dispatchEvent(new DragEvent("drop",
            { dataTransfer: held, bubbles: true, cancelable: true }));
        }""",
        data,
    )
    expect(shown.locator(".lab-take > [role=status]")).to_contain_text("Run 2, b: the model")
    toggle.press("Enter")
    expect(shown.locator(".lab-take")).to_be_hidden()
    press(shown, "Reset")
    no_worker(shown)


def test_the_cell_is_copied(stage):
    shown = stage.show(Laboratory("order"), permissions=["clipboard-read", "clipboard-write"])
    press(shown, "Take it with you")
    press(shown, "Copy the cell")
    expect(shown.get_by_role("button", name="Cell copied")).to_be_visible()
    copied = shown.evaluate("() => navigator.clipboard.readText()")
    assert copied == shown.locator(".lab-take textarea").input_value()
    assert copied.split("\n") == [
        "from engine.take import answer, load_model, save_model",
        "",
        'model, card = load_model("model.safetensors")',
        'answer(model, card, "man bites dog")',
        '# The way back: save_model("mine.safetensors", model, card)',
    ]


def test_both_models_of_chapter_2_go_and_come(stage, page, tmp_path):
    shown = stage.show(Bottleneck(True, state=8, longest=4))
    press(shown, "Train")
    shown.wait_for_function(
        """() => [...document.querySelector(".lab-status").textContent
          .matchAll(/step [1-9]/g)].length === 2"""
    )
    press(shown, "Stop")
    press(shown, "Take it with you")
    for kind in ("one vector", "attention"):
        path = downloaded(shown, f"{kind}, state 8, seed 0", tmp_path)
        left = run_cell(shown, tmp_path)
        card = left["card"]
        slug = kind.replace(" ", "-")
        assert path.name == f"copying-{slug}-state-8-seed-0-step-{card.step}.safetensors"
        assert card.settings == {"attention": kind != "one vector", "state": 8} | {
            "longest": 4,
            "seed": 0,
        }
        assert (type(left["model"]) is AttentionSeq2Seq) is (kind != "one vector")
        logits_agree(page, left["model"], card)
        answers = shown.locator(".neck-answer")
        said = answers.filter(has_text=re.compile(f"^{kind}")).locator(".lab-tokens")
        marked = said.text_content() or ""  # as right answers are, or with a mark at each wrong one
        assert marked.replace("(wrong)", "").split() == left["value"]
    changed(path, tmp_path / "mine.safetensors", step=40)
    said = open_file(shown, tmp_path / "mine.safetensors")
    assert said == "Attention, state 8, mine: the model of the file, after step 40."
    expect(shown.locator(".neck-table tbody tr")).to_have_count(3)
    expect(shown.locator(".neck-answer")).to_have_count(2)
    expect(shown.locator(".neck-map .bw-map")).to_be_visible()
    wanted = answer(*load_model(tmp_path / "mine.safetensors"), "7369")
    line = shown.locator(".neck-answer").last
    expect(line.locator(".lab-tokens")).to_have_text(digits_of(wanted), use_inner_text=True)
    expect(shown.locator(".lab-status")).to_contain_text("mine: step 40 of 1000")
    shown.locator(".neck-table tbody button").first.click()
    expect(shown.locator(".neck-answer")).to_have_count(3)  # the trained ones are still there
    assert stage.violations(shown) == []
    # Chapter 1 has no place for it
    shown = stage.show(Bottleneck())
    press(shown, "Take it with you")
    assert open_file(shown, path).endswith("is not opened. It has attention: chapter 2 opens it.")
    expect(shown.locator(".neck-results")).to_be_hidden()
    no_worker(shown)
    taken(page, "copying", path, steps=1, attention=False, longest=5)
    assert "This laboratory does not offer its settings." in open_file(shown, path)
    taken(page, "copying", path, steps=1, attention=False, longest=4)
    assert open_file(shown, path).startswith("State 8, copying-attention-state-8-seed-0-step-")
    expect(shown.locator(".neck-table tbody tr")).to_have_count(1)
    expect(shown.locator(".neck-answer")).to_have_count(2)


def digits_of(tokens: list[str]) -> re.Pattern[str]:
    """Tokens as a line shows them, wrong ones with a word for screen readers."""
    return re.compile(r"\s*" + r"(?:\s*\(wrong\))?\s+".join(tokens) + r"(?:\s*\(wrong\))?\s*")


def test_a_model_without_its_parts_goes_and_comes(stage, page, tmp_path):
    shown = stage.show(TakeOut("norms", "root"))
    press(shown, "Train")
    expect(shown.locator(".take-share").last).to_contain_text("%")
    shown.wait_for_function(
        "() => /step [1-9]/.test(document.querySelector('.lab-status').textContent)"
    )
    press(shown, "Stop")
    press(shown, "Take it with you")
    for title in ("the whole model", "without the division by √d_k and the norms"):
        path = downloaded(shown, f"{title}, seed 0", tmp_path)
        left = run_cell(shown, tmp_path)
        model, card = left["model"], left["card"]
        assert card.design["without"] == ([] if title == "the whole model" else ["root", "norms"])
        assert isinstance(model, Transformer)
        logits_agree(page, model, card)
    assert path.name.startswith("parts-without-the-division-by-d_k-and-the-norms-seed-0-step-")
    changed(path, tmp_path / "mine.safetensors", step=40)
    said = open_file(shown, tmp_path / "mine.safetensors")
    assert said == f"W{title[1:]}, mine: the model of the file, after step 40."
    expect(shown.locator(".take-name:visible")).to_have_text(["the whole model", f"{title}, mine"])
    wanted = answer(*load_model(tmp_path / "mine.safetensors"), "73691") or ["(no word)"]
    expect(shown.locator(".take-said").last.locator(".lab-tokens")).to_have_text(
        " ".join(wanted), use_inner_text=True
    )
    expect(shown.locator(".take-models > li")).to_have_count(3)
    expect(shown.locator(".take-side .bw-map:visible")).to_have_count(2)
    assert stage.violations(shown) == []
    shown = stage.show(TakeOut())
    press(shown, "Take it with you")
    assert "after step 40" in open_file(shown, tmp_path / "mine.safetensors")
    expect(shown.locator(".take-name:visible")).to_have_text([f"{title}, mine"])
    press(shown, "Reset")
    no_worker(shown)


def test_the_first_pages_model_goes_and_comes(stage, page, tmp_path):
    shown = stage.show(TrainNow("4217"))
    press(shown, "Train")
    shown.wait_for_function(
        "() => / step [1-9]/.test(document.querySelector('.lab-status').textContent)"
    )
    press(shown, "Pause")
    press(shown, "Take it with you")
    path = downloaded(shown, "the model, seed 0", tmp_path)
    left = run_cell(shown, tmp_path)
    logits_agree(page, left["model"], left["card"])
    assert path.name == f"parts-the-model-seed-0-step-{left['card'].step}.safetensors"
    before = shown.locator(".now-said").inner_text()
    out = tmp_path / "out.safetensors"
    taken(page, "parts", out, steps=1)
    assert open_file(shown, out).endswith("A part of it is taken out: chapter 10 opens it.")
    assert shown.locator(".now-said").inner_text() == before
    press(shown, "Go on")
    shown.wait_for_function(
        "() => /done:/.test(document.querySelector('.lab-status').textContent)", timeout=90_000
    )
    downloaded(shown, "the model, seed 0", tmp_path)
    path = tmp_path / "parts-the-model-seed-0-step-600.safetensors"
    four = ["four", "thousand", "two", "hundred", "and", "seventeen"]
    assert run_cell(shown, tmp_path)["value"] == four
    shown = stage.show(TrainNow())
    press(shown, "Take it with you")
    assert open_file(shown, path) == "The model of the file, after step 600."
    expect(shown.locator(".lab-status")).to_contain_text(
        "From a file: step 600 of 600, new numbers"
    )
    said = shown.locator(".now-said > p").first
    expect(said).to_contain_text("seventy three thousand six hundred and ninety one ✓ right")
    shown.get_by_label("Your number").fill("4217")
    expect(said).to_contain_text(f"{' '.join(four)} ✓ right")
    assert stage.violations(shown) == []
    press(shown, "Train")  # anew, in a worker of its own
    expect(shown.locator(".lab-status")).to_contain_text("Training")
    assert len(shown.workers) == 1


def test_in_a_notebooks_front_end_the_kernel_gives_the_engine(stage, tmp_path):
    widget = Laboratory("order", **PANELS["order"])
    shown = stage.show(widget, via="module", locale="en")  # a page of its own, for its function
    heard = with_kernel(shown, widget)
    press(shown, "Train")
    wait(shown)
    press(shown, "Take it with you")
    path = downloaded(shown, "run 1", tmp_path)
    assert load_model(path)[1].step == 150
    assert open_file(shown, path).startswith("Run 2, order-run-1-step-150: the model")
    assert [content["wanted"] for content in heard] == ["engine"]
    shown.evaluate("() => window.close()")
    no_worker(shown)


def test_without_a_kernel_that_is_said(stage, tmp_path):
    shown = stage.show(Laboratory("order"), via="module")
    press(shown, "Take it with you")
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"anything")
    said = open_file(shown, path)
    assert "a.safetensors is not opened. There is no kernel to ask for the engine." in said


def test_from_a_file_and_without_webassembly(stage, tmp_path):
    shown = stage.show(Laboratory("order", **PANELS["order"]), via="file")
    html = stage.folder / "laboratory.html"
    html.write_text(html.read_text("utf-8").replace("'wasm-unsafe-eval'", ""), encoding="utf-8")
    shown.reload()
    press(shown, "One step")
    expect(shown.locator(".lab-status")).to_contain_text("plain JavaScript")
    press(shown, "Take it with you")
    path = downloaded(shown, "run 1", tmp_path)
    assert open_file(shown, path).startswith("Run 2, order-run-1-step-")
    drawn(shown)
    expect(shown.locator(".lab-answers > li").first).to_contain_text("run 2")
    stage.used[-1].problems[:] = [p for p in stage.used[-1].problems if "wasm" not in p.lower()]


def test_a_model_is_taken_and_opened_while_another_trains(stage, tmp_path):
    shown = stage.show(Laboratory("numbers", longest=6, n_layers=3, d_model=64))
    press(shown, "Train")
    shown.wait_for_function(
        "() => /Step [1-9]/.test(document.querySelector('.lab-status').textContent)"
    )
    press(shown, "Take it with you")
    path = downloaded(shown, "run 1", tmp_path)
    assert 0 < load_model(path)[1].step < 500
    assert open_file(shown, path).startswith("Run 2, numbers-run-1-step-")
    stop(shown)
    assert "stopped: Step" in wait(shown)
    expect(shown.locator(".lab-map-head")).to_contain_text("run 2")  # what was opened stays shown
    expect(shown.locator(".lab-runs > li")).to_have_count(2)
    shown.wait_for_timeout(300)
    assert len(shown.workers) == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_telephone_it_can_be_reached_and_read(phone, tmp_path, theme):
    shown = phone.show(TrainNow(), theme=theme)
    shown.get_by_role("button", name="Take it with you").tap()
    assert shown.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    for button in shown.locator(".lab-take .bw-button").all():
        assert button.bounding_box()["height"] >= 44
    assert phone.violations(shown) == []

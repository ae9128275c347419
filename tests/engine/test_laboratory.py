"""The laboratories: what each may be set to, what the page gets, and what the kernel answers."""

import itertools
import json

import pytest
import torch

from engine.laboratory import TASKS, Laboratory, run_with_torch
from engine.replay import Replay, make_model
from engine.text import kernels, worker_text

DESIGN = {
    "kind": "reader",
    "vocab": 5,
    "classes": 3,
    "outputs": 2,
    "d_model": 6,
    "n_heads": 2,
    "d_k": 7,
    "positions": "learned",
    "length": 11,
}
OPTIONS = {"steps": 13, "lr": 0.01, "schedule": "linear", "warmup": 0, "clip": None}


@pytest.mark.parametrize("task", TASKS)
def test_every_task_starts_within_its_settings_and_hands_them_over(task):
    found, widget = TASKS[task], Laboratory(task)
    assert set(found.start) == set(found.settings)
    assert widget.settings() == dict(found.start)
    data = json.loads(widget.data_json())
    assert set(data) == {"task", "about", "domains", "seed", "step", *found.settings}
    assert set(data["domains"]) == {"seed", "step", *found.settings}
    assert (data["seed"], data["step"]) == (0, 0)
    assert data["about"]["advised"] in found.settings["lr"].options
    for one in data["about"]["settings"]:
        assert one["options"] == list(found.settings[one["name"]].options)
        assert len(set(one["words"])) == len(one["options"])
        assert all(isinstance(text, str) and text for text in one["words"])


@pytest.mark.parametrize("task", TASKS)
def test_every_preset_can_be_reached_and_differs_from_the_others(task):
    seen = []
    for label, changes in TASKS[task].presets:
        widget = Laboratory(task, **changes)
        assert label.strip()
        assert {name: widget.settings()[name] for name in changes} == changes
        seen.append(widget.settings())
    for one, other in itertools.combinations(seen, 2):
        assert one != other


def test_settings_are_checked_against_the_task():
    with pytest.raises(ValueError, match=r"task: expected one of senses, .*, got 'sums'"):
        Laboratory("sums")
    with pytest.raises(ValueError, match=r"n_heads: expected one of 1, 2, 4, 8, got 3"):
        Laboratory("neighbours", n_heads=3)
    with pytest.raises(
        ValueError, match=r"norm: expected a setting of the task 'neighbours': n_he"
    ):
        Laboratory("neighbours", norm="pre")
    with pytest.raises(
        ValueError, match=r"seed: expected a whole number from 0 to 9999, got 10000"
    ):
        Laboratory(seed=10_000)
    with pytest.raises(TypeError, match="unexpected"):
        Laboratory(heads=2)
    widget = Laboratory("neighbours", n_heads=4)
    with pytest.raises(ValueError, match="norm: expected one of None, got 'pre'"):
        widget.norm = "pre"
    widget.n_heads = 2
    assert widget.summary() == (
        "Laboratory: neighbours, n_heads 2, d_model 32, d_k 8, lr 0.01, seed 0"
    )


def test_a_reader_without_scripts_sees_what_it_trains_and_where_it_starts():
    html = Laboratory("future", causal=False, seed=7).static_html()
    assert "predict the next word" in html
    assert '<th scope="row">Causal mask</th><td>forgotten</td><td>on, forgotten</td>' in html
    assert '<th scope="row">Learning rate</th><td>0.01</td><td>0.0003, 0.001' in html
    assert '<th scope="row">Seed</th><td>7</td><td>0 to 9999</td>' in html


def test_the_kernel_sends_the_engine_and_stores_none_of_it(monkeypatch):
    widget, sent = Laboratory(), []
    monkeypatch.setattr(widget, "send", lambda message, buffers=(): sent.append((message, buffers)))
    for wanted in ("other", "engine"):
        widget._handle_custom_msg({"wanted": wanted, "id": 7}, [])
    assert sent == [({"id": 7, "engine": worker_text()}, [kernels()])]
    assert "makeAdam" not in widget.data_json()


def record(n_batches: int = 3) -> tuple[dict, list[bytes], list[dict]]:
    """A run of the page: what it sends, and the batches as torch takes them."""
    made = torch.Generator().manual_seed(17)
    shapes = {name: list(p.shape) for name, p in make_model(DESIGN).named_parameters()}
    parameters = [
        {"name": name, "shape": shape, "data": torch.randn(shape, generator=made)}
        for name, shape in shapes.items()
    ]
    batches = [
        {
            "rows": 2,
            "tokens": torch.randint(5, (22,), generator=made, dtype=torch.int32),
            "targets": torch.randint(3, (44,), generator=made, dtype=torch.int32),
        }
        for _ in range(n_batches)
    ]
    content = {
        "wanted": "torch",
        "id": 3,
        "design": DESIGN,
        "options": OPTIONS,
        "parameters": [{"name": p["name"], "shape": p["shape"]} for p in parameters],
        "batches": [{"rows": 2, "lists": [["tokens", 22], ["targets", 44]]} for _ in batches],
    }
    numbers = torch.cat([p["data"].flatten() for p in parameters])
    lists = torch.cat([batch[name] for batch in batches for name in ("tokens", "targets")])
    buffers = [one.numpy().tobytes() for one in (numbers, lists)]
    return content, buffers, [parameters, batches]


def test_torch_takes_the_steps_of_the_page(monkeypatch):
    content, buffers, (parameters, batches) = record()
    wanted = Replay(DESIGN, OPTIONS, parameters).run(batches)
    assert run_with_torch(content, [memoryview(one) for one in buffers]) == wanted
    widget, sent = Laboratory(), []
    monkeypatch.setattr(widget, "send", sent.append)
    widget._handle_custom_msg(content, buffers)
    assert sent == [{"id": 3, "torch": wanted}]


def test_losses_end_where_they_are_no_numbers():
    content, buffers, _ = record()
    content["options"] = OPTIONS | {"lr": 1e30}
    losses = run_with_torch(content, buffers)
    assert len(losses) < 3
    assert losses[0] > 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda content, buffers: buffers.__setitem__(0, buffers[0][:-4]), "numbers of parameters"),
        (lambda content, buffers: buffers.__setitem__(1, buffers[1] * 2), "numbers of batches"),
        (lambda content, buffers: content["parameters"].pop(), "numbers of parameters, got"),
        (lambda content, buffers: content.__setitem__("design", {"kind": "odd"}), "got 'odd'"),
        (lambda content, buffers: content.pop("options"), "options"),
    ],
)
def test_a_record_that_does_not_fit_is_answered_with_the_reason(spoil, message, monkeypatch):
    content, buffers, _ = record()
    spoil(content, buffers)
    widget, sent = Laboratory(), []
    monkeypatch.setattr(widget, "send", sent.append)
    widget._handle_custom_msg(content, buffers)
    [answer] = sent
    assert (answer["id"], answer["torch"]) == (3, [])
    assert message in answer["problem"]

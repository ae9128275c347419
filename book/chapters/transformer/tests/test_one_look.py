"""The task that needs the ReLU where a word looks only once: what is asked, and what was found."""

import pytest
import torch

from chapters.transformer.experiments import one_look
from chapters.transformer.parts import PARTS
from measure.records import read_results


def exact(model):
    return read_results("one_look")["exact"][model]


def test_each_digit_but_the_first_and_the_last_is_asked_for_its_neighbours():
    digits, wanted = one_look.rows(3)
    assert wanted.shape == (3, one_look.LENGTH - 2, 2)
    for row, answers in zip(digits.tolist(), wanted.tolist(), strict=True):
        assert answers == [[row[i - 1], row[i + 1]] for i in range(1, len(row) - 1)]
    logits = one_look.BothNeighbours(("heads",))(digits)
    assert logits.shape == (*wanted.shape, one_look.DIGITS)


def test_an_answer_depends_on_both_neighbours_and_on_the_digit_itself():
    model = one_look.BothNeighbours(())
    digits, _ = one_look.rows(1)
    answers = model(digits)
    for i in (0, 1, 2):  # the left neighbour, the digit itself, the right one
        changed = digits.clone()
        changed[0, i] = (changed[0, i] + 1) % one_look.DIGITS
        assert not torch.allclose(model(changed)[:, 0], answers[:, 0])


def test_each_model_does_without_parts_that_there_are():
    assert {part for parts in one_look.MODELS.values() for part in parts} <= PARTS.keys()
    for name, parts in one_look.MODELS.items():
        assert ("heads" in parts) == name.startswith("one_head")
        layer = one_look.BothNeighbours(parts).transformer.encoder.layers[0]
        assert layer.self_attention.sublayer.n_heads == (1 if "heads" in parts else 4)


def test_a_run_and_its_place_in_the_record(monkeypatch):
    monkeypatch.setitem(one_look.SETTINGS, "steps", 2)
    found = one_look.run("one_head_no_relu", 0)
    assert 0 <= found["exact"] < 0.5
    made = one_look.record([{"model": "one_head_no_relu", "seed": 0, **found}])
    assert made["exact"]["one_head_no_relu"] == [found["exact"]]
    assert made["seconds"] == found["seconds"]


# What chapter 10 says of it


def test_with_one_head_it_takes_the_relu():
    assert min(exact("one_head")) > 0.99
    assert max(exact("one_head_no_relu")) < 0.2
    assert max(exact("one_head_no_feed_forward")) < 0.3


def test_the_norms_are_neither_needed_nor_enough():
    assert min(exact("one_head_no_norms")) > 0.95
    assert max(exact("one_head_no_relu_no_norms")) < 0.3


def test_with_four_heads_the_relu_is_not_needed():
    assert min(exact("four_heads")) > 0.99
    assert min(exact("four_heads_no_relu")) > 0.99


@pytest.mark.parametrize("model", one_look.MODELS)
def test_each_model_was_trained_on_five_seeds(model):
    record = read_results("one_look")
    assert len(record["exact"][model]) == 5
    assert record["without"] == {name: list(parts) for name, parts in one_look.MODELS.items()}
    assert record["settings"] == one_look.SETTINGS
    assert record["seconds"] < 10

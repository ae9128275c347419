"""Files of models: what a notebook writes and reads of them, and what it refuses."""

import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.replay import inputs_of, make_model
from engine.take import Card, answer, load_model, save_model
from lib.seq2seq import AttentionSeq2Seq
from lib.transformer import OneStack, Transformer
from tests.engine.test_replay import ATTENTION, ONE_STACK, READER, TRANSLATOR

WORDS = ["<pad>", "<bos>", "<eos>", *"abcdefghij"]
SIGNS = [f"{i}" for i in range(19)]
DESIGNS = {
    "reader": READER,
    "stack": ONE_STACK,
    "translator": TRANSLATOR,
    "left out": TRANSLATOR | {"without": ["norms", "cross_attention"]},
    "recurrent": ATTENTION,
}


def made(design: dict, **more) -> tuple[torch.nn.Module, Card]:
    torch.manual_seed(0)
    tokens = [WORDS, SIGNS[: design.get("target_vocab") or 5]]
    return make_model(design), Card("odd", {"seed": 3} | more, 17, design, tokens)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("design", DESIGNS.values(), ids=DESIGNS)
def test_a_model_comes_back_with_its_card(path, design):
    model, card = made(design)
    save_model(path, model, card)
    loaded, found = load_model(path)
    assert found == card
    assert type(loaded) is type(model)
    assert not loaded.training
    batch = {"rows": 2, "source": [3, 4, 5, 6, 2, 0], "source_lengths": [3, 2]}
    batch |= {"target_in": [1, 4, 5, 1, 7, 8], "tokens": [3, 4, 5, 6, 2, 0]}
    inputs = inputs_of(design, batch)
    torch.testing.assert_close(loaded(*inputs), model.eval()(*inputs), rtol=0, atol=0)


def test_the_models_are_those_of_the_library(path):
    for design, kind in ((ONE_STACK, OneStack), (TRANSLATOR, Transformer)):
        save_model(path, *made(design))
        assert isinstance(load_model(path)[0], kind)
    save_model(path, *made(ATTENTION))
    assert isinstance(load_model(path)[0], AttentionSeq2Seq)


def test_steps_of_a_notebook_are_counted_and_other_types_become_float32(path):
    model, card = made(TRANSLATOR)
    save_model(path, model.double(), card, step=23)
    assert load_model(path)[1] == replace(card, step=23)
    assert {tensor.dtype for tensor in load_file(path).values()} == {torch.float32}


def test_a_model_of_another_design_is_not_written(path):
    _, card = made(TRANSLATOR)
    deeper = make_model(TRANSLATOR | {"n_layers": 2})
    with pytest.raises(ValueError, match=r"got a model with decoder\.layers\.1"):
        save_model(path, deeper, card)
    wider = make_model(TRANSLATOR | {"d_ff": 23})
    with pytest.raises(ValueError, match=r"expected .* of shape \(.*11.*\), got \(.*23"):
        save_model(path, wider, card)
    turned = make_model(TRANSLATOR | {"positions": "sinusoidal"})
    with pytest.raises(ValueError, match="with positions 'alibi', as its card has it, got 'sinus"):
        save_model(path, turned, card)
    model, _ = made(TRANSLATOR)
    torch.nn.init.constant_(model.projection.weight, float("nan"))
    with pytest.raises(ValueError, match=r"finite numbers, got others in projection\.weight"):
        save_model(path, model, card)
    assert not path.exists()


def test_a_file_that_is_none_is_refused(path):
    with pytest.raises(FileNotFoundError, match="expected a file at"):
        load_model(path)
    save_model(path, *made(TRANSLATOR))
    whole = path.read_bytes()
    for content in (b"", b"<html>", whole[:-1], whole[:200], struct.pack("<Q", 2**60) + whole[8:]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="expected a safetensors file"):
            load_model(path)
    save_file({"a": torch.ones(3)}, path)
    with pytest.raises(ValueError, match="a file without its card"):
        load_model(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "expected version 1 of these files, got 2"),
        ({"design": TRANSLATOR | {"kind": "odd"}}, "got 'odd'"),
        ({"design": TRANSLATOR | {"d_model": 0}}, "expected d_model to be a whole number"),
        (
            {"design": TRANSLATOR | {"d_ff": 10**9}},
            "expected d_ff to be at most .*, got 1000000000",
        ),
        ({"design": TRANSLATOR | {"n_layers": 10**4}}, "expected n_layers to be at most"),
        ({"design": TRANSLATOR | {"n_layers": 2}}, "a model without decoder.layers.1"),
        ({"design": READER | {"odd": 3}}, "expected the model of its card, got another: .*'odd'"),
        ({"design": []}, "without its card"),
        ({"odd": 3}, "without its card"),
    ],
)
def test_a_card_of_another_model_is_refused(path, change, message):
    save_model(path, *made(TRANSLATOR))
    size = int.from_bytes(path.read_bytes()[:8], "little")
    card = json.loads(json.loads(path.read_bytes()[8 : 8 + size])["__metadata__"]["laboratory"])
    save_file(load_file(path), path, {"laboratory": json.dumps(card | change)})
    with pytest.raises(ValueError, match=message):
        load_model(path)


@pytest.mark.parametrize(
    "odd", [torch.ones(19, 14, dtype=torch.int32), torch.full((19, 14), float("inf"))]
)
def test_whole_and_infinite_numbers_are_refused(path, odd):
    model, card = made(TRANSLATOR)
    save_model(path, model, card)
    size = int.from_bytes(path.read_bytes()[:8], "little")
    metadata = json.loads(path.read_bytes()[8 : 8 + size])["__metadata__"]
    assert odd.shape == model.projection.weight.shape
    save_file(load_file(path) | {"projection.weight": odd}, path, metadata)
    with pytest.raises(ValueError, match=r"real, finite numbers, got others in projection\.weight"):
        load_model(path)


def test_a_translator_writes_until_its_end(path):
    model, card = made(TRANSLATOR)
    source = torch.tensor([[3, 4, 2]])
    wanted: list[int] = []
    while len(wanted) < TRANSLATOR["max_length"] - 1 and 2 not in wanted:
        target_in = torch.tensor([[1, *wanted]])
        wanted.append(model.eval()(source, torch.tensor([3]), target_in)[0, -1].argmax().item())
    said = answer(model.train(), card, "ab")
    assert said == [str(i) for i in wanted if i != 2]
    assert answer(model, card, "a b") == said
    assert model.training, "its mode is as before"


def test_other_models_answer_at_each_position():
    model, card = made(READER)
    logits = model(torch.tensor([[3, 4, 5]]))
    assert answer(model, card, "a b c") == [
        " ".join(str(logits[0, t, k].argmax().item()) for k in range(2)) for t in range(3)
    ]


def test_words_that_attend_to_themselves_alone_are_asked_alone():
    model, card = made(ONE_STACK | {"causal": False}, attention="itself")
    card = replace(card, tokens=[WORDS])
    alone = [answer(model, card, word)[0] for word in "abcd"]
    assert answer(model, card, "a b c d") == alone
    assert answer(model, replace(card, settings={}), "a b c d") != alone


def writer(wanted: str) -> tuple[torch.nn.Module, Card]:
    """A language model that always wants the same piece."""
    pieces = ["\n", " ", "a", "b", "c", "ab", "ab ", "cc"]
    design = {"kind": "one_stack", "causal": True, "norm": "pre", "positions": "learned"}
    design |= {"activation": "relu", "tied": False, "d_model": 8, "n_heads": 2, "d_ff": 8}
    design |= {"n_layers": 1, "max_length": 12, "source_vocab": len(pieces), "dropout": 0.1}
    torch.manual_seed(0)
    model = make_model(design)
    with torch.no_grad():
        model.encoder.norm.gain.zero_()
        model.encoder.norm.bias.fill_(1.0)
        model.projection.weight.zero_()
        model.projection.weight[pieces.index(wanted)] = 1.0
    return model, Card("writing", {"text": "", "merges": 3}, 5, design, [pieces])


def test_a_language_model_goes_on_to_the_end_of_the_line_or_its_window(path):
    save_model(path, *writer("\n"))
    assert answer(*load_model(path), "ab cab") == []
    save_model(path, *writer("ab "))
    model, card = load_model(path)
    assert answer(model, card, "") == ["ab "] * 11, "behind the start of a line"
    assert answer(model, card, "ab ccc") == ["ab "] * 8, "ab_, cc, c"
    assert answer(model, card, "cab") == ["ab "] * 9
    with pytest.raises(ValueError, match="expected characters of its text, got 'x' in 'ax'"):
        answer(model, card, "ax")


@pytest.mark.parametrize("text", ["a z", "", " ", "A"])
def test_what_a_model_does_not_know_is_said(text):
    with pytest.raises(ValueError, match=r"expected .* got"):
        answer(*made(READER), text)

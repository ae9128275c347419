"""Model files of every wrong kind meet a ValueError, before anything is built."""

import json
import os
import random

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from lib.data import Vocabulary
from lib.transformer import Config, Transformer
from tests.helpers import unchecked
from train.checkpoints import _checksum, load_model, save_model

SOURCE, TARGET = Vocabulary("abcdefg"), Vocabulary("hijkl")
CONFIG = Config(len(SOURCE), len(TARGET), d_model=6, n_heads=2, d_ff=5, n_layers=2)
TIED = ("projection.weight", "target_embedding.weight")  # one matrix
NAME = "encoder.layers.1.self_attention.sublayer.w_k.weight"


@pytest.fixture
def path(tmp_path):
    torch.manual_seed(0)
    save_model(tmp_path / "model", Transformer(CONFIG), SOURCE, TARGET, {"loss": 0.5})
    return tmp_path / "model"


@pytest.fixture
def no_model(monkeypatch):
    """Fails the test if a model with memory is built."""
    real = Transformer.__init__

    def spy(self, config):
        real(self, config)
        assert self.projection.weight.device.type == "meta"

    monkeypatch.setattr(Transformer, "__init__", spy)


def card_of(path):
    with safe_open(str(path), "pt") as file:
        return json.loads(file.metadata()["card"])


def write(path, card, weights=None):
    """Write a file anew; a card with a checksum that has been left out gets the right one."""
    weights = load_file(path) if weights is None else weights
    if isinstance(card, dict) and "sha256" not in card:
        card = card | {"sha256": _checksum(weights.values(), card)}
    save_file(weights, path, {"card": card if isinstance(card, str) else json.dumps(card)})


@pytest.mark.parametrize("card", ["null", "[]", "3", '"card"', "{", "[" * 100_000, "{}"])
def test_a_card_that_is_no_card(path, card, no_model):
    write(path, card)
    with pytest.raises(ValueError, match=r"model: expected a (model that save|safetensors file)"):
        load_model(path)


@pytest.mark.parametrize("part", ["config", "source_vocab", "target_vocab"])
@pytest.mark.parametrize("value", [None, [], {}, 3, "x", "[]", '{"words": [["a"]]}', "left out"])
def test_a_card_with_a_wrong_part(path, part, value, no_model):
    card = card_of(path) | {part: value}
    if value == "left out":
        del card[part]
    write(path, card)
    with unchecked(), pytest.raises(ValueError, match="expected a card with a configuration"):
        load_model(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layers": 10**9}, "expected 1,000,000,000 layers, got 86 tensors"),
        ({"d_model": 10**15}, "expected smaller sizes, got Config"),
        ({"d_ff": 10**30}, "expected smaller sizes, got Config"),
        ({"d_model": 8}, "expected each parameter of Config.* once, got another or none"),
        ({"n_layers": 1}, "expected each parameter of Config.* once, got another or none"),
        ({"n_layers": "2"}, "n_layers to be a whole number above 0, got '2'"),
        ({"dropout": "0.1"}, "a dropout of at least 0 and below 1, got '0.1'"),
        ({"norm": ["pre"]}, r"norm out of pre, post, got \['pre'\]"),
        ({"tied": "no"}, "tied to be True or False, got 'no'"),
        ({"width": 3}, "unexpected keyword argument 'width'"),
    ],
)
def test_a_configuration_of_another_model(path, changes, message, no_model):
    card = card_of(path)
    card["config"] |= changes
    write(path, card)
    with unchecked(), pytest.raises(ValueError, match=message):
        load_model(path)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda w: {("x" + k if k == NAME else k): v for k, v in w.items()},
        lambda w: {k: v for k, v in w.items() if k != NAME},
        lambda w: w | {"extra": torch.ones(1)},
        lambda w: w | {NAME: w[NAME][:5].clone()},
        lambda w: w | {NAME: w[NAME][None].clone()},
        lambda w: w | {NAME: w[NAME].long()},
        lambda w: w | {name: torch.ones(9, 6) for name in TIED},
        lambda w: {},
    ],
    ids=["renamed", "missing", "extra", "shorter", "more_axes", "whole_numbers", "twice", "none"],
)
def test_other_tensors(path, spoil, no_model):
    write(path, card_of(path), spoil(load_file(path)))
    with pytest.raises(ValueError, match=r"once, got another or none|layers, got 0 tensors"):
        load_model(path)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_none(path, bad, tmp_path):
    weights, card = load_file(path), card_of(path)
    weights[NAME][3, 2] = bad
    del card["sha256"]
    write(path, card, weights)
    with pytest.raises(ValueError, match=f"finite numbers, got NaN or infinity in {NAME}"):
        load_model(path)
    model = Transformer(CONFIG)
    model.get_parameter(NAME).data[0, 0] = bad
    with pytest.raises(ValueError, match="the model: expected finite numbers, got NaN"):
        save_model(tmp_path / "new", model, SOURCE, TARGET)
    assert not (tmp_path / "new").exists()


def test_vocabularies_of_another_size(path, tmp_path):
    card = card_of(path)
    del card["sha256"]
    write(path, card | {"target_vocab": card["source_vocab"]})
    with pytest.raises(ValueError, match=r"vocabularies of \(11, 9\) tokens, got \(11, 11\)"):
        load_model(path)
    write(path, card | {"source_vocab": '{"words": ["a", "b", "a"]}'})
    with pytest.raises(ValueError, match="expected each token once"):
        load_model(path)
    with pytest.raises(ValueError, match=r"vocabularies of \(11, 9\) tokens, got \(11, 11\)"):
        save_model(tmp_path / "new", Transformer(CONFIG), SOURCE, SOURCE)
    assert not (tmp_path / "new").exists()


def test_another_word_or_setting_is_noticed(path, no_model):
    """Sizes and shapes stay as they were: only the checksum tells."""
    whole = card_of(path)
    for changes in (
        {"source_vocab": whole["source_vocab"].replace('"c"', '"z"')},
        {"config": whole["config"] | {"activation": "gelu"}},
        {"about": {"loss": 0.25}},
    ):
        write(path, whole | changes)
        with pytest.raises(ValueError, match=r"contents with the checksum .* damaged"):
            load_model(path)


def test_hardly_a_flipped_bit_goes_unnoticed(path):
    """What still loads is the same model: a bit of a name that nothing reads had changed."""
    rng = random.Random(0)
    whole, wanted = path.read_bytes(), load_model(path)
    unnoticed = 0
    for _ in range(100):
        spoilt = bytearray(whole)
        spoilt[rng.randrange(len(spoilt))] ^= 1 << rng.randrange(8)
        path.write_bytes(spoilt)
        try:
            found = load_model(path)
        except ValueError:
            continue
        unnoticed += 1
        assert found[0].config == CONFIG
        assert [vocab.tokens for vocab in found[1:]] == [vocab.tokens for vocab in wanted[1:]]
        state = wanted[0].state_dict()
        assert all(torch.equal(t, state[n]) for n, t in found[0].state_dict().items())
    assert unnoticed <= 3


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize(
    "make", [os.mkdir, lambda path: os.mkfifo(path), lambda path: os.symlink("/dev/zero", path)]
)
def test_no_file_but_something_else(tmp_path, make):
    make(tmp_path / "m")
    with pytest.raises(ValueError, match="expected a file, got a folder, a pipe or a device"):
        load_model(tmp_path / "m")

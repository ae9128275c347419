"""The paper's sizes as defaults, and an error for each field that cannot be."""

import dataclasses

import pytest

from lib.transformer import Config
from tests.helpers import unchecked


def test_defaults_are_the_paper_s_base_model():
    assert dataclasses.asdict(Config(37_000)) == {
        "source_vocab": 37_000,
        "target_vocab": None,
        "d_model": 512,
        "n_heads": 8,
        "d_ff": 2048,
        "n_layers": 6,
        "dropout": 0.1,
        "norm": "post",
        "positions": "sinusoidal",
        "activation": "relu",
        "tied": True,
        "max_length": 512,
    }
    assert Config(37_000).d_k == 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source_vocab": 0}, "source_vocab to be a whole number above 0, got 0"),
        ({"target_vocab": -1}, "target_vocab to be a whole number above 0, got -1"),
        ({"d_model": 64.0}, "d_model to be a whole number above 0, got 64.0"),
        ({"n_layers": True}, "n_layers to be a whole number above 0, got True"),
        ({"d_ff": "128"}, "d_ff to be a whole number above 0, got '128'"),
        ({"max_length": 0}, "max_length"),
        ({"n_heads": 7}, "d_model=512 and n_heads=7; change one of them"),
        ({"norm": "Pre"}, "norm out of pre, post, got 'Pre'"),
        ({"positions": "rope"}, "positions out of none, sinusoidal, learned, rotary, alibi"),
        ({"activation": "tanh"}, "activation out of relu, gelu, gelu_tanh, swiglu, got 'tanh'"),
        ({"dropout": 1.0}, "at least 0 and below 1, got 1.0"),
        ({"dropout": -0.1}, "at least 0 and below 1, got -0.1"),
        ({"d_model": 15, "n_heads": 5, "positions": "rotary"}, "even d_k .* got 3"),
    ],
    ids=str,
)
def test_a_field_that_cannot_be_is_named(changes, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        Config(**({"source_vocab": 100} | changes))


def test_it_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config(100).d_model = 3

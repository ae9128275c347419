"""How properties are asked: what findings say, what is refused, and what is left as it was."""

import copy

import pytest
import torch
from torch import nn

from chapters.mistakes.properties import (
    QUESTIONS,
    check_attention_layer,
    check_model,
    check_piece,
)
from chapters.mistakes.specimen import Specimen
from lib.attention import MultiHeadAttention
from lib.transformer import Config, Transformer

SIZES = {"d_model": 24, "n_heads": 3, "d_ff": 20, "n_layers": 2, "dropout": 0.0}


def ours(d_in, n_heads, d_out):
    return MultiHeadAttention(d_in, n_heads, d_out=d_out)


def test_count_and_copied_are_asked_only_with_something_to_compare():
    names = [
        f.name for f in check_model(lambda: Specimen(29, 23), 29, 23, only=("count", "copied"))
    ]
    assert names == []
    found = check_model(
        lambda: Specimen(29, 23), 29, 23, parameters=1, reference=Specimen.reference
    )
    assert found.caught == ["count"]
    assert "copied" in [f.name for f in found]
    assert [f.name for f in check_attention_layer(ours)] == ["sizes", "weights", "spread", "half"]


def test_names_of_properties_are_checked():
    with pytest.raises(ValueError, match=r"expected properties out of sizes, .* got \['futur'\]"):
        check_model(lambda: Specimen(29, 23), 29, 23, only=("futur",))
    with pytest.raises(ValueError, match=r"expected properties out of sizes, .* got 'future'"):
        check_model(lambda: Specimen(29, 23), 29, 23, only="future")
    with pytest.raises(ValueError, match=r"expected properties out of shift, .*'future'"):
        check_piece(None, "future")
    assert all(question.endswith("?") for question in QUESTIONS.values())


FINISHED = Specimen(29, 23)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (FINISHED, "got a finished Specimen; write it as lambda"),
        (lambda: FINISHED, "got one that gives the same Specimen.* copy.deepcopy"),
        (lambda: nn.Sequential(FINISHED), "or the same parameters, twice"),
        (lambda: None, "got one that makes None"),
    ],
)
def test_a_model_that_is_not_made_anew_is_refused_and_left_as_it_was(make, message):
    before = {name: value.clone() for name, value in FINISHED.state_dict().items()}
    with pytest.raises(ValueError, match=f"expected a function that makes a new module.*{message}"):
        check_model(make, 29, 23)
    with pytest.raises(ValueError, match=message):
        check_attention_layer(make if isinstance(make, nn.Module) else lambda *_: make())
    assert FINISHED.training
    assert all(torch.equal(before[name], value) for name, value in FINISHED.state_dict().items())


def test_a_copied_model_is_left_as_it_was():
    model = Transformer(Config(29, 23, **SIZES))
    before, numbers = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    only = ("future", "moves", "learns", "one batch", "copied")
    given = {"reference": lambda m: Transformer(m.config), "only": only}
    assert check_model(lambda: copy.deepcopy(model), 29, 23, **given).caught == []
    assert model.training
    assert torch.equal(numbers, torch.get_rng_state())
    assert torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_vocabularies_of_two_words_are_enough_and_of_one_refused():
    only = ("sizes", "future", "depends", "order", "stepwise")
    assert check_model(lambda: Specimen(5, 5), 5, 5, only=only).caught == []
    with pytest.raises(ValueError, match=r"at least 5 tokens.* got 29 and 4"):
        check_model(lambda: Specimen(29, 4), 29, 4)

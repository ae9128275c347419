"""The checks of the chapter on mistakes: they pass what is mended and name what is left."""

import runpy

import pytest
import torch
from torch import nn

from kit.mistakes.checks import (
    check_leak_finder,
    check_mended_layer,
    check_mended_map,
    check_mended_positions,
)
from kit.shared.checks import CheckFailed
from tests.paths import ROOT

ANSWERS = runpy.run_path(str(ROOT / "tests" / "notebooks" / "wrong_answers" / "15_mistakes.py"))
map_with, layer_with = ANSWERS["map_with"], ANSWERS["layer_with"]
positions_with = ANSWERS["positions_with"]


def test_what_is_mended_passes():
    assert len(check_mended_map(map_with()).held) == 3
    assert len(check_mended_layer(layer_with()).held) == 4
    assert len(check_mended_positions(positions_with()).held) == 3


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (map_with(root=1), "FAIL spread"),
        (map_with(axis=-2), "FAIL weights"),
        (map_with(fill="billion"), "FAIL half"),
        (map_with(empty=False), "a row without a key is not 0"),
        (map_with(fill="inf", empty=False), "FAIL weights .*inf"),
        (lambda *_: None, "expected a tensor of weights, got None"),
    ],
)
def test_map_is_told_what_is_left(answer, message):
    with pytest.raises(CheckFailed, match=message):
        check_mended_map(answer)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (layer_with(in_init=False), "repeat:"),
        (layer_with(by_reshape=True), "copied:"),
        (layer_with(slices=True), "count:"),
        (lambda *_: nn.Linear(12, 7), r"expected \(2, 5, 20\), got \(2, 5, 7\)"),
        (lambda *_: nn.Linear(5, 20), "your function raised RuntimeError"),
    ],
)
def test_layer_is_told_what_is_left(answer, message):
    with pytest.raises(CheckFailed, match=message):
        check_mended_layer(answer)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (positions_with(exponent=False), "shift: no matrix does"),
        (positions_with(buffer=False), "moves: .*table would stay behind"),
        (positions_with(start=False), "start is not heard"),
        (positions_with(zero=True), "two positions have the same code"),
        (lambda *_: None, "expected a module, got None"),
    ],
)
def test_positions_are_told_what_is_left(answer, message):
    with pytest.raises(CheckFailed, match=message):
        check_mended_positions(answer)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("in_use_only", "a mask in training|a mask in use only: no leak was found"),
        ("dropout_forgotten", "a right model with dropout: a leak was found"),
        ("next_token_only", "a first position that sees the last: no leak"),
        ("mode_not_restored", "left in another mode"),
    ],
)
def test_finder_is_told_which_model_it_judged_wrongly(answer, message):
    with pytest.raises(CheckFailed, match=message):
        check_leak_finder(ANSWERS[answer])


def test_finder_must_answer_and_leave_the_target_alone():
    with pytest.raises(CheckFailed, match="expected True or False, got None"):
        check_leak_finder(lambda *_: None)

    def spoils(model, source, lengths, target):
        target.fill_(5)
        return False

    with pytest.raises(CheckFailed, match="argument 4 was changed by your function"):
        check_leak_finder(spoils)
    with pytest.raises(CheckFailed, match="a right model: a leak was found"):
        check_leak_finder(lambda *_: bool(torch.ones(1)))

"""The checks of the chapter on mistakes: what the exercises' listed answers do not try.

Right and wrong answers with what each is told stand in book/chapters/mistakes/answers.py."""

import runpy

import pytest
import torch
from torch import nn

from chapters.mistakes.checks import (
    check_fixed_layer,
    check_fixed_map,
    check_fixed_positions,
    check_leak_finder,
)
from checks.framework import CheckFailed
from tests.paths import BOOK

RIGHT = runpy.run_path(str(BOOK / "chapters" / "mistakes" / "answers.py"))["RIGHT"]


def test_what_is_fixed_passes():
    assert len(check_fixed_map(RIGHT["fixed_map"][0]).held) == 3
    assert len(check_fixed_layer(RIGHT["FixedLayer"][0]).held) == 4
    assert len(check_fixed_positions(RIGHT["FixedPositions"][0]).held) == 3
    assert len(check_leak_finder(RIGHT["finds_leak"][0]).held) == 8


@pytest.mark.parametrize(
    ("check", "answer", "message"),
    [
        (check_fixed_map, lambda *_: None, "expected a tensor of weights, got None"),
        (
            check_fixed_layer,
            lambda *_: nn.Linear(12, 7),
            r"expected an output of shape \(2, 5, 20\), got \(2, 5, 7\)",
        ),
        (check_fixed_layer, lambda *_: None, "expected a module, got None"),
        (check_fixed_layer, lambda *_: nn.Linear(5, 20), "your function raised RuntimeError"),
        (check_fixed_positions, lambda *_: None, "expected a module, got None"),
        (check_leak_finder, lambda *_: None, "expected True or False, got None"),
        (check_leak_finder, lambda *_: bool(torch.ones(1)), "a right model: a leak was found"),
    ],
)
def test_what_is_no_answer_is_told(check, answer, message):
    with pytest.raises(CheckFailed, match=message):
        check(answer)

"""The checks of assembled Transformers: what they show, and what they leave as it was.

What they say of answers stands in answers.py.
"""

import pytest
import torch

from chapters.transformer.checks import (
    check_count,
    check_decoder_layer,
    check_forward,
    check_shift_right,
)
from checks.framework import CheckFailed
from lib.data import BOS
from lib.transformer import Transformer


def test_the_library_passes():
    before = torch.get_rng_state()
    assert len(check_forward(lambda model, *inputs: model(*inputs)).held) == 3
    report = check_shift_right(lambda t: t.roll(1, 1).index_fill_(1, torch.tensor(0), BOS))
    assert len(report.held) == 2
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("check", [check_shift_right, check_decoder_layer, check_forward])
def test_no_answer_is_no_tensor(check):
    with pytest.raises(CheckFailed, match=r"expected a tensor.*got None"):
        check(lambda *inputs: None)


def test_models_can_be_built_after_a_count():
    with pytest.raises(CheckFailed, match="a model is built here"):
        check_count(Transformer)
    with pytest.raises(CheckFailed, match="expected a whole number, got None"):
        check_count(lambda config: None)
    torch.nn.Linear(2, 3)

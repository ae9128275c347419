"""The checks of training: what the exercises' listed answers do not try.

Right and wrong answers with what each is told stand in book/chapters/training/answers.py."""

import runpy

import pytest
import torch

from chapters.training.checks import (
    check_accumulation,
    check_linear_schedule,
    check_loss_of_parts,
    check_shift_right,
)
from checks.framework import CheckFailed
from lib.data import PAD
from tests.paths import BOOK

GIVEN = runpy.run_path(str(BOOK / "chapters" / "training" / "answers.py"))
RIGHT = {name: answers[0] for name, answers in GIVEN["RIGHT"].items()}


@pytest.mark.parametrize(
    ("check", "name"),
    [
        (check_shift_right, "shift_right"),
        (check_loss_of_parts, "loss_of_parts"),
        (check_linear_schedule, "linear_schedule"),
        (check_accumulation, "train_in_parts"),
    ],
)
def test_right_answers_pass_and_nothing_is_no_answer(check, name):
    assert len(check(RIGHT[name]).held) == 3
    with pytest.raises(CheckFailed):
        check(lambda *_: None)


def test_padding_on_the_right_is_asked_for():
    def spoilt(sentences):
        target_in, target_out = RIGHT["shift_right"](sentences)
        return target_in, target_out.masked_fill(target_out == PAD, 7)

    with pytest.raises(CheckFailed, match=r"expected \[7, 9, 8, 2, 0, 0\], got .* PAD = 0"):
        check_shift_right(spoilt)


def test_a_loss_that_knows_its_shapes_only_is_found():
    def remembers(logits, targets):
        return RIGHT["loss_of_parts"]([x[:, :8] for x in logits], [y[:, :8] for y in targets]) + (
            0 if targets[0].shape[1] < 5 else 1
        )

    with pytest.raises(CheckFailed, match="more padding"):
        check_loss_of_parts(remembers)


def test_updates_beyond_the_parts_are_found():
    def once_more(model, optimizer, parts, schedule, accumulate):
        RIGHT["train_in_parts"](model, optimizer, parts, schedule, accumulate)
        optimizer.step()

    with pytest.raises(CheckFailed, match="expected 6 updates, got more"):
        check_accumulation(once_more)


def test_a_check_leaves_torchs_random_numbers_alone():
    before = torch.get_rng_state()
    check_accumulation(RIGHT["train_in_parts"])
    assert torch.equal(before, torch.get_rng_state())

"""The checks of training: they pass what is right and reject each classic mistake."""

import runpy

import pytest
import torch

from kit.shared.checks import CheckFailed
from kit.training.checks import (
    check_accumulation,
    check_linear_schedule,
    check_loss_of_parts,
    check_shift_right,
)
from lib.data import PAD, pad_batch
from lib.training import update
from tests.paths import ROOT

GIVEN = runpy.run_path(str(ROOT / "tests" / "notebooks" / "wrong_answers" / "11_training.py"))
WRONG = GIVEN["WRONG"]


def shift_right(sentences):
    batch = pad_batch(sentences, sentences)
    return batch.target_in, batch.target_out


def loss_of_parts(logits, targets):
    flat = torch.cat([x[y != PAD] for x, y in zip(logits, targets, strict=True)])
    return torch.nn.functional.cross_entropy(flat, torch.cat([y[y != PAD] for y in targets]))


def train_in_parts(model, optimizer, parts, schedule, accumulate):
    """The library's own way: `update` clips too, so the bound is out of reach."""
    for step in range(len(parts) // accumulate):
        optimizer.param_groups[0]["lr"] = schedule(step)
        group = parts[step * accumulate : (step + 1) * accumulate]
        update(model, optimizer, group, clip=1e9)


@pytest.mark.parametrize(
    ("check", "answer", "properties"),
    [
        (check_shift_right, shift_right, 3),
        (check_loss_of_parts, loss_of_parts, 3),
        (check_linear_schedule, GIVEN["rises_and_falls"], 3),
        (check_accumulation, train_in_parts, 3),
    ],
)
def test_right_answers_pass_and_nothing_is_no_answer(check, answer, properties):
    assert len(check(answer).held) == properties
    with pytest.raises(CheckFailed):
        check(lambda *_: None)


@pytest.mark.parametrize(
    ("check", "name", "number", "message"),
    [
        (check_shift_right, "shift_right", 0, "the decoder would read its answer"),
        (check_shift_right, "shift_right", 2, "target_in begins with BOS"),
        (check_shift_right, "shift_right", 3, "target_out begins with"),
        (check_shift_right, "shift_right", 4, r"expected \(batch, time\) = \(4, 6\)"),
        (check_loss_of_parts, "loss_of_parts", 0, "the mean of the parts' means"),
        (check_loss_of_parts, "loss_of_parts", 4, "divided by 64 places"),
        (check_loss_of_parts, "loss_of_parts", 7, "no gradient"),
        (check_linear_schedule, "linear_schedule", 0, "the rate of step 0 is 0"),
        (check_linear_schedule, "linear_schedule", 2, "at step 104, got -0.0104"),
        (check_linear_schedule, "linear_schedule", 3, "at step 8"),
        (check_accumulation, "train_in_parts", 0, "the schedule counts updates"),
        (check_accumulation, "train_in_parts", 2, "not that of one big batch"),
        (check_accumulation, "train_in_parts", 4, "accumulate=1, update 1: the gradient"),
    ],
)
def test_the_message_names_the_mistake(check, name, number, message):
    with pytest.raises(CheckFailed, match=message):
        check(WRONG[name][number])


def test_padding_on_the_right_is_asked_for():
    def spoilt(sentences):
        target_in, target_out = shift_right(sentences)
        return target_in, target_out.masked_fill(target_out == PAD, 7)

    with pytest.raises(CheckFailed, match="expected PAD = 0 at the end"):
        check_shift_right(spoilt)


def test_a_loss_that_knows_its_shapes_only_is_found():
    def remembers(logits, targets):
        return loss_of_parts([x[:, :8] for x in logits], [y[:, :8] for y in targets]) + (
            0 if targets[0].shape[1] < 5 else 1
        )

    with pytest.raises(CheckFailed, match="more padding"):
        check_loss_of_parts(remembers)


def test_errors_inside_an_answer_are_failed_checks():
    with pytest.raises(CheckFailed, match="your function raised ZeroDivisionError"):
        check_linear_schedule(lambda steps, warmup: 1 / 0)


def test_updates_beyond_the_parts_are_found():
    def once_more(model, optimizer, parts, schedule, accumulate):
        train_in_parts(model, optimizer, parts, schedule, accumulate)
        optimizer.step()

    with pytest.raises(CheckFailed, match="expected 6 updates, got more"):
        check_accumulation(once_more)

"""The checks of the recurrent exercises: faults that no listed answer has."""

import pytest
import torch

from chapters.seq2seq.checks import check_last_states, check_lstm_step, check_shift_right
from checks.framework import CheckFailed
from lib.data import BOS, EOS, PAD


def last_states(states, lengths):
    return states[torch.arange(len(lengths)), lengths - 1]


def shift(target):
    moved = torch.nn.functional.pad(target[:, :-1], (1, 0), value=BOS)
    return moved.masked_fill(moved == EOS, PAD)


def lstm(x, h, c, W, U, b):
    return torch.lstm_cell(x, (h, c), W, U, b, torch.zeros_like(b))


@pytest.mark.parametrize(
    ("check", "right", "wrong", "message"),
    [
        (
            check_last_states,
            last_states,
            lambda s, n: None,
            r"expected a tensor of shape \(5, 2\), got None",
        ),
        (check_last_states, last_states, lambda s, n: last_states(s, n)[:1], r"got \(1, 2\)"),
        (
            check_last_states,
            last_states,
            lambda s, n: last_states(s, n) + (s - s.detach()).sum(),
            "the gradient of states is wrong",
        ),
        (check_shift_right, shift, lambda t: None, "expected a tensor"),
        (check_shift_right, shift, lambda t: shift(t).where(shift(t) != 8, 9), "expected rows"),
        (check_lstm_step, lstm, lambda *_: None, "expected two tensors, .* got None$"),
        (check_lstm_step, lstm, lambda *inputs: (lstm(*inputs)[1],) * 2, "h is not c"),
        (check_lstm_step, lstm, lambda *inputs: [x[:2] for x in lstm(*inputs)], "of shape"),
    ],
)
def test_a_fault_is_named(check, right, wrong, message):
    assert check(right)
    with pytest.raises(CheckFailed, match=message):
        check(wrong)

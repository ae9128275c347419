"""The checks of the recurrent exercises: right answers pass, each known fault is named."""

import pytest
import torch
from torch import nn

from kit.seq2seq.checks import check_last_states, check_lstm_step, check_shift_right
from kit.shared.checks import CheckFailed, Report
from lib.data import BOS, EOS, PAD


def last_states(states, lengths):
    return states[torch.arange(len(lengths)), lengths - 1]


@pytest.mark.parametrize(
    ("pick", "message"),
    [
        (lambda s, n: None, "expected a tensor"),
        (lambda s, n: s[:, -1], "end of the padding"),
        (lambda s, n: s[torch.arange(5), n.clamp(max=6)], "one too late"),
        (lambda s, n: s[:, 0], "row b must be"),
        (lambda s, n: last_states(s, n)[:1], "of shape"),
        (lambda s, n: last_states(s, n) + (s - s.detach()).sum(), "no other"),
    ],
)
def test_last_states(pick, message):
    assert isinstance(check_last_states(last_states), Report)
    with pytest.raises(CheckFailed, match=message):
        check_last_states(pick)


def shift(target):
    moved = nn.functional.pad(target[:, :-1], (1, 0), value=BOS)
    return moved.masked_fill(moved == EOS, PAD)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda t: None, "expected a tensor"),
        (lambda t: t, "not shifted"),
        (lambda t: t.roll(1, dims=1), "start with BOS"),
        (lambda t: nn.functional.pad(t[:, :-1], (1, 0), value=BOS), "EOS must not be read"),
        (lambda t: nn.functional.pad(t, (1, 0), value=BOS), "of shape"),
        (lambda t: nn.functional.pad(t[:, 1:], (1, 0), value=BOS), r"\[1, 7, 5, 9, 11\]"),
        (lambda t: shift(t).masked_fill(shift(t) == 8, 9), "expected rows"),
        (lambda t: shift(t.add_(0).clamp_(max=3)), "argument 1 was changed"),
    ],
)
def test_shift_right(wrong, message):
    assert isinstance(check_shift_right(shift), Report)
    with pytest.raises(CheckFailed, match=message):
        check_shift_right(wrong)


def lstm(order=(0, 1, 2, 3), squash=torch.tanh, candidate=torch.tanh, out=lambda h, c: (h, c)):
    def step(x, h, c, W, U, b):
        parts = (x @ W.T + h @ U.T + b).chunk(4, dim=-1)
        i, f, g, o = (parts[k] for k in order)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * candidate(g)
        return out(torch.sigmoid(o) * squash(c), c)

    return step


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda *_: None, "expected two tensors"),
        (lstm(out=lambda h, c: (c, h)), "swapped"),
        (lstm(order=(1, 0, 2, 3)), "c is wrong"),
        (lstm(order=(0, 1, 3, 2)), "c is wrong"),
        (lstm(candidate=torch.sigmoid), "c is wrong"),
        (lstm(squash=lambda c: c), "c is right, h is wrong"),
        (lstm(out=lambda h, c: (c, c)), "h is not c"),
        (lstm(out=lambda h, c: (h[:2], c)), "of shape"),
    ],
)
def test_lstm_step(wrong, message):
    assert isinstance(check_lstm_step(lstm()), Report)
    with pytest.raises(CheckFailed, match=message):
        check_lstm_step(wrong)

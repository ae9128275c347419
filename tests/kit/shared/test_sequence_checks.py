"""The checks of sequence models: right answers pass, each known fault is named."""

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn

from kit.seq2seq.checks import check_last_states, check_lstm_step, check_shift_right
from kit.shared.checks import CheckFailed, Report
from kit.shared.sequence_checks import check_sequence_model
from lib.data import BOS, EOS, PAD
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq

N_SOURCE, N_TARGET = 13, 11


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
        (lambda t: shift(t.add_(0).clamp_(max=3)), "was changed"),
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


@pytest.fixture(params=[Seq2Seq, AttentionSeq2Seq], ids=lambda model: model.__name__)
def model(request):
    torch.manual_seed(0)
    return request.param(N_SOURCE, N_TARGET, 7, 17).double()


@pytest.mark.parametrize("mode", [True, False])
def test_sequence_model(model, mode):
    assert len(check_sequence_model(model.train(mode), N_SOURCE, N_TARGET).held) == 4
    assert model.training is mode


class ReadsPadding(Seq2Seq):
    def start(self, source, source_lengths):
        return super().start(source, torch.full_like(source_lengths, source.shape[1]))


class MindsWidth(Seq2Seq):
    def start(self, source, source_lengths):
        state = super().start(source, source_lengths)
        return state._replace(s=state.s + 0.1 * source.shape[1])


class SeesTheFuture(Seq2Seq):
    def forward(self, source, source_lengths, target_in):
        logits = super().forward(source, source_lengths, target_in)
        return logits + logits.mean(dim=1, keepdim=True)


class IgnoresTheSource(Seq2Seq):
    def start(self, source, source_lengths):
        return super().start(torch.ones_like(source), torch.ones_like(source_lengths))


class IgnoresTheTarget(Seq2Seq):
    def forward(self, source, source_lengths, target_in):
        return super().forward(source, source_lengths, torch.ones_like(target_in))


class ForgetsItsState(Seq2Seq):
    def step(self, token, state):
        logits, weights, _ = super().step(token, state)
        return logits, weights, state


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (ReadsPadding, "padding in the source is read"),
        (MindsWidth, "other logits alone than in a batch"),
        (SeesTheFuture, "a step before 1 sees token 1"),
        (IgnoresTheSource, "the source was changed and the logits were not"),
        (IgnoresTheTarget, "step 0 does not see its token"),
        (ForgetsItsState, "step by step gives other logits"),
    ],
)
def test_sequence_model_faults(wrong, message):
    torch.manual_seed(0)
    with pytest.raises(CheckFailed, match=message):
        check_sequence_model(wrong(N_SOURCE, N_TARGET, 7, 17).double(), N_SOURCE, N_TARGET)


def test_a_notebook_shows_the_message_and_not_the_library():
    shell = InteractiveShell.instance()
    shown = []
    shell._showtraceback = lambda kind, value, lines: shown.extend(lines)
    shell.run_cell("from kit.shared.checks import require\nrequire(False, 'no such luck')")
    assert shown == ["CheckFailed: no such luck"]
    InteractiveShell.clear_instance()

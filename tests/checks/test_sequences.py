"""The checks of sequence models: right answers pass, each known fault is named."""

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from checks.framework import CheckFailed
from checks.sequences import check_sequence_model
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq

N_SOURCE, N_TARGET = 13, 11


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
        (SeesTheFuture, "a step before 1 depends on token 1"),
        (IgnoresTheSource, "the source was changed and the logits were not"),
        (IgnoresTheTarget, "step 0 does not depend on its token"),
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
    shell.run_cell("from checks.framework import require\nrequire(False, 'no such luck')")
    assert shown == ["CheckFailed: no such luck"]
    InteractiveShell.clear_instance()

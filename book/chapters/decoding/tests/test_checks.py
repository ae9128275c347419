"""The checks of decoding: the library passes, and no answer does not.

Right and wrong answers with what each is told stand in book/chapters/decoding/answers.py."""

import pytest
import torch

from chapters.decoding.checks import (
    check_best_ended,
    check_clipped_precision,
    check_greedy_batch,
    check_nucleus,
)
from checks.framework import CheckFailed
from lib.data import EOS
from lib.decoding import greedy, keep_top_p, length_penalty


def best_ended(log_p, lengths, alpha):
    penalties = torch.tensor([length_penalty(n, alpha) for n in lengths.tolist()])
    return (log_p / penalties).argmax()


def test_the_library_passes():
    assert len(check_greedy_batch(lambda *a: greedy(*a)[0]).held) == 3
    assert len(check_best_ended(best_ended).held) == 2
    assert len(check_nucleus(lambda x, p, t: keep_top_p(x / t, p).softmax(-1)).held) == 3


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (check_greedy_batch, "expected a tensor of tokens, got None"),
        (check_best_ended, "expected the number of a hypothesis, got None"),
        (check_nucleus, r"expected a tensor of shape \(5,\), got None"),
        (check_clipped_precision, "expected a number from 0 to 1, got None"),
    ],
)
def test_an_empty_answer_fails(check, message):
    with pytest.raises(CheckFailed, match=message):
        check(lambda *_: None)


def test_decoding_that_never_ends_is_stopped():
    def endless(model, source, source_lengths, max_length):
        state, token = model.start(source, source_lengths), torch.ones_like(source_lengths)
        while True:
            logits, _, state = model.step(token, state)
            token = logits.argmax(-1)

    with pytest.raises(CheckFailed, match="a seventh step: all had ended after four"):
        check_greedy_batch(endless)


def test_what_is_fed_after_the_end_is_free():
    def feeds_the_end(model, source, source_lengths, max_length):
        class Fed:
            start = model.start

            def step(self, token, state):
                return model.step(token.where(token != 0, EOS), state)

        return greedy_of(Fed(), source, source_lengths, max_length)

    def greedy_of(model, source, source_lengths, max_length):
        state, token, steps = model.start(source, source_lengths), torch.ones(3).long(), []
        ended = token == EOS
        while len(steps) < max_length and not ended.all():
            logits, _, state = model.step(token, state)
            token = logits.argmax(-1).masked_fill(ended, 0)
            ended = ended | (token == EOS)
            steps.append(token)
        return torch.stack(steps, dim=1)

    assert check_greedy_batch(feeds_the_end)

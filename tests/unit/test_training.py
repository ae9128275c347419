"""The loss counts real tokens only; the loop learns, repeats itself, and refuses bad numbers."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lib.data import EOS, PAD, Batch, Pair, Vocabulary
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq
from lib.training import cosine, endless, token_loss, train

BATCH, TIME, VOCAB = 5, 7, 11


def random_target(lengths=(2, 7, 1, 5, 3)):
    target = torch.randint(EOS + 1, VOCAB, (BATCH, TIME))
    target[torch.arange(TIME) >= torch.tensor(lengths)[:, None]] = PAD
    return target


def test_loss_equals_a_loop_over_real_tokens():
    logits, target = torch.randn(BATCH, TIME, VOCAB).double(), random_target()
    surprise = [
        -torch.log_softmax(logits[row, place], dim=-1)[target[row, place]]
        for row, place in itertools.product(range(BATCH), range(TIME))
        if target[row, place] != PAD
    ]
    torch.testing.assert_close(token_loss(logits, target), sum(surprise) / len(surprise))


def test_loss_does_not_change_with_more_padding():
    logits, target = torch.randn(BATCH, TIME, VOCAB), random_target()
    longer = F.pad(logits, (0, 0, 0, 3), value=5.0), F.pad(target, (0, 3), value=PAD)
    torch.testing.assert_close(token_loss(*longer), token_loss(logits, target))


def test_loss_sends_nothing_back_to_padding():
    logits, target = torch.randn(BATCH, TIME, VOCAB, requires_grad=True), random_target()
    token_loss(logits, target).backward()
    assert (logits.grad[target == PAD] == 0).all()
    assert (logits.grad[target != PAD].abs().sum(-1) > 0).all()


def test_loss_of_nothing_is_zero():
    assert token_loss(torch.randn(2, 3, VOCAB), torch.full((2, 3), PAD)) == 0


def test_cosine_rises_then_falls():
    factor = cosine(steps=103, warmup=3)
    assert [round(factor(i), 9) for i in range(4)] == [round(1 / 3, 9), round(2 / 3, 9), 1, 1]
    assert factor(53) == pytest.approx(0.5)
    assert 0 < factor(102) < 0.001
    assert factor(103) == factor(500) == 0
    values = [factor(i) for i in range(3, 103)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("steps", "warmup"), [(10, 10), (10, -1), (0, 0)])
def test_cosine_needs_room(steps, warmup):
    with pytest.raises(ValueError, match=r"expected 0 <= warmup < steps, got warmup"):
        cosine(steps, warmup)


def reversal_task(seed=0):
    """Sentences of three to five letters and the same backwards."""
    generator = torch.Generator().manual_seed(seed)
    words = "abcdefg"
    pairs = []
    for length in torch.randint(3, 6, (300,), generator=generator).tolist():
        letters = torch.randint(len(words), (length,), generator=generator).tolist()
        source = tuple(words[i] for i in letters)
        pairs.append(Pair(source, source[::-1]))
    return pairs, Vocabulary(words)


def fit(model_class=Seq2Seq, steps=30, seed=0, **options):
    pairs, vocab = reversal_task()
    torch.manual_seed(seed)
    model = model_class(len(vocab), len(vocab), 17, 31)
    stream = endless(pairs, vocab, vocab, 32, seed=seed)
    return model, train(model, stream, steps, 1e-2, **options)


@pytest.mark.parametrize("model_class", [Seq2Seq, AttentionSeq2Seq])
def test_a_model_learns(model_class):
    model, losses = fit(model_class, steps=80)
    assert len(losses) == 80
    assert losses[0] == pytest.approx(math.log(11), rel=0.15)
    assert losses[-1] < 0.6 * losses[0]
    assert not model.training


def test_training_repeats_itself():
    assert fit()[1] == fit()[1]
    assert fit()[1] != fit(seed=1)[1]


class Recorder(nn.Module):
    """A model of one number per token; the batch goes unread."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(TIME, VOCAB))
        self.modes = []

    def forward(self, source, source_lengths, target_in):
        self.modes.append(self.training)
        return self.table.expand(len(source), TIME, VOCAB)


def batch():
    target = random_target()
    lengths = torch.full((BATCH,), TIME)
    return Batch(target, lengths, target, target)


def test_schedule_multiplies_the_rate():
    optimizer_rates = []
    model = Recorder()
    optimizer = torch.optim.SGD(model.parameters(), lr=99.0)
    optimizer.register_step_pre_hook(lambda o, *_: optimizer_rates.append(o.param_groups[0]["lr"]))
    train(model, [batch()] * 3, 3, 0.5, schedule=lambda i: 1 / (i + 1), optimizer=optimizer)
    assert optimizer_rates == pytest.approx([0.5, 0.25, 0.5 / 3])
    assert model.modes == [True] * 3


def test_a_long_gradient_is_shortened():
    """Under plain gradient descent the step cannot be longer than lr * clip."""
    model = Recorder()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    train(
        model,
        [batch()],
        1,
        1.0,
        clip=0.125,
        loss_function=lambda logits, target: 1000 * token_loss(logits, target),
        optimizer=optimizer,
    )
    assert model.table.norm().item() == pytest.approx(0.125, rel=1e-4)


@pytest.mark.parametrize("bad", [{"steps": 0}, {"lr": -1.0}, {"clip": 0.0}, {"lr": math.nan}])
def test_bad_numbers(bad):
    numbers = {"steps": 1, "lr": 1e-2} | bad
    with pytest.raises(ValueError, match=rf"expected {next(iter(bad))} above 0"):
        train(Recorder(), [batch()], **numbers)


def test_a_short_stream_is_an_error():
    with pytest.raises(ValueError, match=r"expected 3 batches, got 2: give a longer stream"):
        train(Recorder(), [batch()] * 2, 3, 1e-2)


def test_a_loss_that_breaks_is_reported():
    with pytest.raises(FloatingPointError, match=r"got nan by step 2: lower lr"):
        train(Recorder(), [batch()] * 2, 2, 1e-2, loss_function=lambda x, _: x.sum() * math.nan)


def test_endless_starts_again_in_a_new_order():
    pairs, vocab = reversal_task()
    stream = endless(pairs, vocab, vocab, 100, seed=0)
    epochs = [[next(stream) for _ in range(3)] for _ in range(2)]
    rows = [[tuple(row) for b in epoch for row in b.target_out.tolist()] for epoch in epochs]
    strip = [sorted(tuple(t for t in row if t != PAD) for row in epoch) for epoch in rows]
    assert strip[0] == strip[1]
    assert rows[0] != rows[1]

"""The loss counts real tokens only; the loop learns, repeats itself, and refuses bad numbers."""

import itertools
import math
import re
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from lib import training
from lib.data import (
    BOS,
    EOS,
    PAD,
    Batch,
    Pair,
    Vocabulary,
    batches,
    endless,
    make_batch,
    token_batches,
)
from lib.decoding import translate
from lib.seq2seq import AttentionSeq2Seq, Seq2Seq
from lib.training import (
    cosine,
    count_tokens,
    label_smoothed_loss,
    paper_adam,
    paper_schedule,
    teacher_forcing,
    token_loss,
    train,
    update,
    validation_loss,
)
from lib.transformer import Config, Transformer
from tasks.translation import translation_pairs
from tests.helpers import assert_close

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
        loss=lambda model, part: (1000 * teacher_forcing(model, part)[0], 23),
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
        train(Recorder(), [batch()] * 2, 2, 1e-2, loss=lambda m, _: (m.table.sum() * math.nan, 1))


@pytest.mark.parametrize("was_training", [True, False])
def test_after_an_error_a_model_is_in_the_mode_that_it_came_in(was_training):
    def fails(model, part):
        raise KeyboardInterrupt

    model = Recorder().train(was_training)
    with pytest.raises(KeyboardInterrupt):
        train(model, [batch()], 1, 1e-2, loss=fails)
    assert model.training == was_training
    with pytest.raises(KeyboardInterrupt):
        validation_loss(model, [batch()], loss=fails)
    assert model.training == was_training


def test_a_loop_needs_no_sentences():
    """Any batch with `to`, any loss that counts: a line fitted to points, as tensors."""
    points = [torch.stack([x, 3 * x]) for x in torch.randn(200, 17, 1)]

    def squares(model, part):
        x, y = part
        return (model(x) - y).square().sum(), len(x)

    model = nn.Linear(1, 1)
    losses = train(model, points, 200, 0.1, loss=squares)
    assert losses[-1] < 1e-3 < losses[0]
    assert model.weight.item() == pytest.approx(3, abs=0.05)


def test_another_reduction_is_refused():
    for loss in (token_loss, label_smoothed_loss):
        with pytest.raises(ValueError, match='expected reduction "mean" or "sum"'):
            loss(torch.randn(2, 3, VOCAB), torch.full((2, 3), 5), reduction="none")


def test_endless_starts_again_in_a_new_order():
    pairs, vocab = reversal_task()
    stream = endless(pairs, vocab, vocab, 100, seed=0)
    epochs = [[next(stream) for _ in range(3)] for _ in range(2)]
    rows = [[tuple(row) for b in epoch for row in b.target_out.tolist()] for epoch in epochs]
    strip = [sorted(tuple(t for t in row if t != PAD) for row in epoch) for epoch in rows]
    assert strip[0] == strip[1]
    assert rows[0] != rows[1]


# --- one update of several batches ----------------------------------------------------------------


def small_transformer(dropout=0.0, dtype=torch.float64, **sizes):
    _, vocab = reversal_task()
    torch.manual_seed(0)
    chosen = {"d_model": 6, "n_heads": 2, "d_ff": 13, "n_layers": 1, "norm": "pre"} | sizes
    return Transformer(Config(len(vocab), len(vocab), dropout=dropout, **chosen)).to(dtype)


def unequal_parts(starts=(0, 2, 9)):
    """Batches of 2, 7 and 23 pairs: their numbers of tokens differ, and so does their padding."""
    pairs, vocab = reversal_task()
    cuts = [pairs[start:stop] for start, stop in pairwise((*starts, 32))]
    return [make_batch(cut, vocab, vocab) for cut in cuts], make_batch(pairs[:32], vocab, vocab)


@pytest.mark.parametrize("starts", [(0, 9), (0, 2, 9)])
@pytest.mark.parametrize("criterion", [token_loss, label_smoothed_loss])
def test_accumulation_equals_one_big_batch(criterion, starts):
    parts, whole = unequal_parts(starts)
    one, other = small_transformer(), small_transformer()
    losses = []
    for model, given in ((one, parts), (other, [whole])):
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        loss = partial(teacher_forcing, criterion=criterion)
        losses.append(update(model, optimizer, given, loss, clip=1e9))
    assert_close(losses[0][0], losses[1][0], 1e-10)
    assert losses[0][1] == losses[1][1] == count_tokens(whole)
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert_close(a.grad, b.grad, 1e-10)
        assert_close(a.data, b.data, 1e-10)
        assert a.grad.any() or "key" in name


def test_a_mean_of_means_would_be_another_loss():
    """What the test above would miss if the parts had equally many tokens."""
    parts, whole = unequal_parts()
    model = small_transformer()
    means = [
        token_loss(model(b.source, b.source_lengths, b.target_in), b.target_out).item()
        for b in (*parts, whole)
    ]
    assert abs(sum(means[:3]) / 3 - means[3]) > 1e-3


def test_schedule_steps_once_per_update():
    seen = []
    batches_seen = itertools.repeat(batch())
    losses = train(
        Recorder(), batches_seen, 3, 0.1, accumulate=5, schedule=lambda i: seen.append(i) or 1.0
    )
    assert seen == [0, 1, 2]
    assert len(losses) == 3


def test_accumulation_needs_enough_batches():
    with pytest.raises(ValueError, match=r"expected 6 batches, got 5: give a longer stream"):
        train(Recorder(), [batch()] * 5, 3, 1e-2, accumulate=2)
    with pytest.raises(ValueError, match="expected accumulate above 0, got 0"):
        train(Recorder(), [batch()], 1, 1e-2, accumulate=0)
    with pytest.raises(RuntimeError, match="non-empty"):  # torch's own
        update(Recorder(), torch.optim.SGD([torch.zeros(1)]), [])


def test_a_run_in_two_halves_is_the_same_run():
    def run(*parts):
        pairs, vocab = reversal_task()
        torch.manual_seed(0)
        model = small_transformer(dropout=0.2, dtype=torch.float32)
        stream, optimizer = endless(pairs, vocab, vocab, 32), paper_adam(model)
        schedule = paper_schedule(6, 5)
        options = {"schedule": schedule, "optimizer": optimizer}
        return [
            loss
            for start, end in parts
            for loss in train(model, stream, end, 1.0, start=start, **options)
        ]

    assert run((0, 11)) == run((0, 4), (4, 11))


def test_after_each_update_the_caller_is_told():
    told = []
    losses = train(
        Recorder(),
        [batch()] * 3,
        3,
        0.5,
        after_update=lambda *now: told.append((now[0], float(now[1]))),
    )
    assert told == list(enumerate(losses, 1))


def test_paper_adam():
    optimizer = paper_adam(Recorder())
    assert optimizer.defaults["betas"] == (0.9, 0.98)
    assert optimizer.defaults["eps"] == 1e-9
    assert optimizer.defaults["weight_decay"] == 0


def test_count_tokens_leaves_padding_out():
    pairs, vocab = reversal_task()
    assert count_tokens(make_batch(pairs[:7], vocab, vocab)) == sum(
        len(p.target) + 1 for p in pairs[:7]
    )


def test_bar_shows_loss_and_tokens_per_second(monkeypatch):
    shown = []
    monkeypatch.setattr(training.tqdm, "set_postfix_str", lambda self, text: shown.append(text))
    train(Recorder(), [batch()] * 20, 20, 1e-3)
    assert len(shown) == 1
    assert re.fullmatch(r"loss \d\.\d{3}, [\d,]+ tokens/s", shown[0])


# --- bfloat16 -------------------------------------------------------------------------------------


def test_bf16_autocast_trains():
    pairs, vocab = reversal_task()
    types = []

    def criterion(logits, target, *, reduction):
        types.append(logits.dtype)
        return token_loss(logits, target, reduction=reduction)

    runs = []
    for autocast in (None, torch.bfloat16):
        model = small_transformer(dtype=torch.float32, d_model=32)
        stream = endless(pairs, vocab, vocab, 32)
        loss = partial(teacher_forcing, criterion=criterion, autocast=autocast)
        runs.append(train(model, stream, 40, 1e-2, loss=loss))
        assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert set(types) == {torch.float32}
    exact, rough = runs
    assert rough != exact
    assert rough[0] == pytest.approx(exact[0], rel=0.01)
    assert rough[-1] < 0.8 * rough[0]
    assert rough[-1] == pytest.approx(exact[-1], rel=0.2)  # 40 steps apart


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi"])
def test_bf16_with_each_kind_of_positions(positions):
    parts, _ = unequal_parts()
    losses = [
        update(model, paper_adam(model), parts, partial(teacher_forcing, autocast=autocast))[0]
        for autocast in (None, torch.bfloat16)
        for model in [small_transformer(dtype=torch.float32, d_model=32, positions=positions)]
    ]
    assert losses[1].item() == pytest.approx(losses[0].item(), rel=0.01)
    assert losses[1] != losses[0]


# --- validation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("autocast", [None, torch.bfloat16])
def test_validation_counts_each_token_once_whatever_the_batches(autocast):
    parts, whole = unequal_parts()
    dtype = torch.float32 if autocast else torch.float64
    model = small_transformer(dropout=0.5, dtype=dtype).train()
    before = torch.get_rng_state()
    loss = partial(teacher_forcing, autocast=autocast)
    one, other = (validation_loss(model, found, loss=loss) for found in (parts, [whole]))
    assert one == pytest.approx(other, abs=1e-2 if autocast else 1e-10)
    assert model.training
    assert torch.equal(before, torch.get_rng_state())
    model.eval()
    inputs = whole.source, whole.source_lengths, whole.target_in
    assert one == pytest.approx(token_loss(model(*inputs), whole.target_out).item(), rel=1e-2)


def test_validation_needs_tokens():
    with pytest.raises(ValueError, match="expected batches with at least one token, got none"):
        validation_loss(Recorder(), [])


# --- the book's model -----------------------------------------------------------------------------


def book_model(pairs, **options):
    vocabs = [Vocabulary.from_sentences(pair[side] for pair in pairs) for side in (0, 1)]
    torch.manual_seed(0)
    config = Config(*map(len, vocabs), d_model=64, n_heads=4, d_ff=128, n_layers=2, **options)
    return Transformer(config), vocabs


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tied", [True, False])
def test_first_loss_is_that_of_guessing(norm, tied):
    """ln V within 5 %, so the weights start well: nothing is thought likely before training."""
    pairs, _ = translation_pairs(300, 10)
    model, vocabs = book_model(pairs, norm=norm, tied=tied, dropout=0.0)
    loss = validation_loss(model, token_batches(pairs, *vocabs, 2000, seed=0))
    assert loss == pytest.approx(math.log(len(vocabs[1])), rel=0.05)


@pytest.mark.slow
def test_one_batch_can_be_learned_by_heart():
    pairs, _ = translation_pairs(32, 10)
    model, vocabs = book_model(pairs, norm="pre", positions="rotary", dropout=0.0)
    one = make_batch(pairs, *vocabs)
    losses = train(model, itertools.repeat(one), 150, 4e-3, schedule=cosine(150))
    said = model(one.source, one.source_lengths, one.target_in).argmax(-1)
    real = one.target_out != PAD
    assert (said == one.target_out)[real].all()
    assert losses[-1] < 0.02
    assert translate(model, pairs, *vocabs) == [list(pair.target) for pair in pairs]


# Padding left out of the work


@pytest.mark.parametrize("criterion", [token_loss, label_smoothed_loss])
def test_leaving_padding_out_takes_the_same_step(criterion):
    stepped = []
    for real_only in (False, True):
        torch.manual_seed(0)
        model = Transformer(Config(VOCAB, d_model=24, n_heads=3, d_ff=37, n_layers=2, dropout=0.0))
        model.double()
        source = random_target()
        target = random_target((7, 2, 5, 1, 3))
        target_in = target.roll(1, 1).index_fill(1, torch.tensor([0]), BOS)
        batch = Batch(source, (source != PAD).sum(1), target_in, target)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = partial(teacher_forcing, criterion=criterion, real_only=real_only)
        losses = [update(model, optimizer, [batch, batch], loss)[0] for _ in range(3)]
        stepped.append((torch.stack(losses), *model.parameters()))
    for without, within in zip(*stepped, strict=True):
        assert_close(without, within, 1e-12)


def test_leaving_padding_out_needs_a_model_that_can():
    pairs, _ = translation_pairs(7, 3)
    words = [Vocabulary.from_sentences(side) for side in zip(*pairs, strict=True)]
    model = Seq2Seq(*map(len, words), 5, 7)
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(AttributeError, match="'Seq2Seq' object has no attribute 'real_logits'"):
        train(
            model,
            [make_batch(pairs, *words)],
            1,
            1e-3,
            loss=partial(teacher_forcing, real_only=True),
        )
    assert all(map(torch.equal, before, model.parameters()))


def test_the_first_order_is_that_of_seed_zero():
    pairs = [Pair((word,), (word,)) for word in "abcdefghijk"]
    vocab = Vocabulary("abcdefghijk")
    orders = [
        [next(stream).source.tolist() for _ in range(22)]
        for stream in (
            endless(pairs, vocab, vocab, 1),
            endless(pairs, vocab, vocab, 1, seed=0),
            endless(pairs, vocab, vocab, 1, seed=1),
        )
    ]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("start", [-1, 3, 7])
def test_a_start_that_leaves_no_step(start):
    with pytest.raises(ValueError, match=f"a start from 0 to 2, got {start}"):
        train(nn.Linear(2, 3), [], 3, 0.1, start=start)


def test_endless_epochs_are_those_of_their_seeds():
    vocab = Vocabulary("abcdefg")
    pairs = [Pair((a, b), (b,)) for a in "abcdefg" for b in "abc"]
    stream = endless(pairs, vocab, vocab, 7, seed=2)
    for seed in (2000, 2001):
        for expected in batches(pairs, vocab, vocab, 7, seed=seed):
            assert torch.equal(next(stream).source, expected.source)


def mean_loss(model, batch):
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    return token_loss(logits, batch.target_out)


CALLS = {
    "train": lambda model, given, loss: train(model, given, 1, 0.1, loss=loss),
    "update": lambda model, given, loss: update(model, paper_adam(model), given, loss),
    "validation_loss": lambda model, given, loss: validation_loss(model, given, loss=loss),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (mean_loss, r"the sum .* and the number of tokens, got Tensor; token_loss gives a mean"),
        (lambda *given: (*teacher_forcing(*given), 3), "return two things, .* got tuple"),
        (token_loss, r"got token_loss, .* loss=partial\(teacher_forcing, criterion=token_loss\)"),
        (label_smoothed_loss, "criterion=label_smoothed_loss"),
    ],
)
def test_a_loss_that_gives_a_mean_is_refused(call, loss, message):
    vocab = Vocabulary("ab")
    model = Seq2Seq(len(vocab), len(vocab), 3, 5)
    before = [parameter.clone() for parameter in model.parameters()]
    given = [make_batch([Pair(("a",), ("b",))], vocab, vocab)]
    with pytest.raises(ValueError, match=message):
        CALLS[call](model, given, loss)
    assert all(map(torch.equal, before, model.parameters()))


def test_a_loss_that_is_no_number_is_noticed_before_the_end():
    model = nn.Linear(1, 1)
    steps = []

    class Nothing:
        def to(self, device):
            return self

    with pytest.raises(FloatingPointError, match="got nan by step 20"):
        train(
            model,
            itertools.repeat(Nothing()),
            60,
            0.1,
            loss=lambda model, batch: (model(torch.ones(1, 1)).sum() * math.nan, 1),
            after_update=lambda step, loss: steps.append(step),
        )
    assert steps == list(range(1, 20))


@pytest.mark.parametrize("hidden", [False, True])
def test_the_bar_counts_steps(monkeypatch, hidden):
    """And TQDM_DISABLE hides it, in a notebook too, whose bar does not read that itself."""
    told = {}
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    if hidden:
        monkeypatch.setenv("TQDM_DISABLE", "1")

    def bar(steps, **options):
        told.update(options)
        return tqdm(steps, **options)

    monkeypatch.setattr(training, "tqdm", bar)
    train(Recorder(), [batch()] * 2, 2, 1e-2)
    assert told == {"initial": 0, "total": 2, "unit": "step", "disable": hidden}


@pytest.mark.parametrize("by_train", [False, True])
def test_gradients_are_clipped_at_norm_one_unless_told(by_train):
    def steep(model, _):
        return 100 * model.table.sum(), 1

    model = Recorder()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    if by_train:
        train(model, [batch()], 1, 1.0, optimizer=optimizer, loss=steep)
    else:
        update(model, optimizer, [batch()], steep)
    assert model.table.detach().norm().item() == pytest.approx(1.0, rel=1e-4)


def test_an_update_by_no_token_is_of_a_loss_of_zero():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = model.weight.detach().clone()
    loss, tokens = update(
        model, optimizer, [torch.zeros(0, 2)], lambda model, part: (model(part).sum(), len(part))
    )
    assert (loss, tokens) == (0, 1)
    assert torch.equal(model.weight, before)


def test_a_parameter_without_a_gradient_stays_where_it_is():
    """Not even the momentum of an earlier update moves it."""
    model = nn.ParameterList([torch.ones(1), torch.ones(1)])
    optimizer = paper_adam(model)
    optimizer.param_groups[0]["lr"] = 0.1
    both, first = torch.ones(2), torch.tensor([1.0, 0.0])

    def used(model, part):
        return sum(p.sum() for p, one in zip(model, part, strict=True) if one), 1

    update(model, optimizer, [both], used)
    moved = model[1].item()
    assert moved != 1
    update(model, optimizer, [first], used)
    assert model[1].item() == moved
    assert model[0].item() < moved

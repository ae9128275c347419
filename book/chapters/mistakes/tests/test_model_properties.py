"""The properties of models: right ones of any kind have all of them, and each fault is named."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from chapters.mistakes.in_model import (
    AlwaysPositionZero,
    LayersInAList,
    LoudTying,
    MaskInTrainingOnly,
    NoTargetMask,
    PositionsDropped,
    TableAsAttribute,
)
from chapters.mistakes.model_properties import (
    LENGTHS,
    ModelSubject,
    another,
    changed,
    modes,
    next_token_loss,
)
from chapters.mistakes.properties import MODEL, check_model
from chapters.mistakes.specimen import Specimen
from lib.data import BOS, EOS, PAD
from lib.seq2seq import GRUCell, Seq2Seq
from lib.transformer import Config, Transformer

SIZES = {"d_model": 24, "n_heads": 3, "d_ff": 20, "n_layers": 2, "dropout": 0.0}


def ask(name, kind, **given):
    (found,) = check_model(lambda: kind(29, 23), 29, 23, only=(name,), **given)
    return found


# What is tested


def test_batch_has_padding_in_the_source_alone():
    subject = ModelSubject(lambda: Specimen(29, 23), 29, 23)
    source, lengths, target = subject.batch(6)
    assert (tuple(source.shape), tuple(target.shape)) == ((5, 7), (5, 6))
    assert tuple(lengths.tolist()) == LENGTHS
    assert ((source != PAD).sum(-1) == lengths).all()
    assert source[source != PAD].min() > EOS
    assert source.max() < 29
    assert (target[:, 0] == BOS).all()
    assert target[:, 1:].min() > EOS
    assert target.max() < 23
    again = subject.batch(6)
    assert torch.equal(again[0], source)
    assert torch.equal(again[2], target)
    model, same, other = subject.model(), subject.model(), subject.model(seed=1)
    assert not model.training
    one, two, three = (m.projection.weight for m in (model, same, other))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


@pytest.mark.parametrize("vocab", [5, 6, 23])
def test_another_word_is_no_special_one_and_not_the_same(vocab):
    words = torch.arange(vocab)
    other = another(words, vocab)
    assert (other != words).all()
    assert other.min() > EOS
    assert other.max() < vocab
    tokens = words.repeat(2, 1)
    moved = changed(tokens, 3, vocab) != tokens
    assert moved.sum(0).tolist() == [2 if place == 3 else 0 for place in range(vocab)]


def test_modes_repeat_dropout_and_come_in_order():
    seen = []
    for name, run in modes(nn.Dropout(0.5)):
        one, other = run(torch.ones(50)), run(torch.ones(50))
        assert torch.equal(one, other)
        seen.append((name, one.min().item()))
    assert seen == [("in training", 0.0), ("at inference", 1.0)]


class Says(nn.Module):
    """Gives these logits, whatever it reads."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, source, lengths, target_in):
        return self.logits.expand(*target_in.shape, -1)


def test_next_token_loss_asks_for_all_tokens_but_the_first():
    target = torch.tensor([[BOS, 5, 6, 7]])
    inputs = torch.full((1, 2), 4), torch.tensor([2]), target
    right = 100 * nn.functional.one_hot(target[:, 1:], 23).float()
    assert next_token_loss(Says(right), *inputs).item() == pytest.approx(0, abs=1e-6)
    assert next_token_loss(Says(torch.zeros(23)), *inputs).item() == pytest.approx(math.log(23))


# Right models


ALL_BUT_LEARNING = tuple(p.name for p in MODEL if p.name not in ("count", "copied", "one batch"))


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi", "learned"])
def test_the_librarys_transformer_has_every_property(norm, positions):
    config = Config(29, 23, norm=norm, positions=positions, **SIZES)
    found = check_model(lambda: Transformer(config), 29, 23, only=ALL_BUT_LEARNING)
    assert found.caught == []
    assert len(found) == len(ALL_BUT_LEARNING)


def test_a_model_without_attention_has_them_too():
    found = check_model(lambda: Seq2Seq(29, 23, 13, 17), 29, 23)
    assert found.caught == []


@pytest.mark.parametrize(
    "changes", [{}, {"d_model": 128, "n_heads": 8, "d_ff": 512, "n_layers": 3}]
)
def test_right_models_of_any_size_learn_by_heart(changes):
    """Dropout and width may not be mistaken for a mistake."""
    sizes = {"d_model": 24, "n_heads": 3, "d_ff": 37, "n_layers": 2} | changes
    check_model(lambda: Transformer(Config(29, 31, **sizes)), 29, 31, only=["one batch"]).insist()


# What each property finds


def test_a_model_that_returns_more_than_logits_is_told_so():
    class Pair(Specimen):
        def forward(self, *inputs):
            return super().forward(*inputs), None

    found = ask("sizes", Pair)
    assert (found.held, found.message) == (
        False,
        "expected finite logits (5, 3, 23), got a tuple",
    )


def test_logits_that_are_not_finite_or_have_another_shape_are_counted():
    class Infinite(Specimen):
        def project(self, x):
            return super().project(x).index_fill(-1, torch.tensor([0]), -torch.inf)

    class LastOnly(nn.Module):
        def __init__(self, *sizes):
            super().__init__()
            self.model = Specimen(*sizes)

        def forward(self, *inputs):
            return self.model(*inputs)[:, -1:]

    infinite, last = ask("sizes", Infinite), ask("sizes", LastOnly)
    assert (infinite.held, infinite.number) == (False, 3)
    assert (last.held, last.number) == (False, 2)  # a single token is its own last
    assert last.message == "expected finite logits (5, 3, 23), got (5, 1, 23)"


@pytest.mark.parametrize(
    ("kind", "where"),
    [(NoTargetMask, "in training and at inference"), (MaskInTrainingOnly, "at inference")],
)
def test_future_names_the_mode_in_which_it_is_seen(kind, where):
    found = ask("future", kind)
    assert not found.held
    assert found.message.startswith(f"an earlier logit depends on a later token {where}:")


class MindsWidth(Specimen):
    """Reads no padding, but counts it."""

    def encode(self, source, lengths):
        memory, mask = super().encode(source, lengths)
        return memory + 0.1 * source.shape[1], mask


class ReadsPaddingInTraining(Specimen):
    def encoder_mask(self, mask):
        return torch.ones_like(mask) if self.training else mask


@pytest.mark.parametrize("kind", [MindsWidth, ReadsPaddingInTraining])
def test_padding_may_be_neither_read_nor_counted_in_any_mode(kind):
    found = ask("padding", kind)
    assert not found.held
    assert found.message.startswith("padding is read")


def test_alone_sees_a_mean_over_the_batch():
    class Centred(Specimen):
        def project(self, x):
            return super().project(x - x.mean(0, keepdim=True))

    assert not ask("alone", Centred).held
    assert ask("alone", MindsWidth).held


class DeafToTarget(Specimen):
    """Hears the first two target tokens only."""

    def decode(self, x, tokens, memory, memory_mask):
        heard = torch.arange(x.shape[1]) < 2
        return super().decode(x * heard[:, None], tokens, memory, memory_mask)


class DeafToSource(Specimen):
    """Hears no word at place 4 of the source."""

    def encode(self, source, lengths):
        return super().encode(source.index_fill(1, torch.tensor(4), EOS + 1), lengths)


@pytest.mark.parametrize(
    ("kind", "token"), [(DeafToTarget, "target token 2"), (DeafToSource, "source token 4")]
)
def test_felt_names_the_token_that_changes_nothing(kind, token):
    found = ask("depends", kind)
    assert (found.held, found.number) == (False, 0.0)
    assert found.message.startswith(f"{token} changes nothing")


def test_order_names_the_side_on_which_it_is_not_felt():
    class SourceInABag(Specimen):
        def embed(self, tokens, embedding, start=0):
            return (
                embedding(tokens)
                if embedding is self.source_embedding
                else super().embed(tokens, embedding, start)
            )

    found = ask("order", SourceInABag)
    assert not found.held
    assert found.message.startswith("the order of the source changes nothing")
    assert not ask("order", PositionsDropped).held


def test_stepwise_names_the_first_position_that_differs():
    class ForgetsItsState(Specimen):
        def step(self, token, state):
            logits, weights, new = super().step(token, state)
            return logits, weights, new if len(state.tokens[0]) < 1 else state

    for kind, first in ((AlwaysPositionZero, 1), (ForgetsItsState, 2)):
        found = ask("stepwise", kind)
        assert not found.held
        assert found.message.startswith(f"they differ from position {first} on")


def test_a_last_bit_that_differs_is_no_other_output():
    class Noisy(Specimen):
        def project(self, x):
            return super().project(x) + 1e-7 * torch.rand(())

    assert ask("repeat", Noisy).held


class Leaking(Specimen):
    """Right, but for a number that its last batch left behind."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.seen = nn.Parameter(torch.zeros(1), requires_grad=False)

    def forward(self, source, source_lengths, target_in):
        self.seen += 1
        return super().forward(source, source_lengths, target_in) + self.seen


def test_a_model_that_remembers_its_batches_is_found():
    found = check_model(lambda: Leaking(29, 23), 29, 23, only=("repeat", "learns", "depends"))
    assert found.caught == ["repeat"]


def test_what_is_frozen_needs_no_gradient_and_all_else_does():
    class Frozen(Specimen):
        def __init__(self, asks, *sizes):
            super().__init__(*sizes)
            self.spare = nn.Parameter(torch.zeros(3, 5), requires_grad=asks)

    assert ask("learns", partial(Frozen, False)).held
    assert ask("learns", partial(Frozen, True)).number == 15


def test_saved_sees_a_number_that_the_file_does_not_hold():
    class Unsaved(Specimen):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.register_buffer("shift", torch.rand(23), persistent=False)

        def project(self, x):
            return super().project(x) + self.shift

    assert not ask("saved", Unsaved).held
    assert ask("moves", Unsaved).held  # a buffer moves, saved or not


def test_a_module_in_a_dictionary_stays_behind():
    class Kept(Specimen):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.extra = {"cells": [GRUCell(3, 5)]}

    found = ask("moves", Kept)
    assert not found.held
    assert "Kept.extra" in found.message
    table = ask("moves", TableAsAttribute)
    assert (table.held, table.number) == (False, 1.0)
    assert "TableAsAttribute.table would stay behind" in table.message


def test_a_table_that_is_moved_where_it_is_used_does_not_stay_behind():
    class Moves(Specimen):
        def keep_table(self, table):
            self.table = table

        def embed(self, tokens, embedding, start=0):
            self.table = self.table.to(tokens.device)
            return super().embed(tokens, embedding, start)

    check_model(lambda: Moves(29, 23), 29, 23, only=("moves",)).insist()


def test_an_embedding_that_nobody_uses_is_found():
    class Idle(Specimen):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.idle = nn.Linear(3, 2)

    found = ask("learns", Idle)
    assert (found.held, found.number) == (False, 8.0)
    assert "idle.weight" in found.message


def test_parameters_that_are_used_and_not_listed_are_counted():
    torch.manual_seed(0)
    right, wrong = Specimen(29, 23), LayersInAList(29, 23)
    hidden = sum(p.numel() for p in right.parameters()) - sum(p.numel() for p in wrong.parameters())
    found = ask("learns", LayersInAList)
    assert (found.held, found.number) == (False, hidden)
    assert f"{hidden:,} parameters are used" in found.message


class Cancels(Specimen):
    """Right, with a parameter whose gradient is exactly 0."""

    def __init__(self, source_vocab, target_vocab, *shape):
        super().__init__(source_vocab, target_vocab)
        self.extra = nn.Parameter(torch.ones(shape))

    def project(self, x):
        return super().project(x) + 0 * self.extra.sum()


def test_a_vector_whose_gradient_is_0_is_reached_and_a_matrix_is_not():
    """As of a bias of the keys, which softmax takes away: how it rounds may not decide."""
    check_model(lambda: Cancels(29, 23, 1), 29, 23, only=("learns",)).insist()
    (found,) = check_model(lambda: Cancels(29, 23, 5, 2), 29, 23, only=("learns",))
    assert (found.held, found.number) == (False, 10.0)
    assert "no gradient reaches extra" in found.message


@pytest.mark.parametrize("too_many", [-1, 1])
def test_count_gives_the_difference(too_many):
    number = sum(p.numel() for p in Specimen(29, 23).parameters())
    assert ask("count", Specimen, parameters=number).held
    found = ask("count", Specimen, parameters=number - too_many)
    assert (found.held, found.number) == (False, too_many)
    assert f"{number:,} parameters, expected {number - too_many:,}" in found.message


def test_first_loss_is_the_loss_of_a_guess():
    right, loud = ask("first loss", Specimen), ask("first loss", LoudTying)
    assert right.held
    assert right.number == pytest.approx(math.log(23), abs=1)
    assert (loud.held, loud.message) == (
        False,
        "expected about ln V = 3.1: are the first logits too large?",
    )
    assert loud.number > math.log(23) + 1


def test_one_batch_is_not_learnt_by_a_model_that_reads_nothing():
    """It can learn how often each word comes, and no more."""
    found = ask("one batch", lambda *_: Says(torch.zeros(23)))
    assert not found.held
    assert 1 < found.number < math.log(23)
    assert found.message == "not below 0.1 within 100 steps: does a gradient flow?"


def test_copied_sees_a_bias_that_was_forgotten():
    class Forgets(Specimen):
        def project(self, x):
            return super().project(x) - self.decoder["layers"][0]["feed_forward"].norm.bias[0]

    found = ask("copied", Forgets, reference=Specimen.reference)
    assert (found.held, found.message) == (
        False,
        "the same parameters give other logits: look at every formula",
    )
    assert ask("copied", Specimen, reference=Specimen.reference).held


def test_a_model_without_steps_is_not_asked_about_them():
    class TeacherForcing(nn.Module):
        def __init__(self):
            super().__init__()
            self.whole = Specimen(29, 23)

        def forward(self, source, source_lengths, target_in):
            return self.whole(source, source_lengths, target_in)

    asked = ("sizes", "stepwise", "future")
    found = check_model(TeacherForcing, 29, 23, only=asked)
    assert [(one.name, one.held) for one in found] == [("sizes", True), ("future", True)]
    TeacherForcing.step = lambda *_: None
    assert "stepwise" in check_model(TeacherForcing, 29, 23, only=asked).caught

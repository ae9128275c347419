"""Text as characters: a clean split, windows that are the text, and the loss at each position."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lib.data import PAD, UNK
from tasks.characters import (
    character_vocabulary,
    loss_by_position,
    python_topics,
    train_on_text,
)
from tests.helpers import assert_close, unchecked


class Bigram(nn.Module):
    """Logits for the next token from the last one alone; keeps what it was asked."""

    def __init__(self, size: int):
        super().__init__()
        self.table = nn.Embedding(size, size)
        self.seen = []

    def forward(self, tokens):
        self.seen.append(tokens)
        return self.table(tokens)


def test_vocabulary_holds_each_character_once():
    vocabulary = character_vocabulary()
    assert len(vocabulary) == 4 + 96
    assert vocabulary.decode(vocabulary.encode(list("a = b\n~"))) == list("a = b\n~")
    assert vocabulary.encode(["é"]) == [UNK]


def test_texts_are_known_characters_and_share_no_paragraph():
    vocabulary = character_vocabulary()
    text, held_out = python_topics()
    for part in (text, held_out):
        ids = vocabulary.encode(list(part))
        assert UNK not in ids
        assert PAD not in ids  # the loss would leave it out
    assert len(text) > 200_000
    assert len(held_out) == pytest.approx(0.05 * (len(text) + len(held_out)), abs=1)
    paragraphs = set(text.split("\n\n"))
    inner = held_out.split("\n\n")[1:-1]  # the cut may fall within a paragraph
    assert len(inner) > 50
    assert not paragraphs & set(inner)


def test_share_held_out_can_be_chosen():
    text, held_out = python_topics(held_out=0.25)
    assert 3 * len(held_out) == pytest.approx(len(text), abs=4)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 5.0])
def test_share_must_leave_both_texts_something(share):
    with pytest.raises(ValueError, match="held_out between 0 and 1, got"):
        python_topics(held_out=share)


def test_training_sees_windows_of_the_text_and_learns_it():
    text = torch.arange(4, 4 + 23).repeat(11)  # each token says the next one
    model = Bigram(27)
    losses = train_on_text(model, text, 60, 0.3, length=7, batch_size=5)
    assert len(losses) == 60
    assert losses[-1] < 0.1 < losses[0]
    for tokens in model.seen:
        assert tokens.shape == (5, 7)
        assert ((tokens.diff() == 1) | (tokens.diff() == -22)).all()


def test_training_depends_on_its_seed():
    text = torch.arange(4, 27).repeat(11)

    def first(seed):
        model = Bigram(27)
        train_on_text(model, text, 21, 0.1, length=7, seed=seed)
        return model.seen[0]

    assert torch.equal(first(3), first(3))
    assert not torch.equal(first(3), first(4))


@pytest.mark.parametrize("length", [0, 23, 29])
def test_window_must_fit_the_text(length):
    with unchecked(), pytest.raises(ValueError, match=f"got length={length} and 23 tokens"):
        train_on_text(Bigram(27), torch.arange(4, 27), 3, 0.1, length=length)


@pytest.mark.parametrize("stride", [None, 3, 7])
def test_loss_by_position_by_loops(stride):
    torch.manual_seed(0)
    model, text, length = Bigram(13), torch.randint(13, (31,)), 7
    got = loss_by_position(model, text, length, stride=stride, batch_size=2)
    rows = []
    for start in range(0, 31 - length, stride or length):
        logits = model.table(text[start : start + length])
        rows.append(F.cross_entropy(logits, text[start + 1 : start + length + 1], reduction="none"))
    assert_close(got, torch.stack(rows).mean(0).detach(), 1e-6)
    assert model.training
    model.eval()
    with unchecked(), pytest.raises(RuntimeError):
        loss_by_position(model, text.float(), length)
    assert not model.training


def test_loss_of_a_model_that_knows_nothing_is_log_of_the_vocabulary():
    model = Bigram(13)
    nn.init.zeros_(model.table.weight)
    losses = loss_by_position(model, torch.arange(13).repeat(3), 5)
    assert losses.tolist() == pytest.approx([math.log(13)] * 5)


@pytest.mark.parametrize(("length", "stride"), [(0, None), (23, None), (5, 0)])
def test_loss_by_position_refuses_what_it_cannot_cut(length, stride):
    with unchecked(), pytest.raises(ValueError, match="stride of at least 1 and a text longer"):
        loss_by_position(Bigram(27), torch.arange(4, 27), length, stride=stride)

"""Guessing a token and continuing a row, by a stack of each family, against the plain way."""

import pytest
import torch

from chapters.families.families import (
    KINDS,
    family_mask,
    guess,
    guess_by_scoring,
    joined,
    translate_by_continuing,
)
from chapters.families.tests.samples import PAIRS, ROWS, VOCAB
from lib.data import BOS, EOS, PAD, Pair, make_batch
from lib.masks import causal_mask
from lib.transformer import Config, OneStack
from tests.helpers import assert_close, unchecked


@pytest.fixture
def model():
    torch.manual_seed(0)
    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 7, "n_layers": 2, "dropout": 0.0}
    return OneStack(Config(len(VOCAB), norm="pre", positions="rotary", **sizes)).eval()


@torch.no_grad()
def test_guesses_do_not_see_the_token(model):
    for kind in KINDS:
        for t in (1, 2, 5):
            other = ROWS.clone()
            other[:, t] = torch.where(other[:, t] > EOS, other[:, t] % 5 + 5, other[:, t])
            one = guess(model, kind, ROWS, t)
            words = ROWS[:, t] > EOS
            assert_close(guess(model, kind, other, t)[words], one[words], 1e-6)
            assert_close(one.sum(dim=1), torch.ones(3), 1e-5)


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_only_an_encoder_s_guess_depends_on_the_right_side(model, kind):
    other = ROWS.clone()
    other[0, 3] = other[0, 2]
    gap = (guess(model, kind, other, 2)[0] - guess(model, kind, ROWS, 2)[0]).abs().max()
    assert (gap > 1e-4) == (kind == "encoder-only")


@torch.no_grad()
def test_scoring_is_bayes_rule(model):
    row, t = ROWS[1, :7], 2
    chances = []
    for c in range(len(VOCAB)):
        whole = row.clone()
        whole[t] = c
        logs = model(whole[None, :-1], causal_mask(6))[0].log_softmax(dim=-1)
        chances.append(logs[torch.arange(6), whole[1:]].sum().exp())
    wanted = torch.stack(chances) / sum(chances)
    # family_targets marks nothing as padding here, but PAD itself as a candidate is a token too
    assert_close(guess_by_scoring(model, row, t), wanted, 1e-6)


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS[1:])
def test_translating_is_continuing_one_by_one(model, kind):
    model.embedding.weight[[PAD, BOS]] = 0.0  # it never says them; random weights would
    said = translate_by_continuing(model, kind, PAIRS, VOCAB, max_length=4)
    for pair, got in zip(PAIRS, said, strict=True):
        row = joined(make_batch([Pair(pair.source, ())], VOCAB, VOCAB))[:, : len(pair.source) + 2]
        wanted = []
        for _ in range(4):
            wanted.append(model(row, family_mask(kind, row))[0, -1].argmax().item())
            row = torch.cat([row, torch.tensor([[wanted[-1]]])], dim=1)
            if wanted[-1] == EOS:
                break
        assert got == VOCAB.decode(wanted)


def test_mistakes_are_named(model):
    with unchecked():
        with pytest.raises(ValueError, match="encoder-only, decoder-only, prefix, got 'bert'"):
            guess(model, "bert", ROWS, 1)
        with pytest.raises(ValueError, match="out of decoder-only, prefix, got 'encoder-only'"):
            translate_by_continuing(model, "encoder-only", PAIRS, VOCAB)
        for position in (0, 11):
            with pytest.raises(ValueError, match=f"position from 1 to 10, got {position}"):
                guess(model, "decoder-only", ROWS, position)

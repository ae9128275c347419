"""One stack as three families: its masks, what each loss asks for, and what it then does."""

import pytest
import torch

from chapters.families.families import (
    KINDS,
    MASK,
    MASK_TOKEN,
    causal_prefix_mask,
    family_mask,
    family_targets,
    hide,
    train_family,
    translate_by_continuing,
)
from chapters.families.tests.samples import PAIRS, ROWS, VOCAB
from lib.data import BOS, EOS, PAD
from lib.masks import causal_mask
from lib.transformer import Config, LanguageModel, OneStack
from tests.helpers import assert_close, unchecked

CONFIG = Config(len(VOCAB), d_model=12, n_heads=3, d_ff=7, n_layers=2, dropout=0.0, norm="pre",
                positions="rotary")  # fmt: skip


@pytest.fixture
def model():
    torch.manual_seed(0)
    return OneStack(CONFIG).eval()


def test_vocabulary_holds_both_languages_and_the_mask():
    assert VOCAB.tokens[MASK] == MASK_TOKEN
    assert sorted(VOCAB.tokens[MASK + 1 :]) == sorted(
        {t for pair in PAIRS for s in pair for t in s}
    )


def test_rows_hold_source_and_translation():
    assert ROWS.shape == (3, 11)
    words = [[VOCAB.tokens[i] for i in row if i != PAD] for row in ROWS.tolist()]
    assert words[1] == ["<bos>", "two", "euros", "<eos>", "deux", "euros", "<eos>"]
    assert (ROWS[:, 0] == BOS).all()
    assert ((ROWS == EOS).sum(dim=1) == 2).all()
    assert (ROWS[1, 7:] == PAD).all()


def test_prefix_mask_lies_between_causal_and_full():
    mask = causal_prefix_mask(torch.tensor([0, 1, 3, 7]), 7)
    assert mask.shape == (4, 7, 7)
    assert torch.equal(mask[0], causal_mask(7))
    assert torch.equal(mask[1], causal_mask(7))
    assert mask[3].all()
    for i in range(7):
        for j in range(7):
            assert mask[2, i, j] == (j < 3 or j <= i)
    with unchecked(), pytest.raises(ValueError, match="expected integer lengths"):
        causal_prefix_mask(torch.tensor([0.5]), 7)


def test_family_masks():
    full = family_mask("encoder-only", ROWS)
    assert torch.equal(full, (ROWS != PAD)[:, None])
    assert torch.equal(family_mask("decoder-only", ROWS), causal_mask(11))
    assert torch.equal(family_mask("prefix", ROWS), causal_prefix_mask(torch.tensor([5, 4, 3]), 11))


def test_what_the_loss_asks_for():
    inputs, targets = family_targets("decoder-only", ROWS)
    assert torch.equal(inputs, ROWS[:, :-1])
    assert torch.equal(targets, ROWS[:, 1:])
    inputs, targets = family_targets("prefix", ROWS)
    assert torch.equal(inputs, ROWS[:, :-1])
    asked = [[VOCAB.tokens[i] for i in row if i != PAD] for row in targets.tolist()]
    assert asked == [[*pair.target, "<eos>"] for pair in PAIRS]
    for row, target in zip(ROWS, targets, strict=True):
        first = (target != PAD).nonzero()[0]
        assert row[first] == EOS  # the last of the prefix says the translation's first word


def test_hidden_tokens_are_words_and_all_that_is_asked():
    torch.manual_seed(0)
    rows = ROWS.repeat(2000, 1)
    inputs, targets = hide(rows, 0.3)
    gaps = inputs == MASK
    assert torch.equal(gaps, targets != PAD)
    assert torch.equal(targets[gaps], rows[gaps])
    assert torch.equal(inputs[~gaps], rows[~gaps])
    assert not gaps[rows <= EOS].any()
    assert gaps[rows > EOS].float().mean().item() == pytest.approx(0.3, abs=0.01)
    one, other = family_targets("encoder-only", rows)
    assert (other != PAD)[rows > EOS].float().mean().item() == pytest.approx(0.15, abs=0.01)
    assert torch.equal(one == MASK, other != PAD)


@pytest.mark.parametrize("share", [0, 1, -0.1])
def test_a_share_is_a_share(share):
    with unchecked(), pytest.raises(ValueError, match=f"above 0 and below 1, got {share}"):
        hide(ROWS, share)


@pytest.mark.parametrize("tied", [True, False])
def test_under_a_causal_mask_it_is_the_language_model(tied):
    torch.manual_seed(0)
    config = Config(len(VOCAB), d_model=12, n_heads=3, d_ff=7, n_layers=2, tied=tied,
                    positions="learned")  # fmt: skip
    one, other = OneStack(config).double().eval(), LanguageModel(config).double().eval()
    state = {name.replace("decoder.", "encoder."): t for name, t in other.state_dict().items()}
    one.load_state_dict(state)
    assert_close(one(ROWS, causal_mask(11)), other(ROWS), 1e-12)
    assert (one(ROWS) - other(ROWS)).abs().max() > 0.01


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_three_sentences(kind):
    torch.manual_seed(0)
    model = OneStack(CONFIG)
    losses = train_family(model, kind, PAIRS, VOCAB, 150, 1e-2, batch_size=3, warmup=10)
    assert len(losses) == 150
    assert sum(losses[-20:]) < 0.6 * sum(losses[:20])
    if kind != "encoder-only":
        said = translate_by_continuing(model, kind, PAIRS, VOCAB)
        assert said == [list(pair.target) for pair in PAIRS]


def test_mistakes_are_named(model):
    with unchecked():
        for call in (
            lambda: family_mask("bert", ROWS),
            lambda: family_targets("bert", ROWS),
            lambda: train_family(model, "bert", PAIRS, VOCAB, 1, 1e-3),
        ):
            with pytest.raises(ValueError, match="encoder-only, decoder-only, prefix, got 'bert'"):
                call()

"""The way is the one that its names say, it ends at today's block, and training follows it."""

import pytest
import torch

from chapters.modern_block.decoder import ModernDecoder, paper_2017, today
from chapters.modern_block.experts import load_balancing_loss, router_logits
from chapters.modern_block.steps import (
    BACK,
    SIZES,
    WAY,
    balanced,
    config_of,
    expert_fractions,
    held_out_loss,
    train_step,
)
from measure.costs import parameters_of
from tasks.characters import character_vocabulary, next_token

TEXT = torch.arange(4, 4 + 23).repeat(23)


def experts(n_experts=5):
    torch.manual_seed(n_experts)
    config = today(31, d_model=8, n_layers=3, n_heads=2, d_ff=7, n_experts=n_experts)
    return ModernDecoder(config)


def test_the_way_leads_from_the_paper_to_today():
    assert config_of("2017", 31) == paper_2017(31, **SIZES)
    assert config_of("untied", 31) == today(31, **SIZES | {"d_ff": 171})
    assert config_of("4 experts", 31) == config_of("unbalanced", 31)
    names = [step.name for step in (*WAY, *BACK)]
    assert len(set(names)) == len(names)
    for step in (*WAY, *BACK):
        assert step.after is None or names.index(step.after) < names.index(step.name)


def test_one_step_is_one_change_of_about_as_many_parameters():
    for step in WAY[1:6]:
        before, after = (parameters_of(config_of(n, 31)) for n in (step.after, step.name))
        assert after.total - after.projection == pytest.approx(before.total, rel=0.02)
    parts = [parameters_of(config_of(n, 31), active=True) for n in ("4 experts", "2 key heads")]
    assert parts[0].feed_forward == pytest.approx(parts[1].feed_forward, rel=0.01)


def test_unknown_steps_are_refused():
    with pytest.raises(ValueError, match=r"expected a step out of 2017, .*got 'relu'"):
        config_of("relu", 31)


def test_balanced_loss_is_the_sum_of_both():
    model, rows = experts(), TEXT[: 2 * 7].view(2, 7)
    with router_logits(model) as logits:
        total, number = next_token(model, rows)
    extra = load_balancing_loss(torch.stack(logits), 2)
    got, count = balanced(2, 0.25)(model, rows)
    assert count == number == 12
    torch.testing.assert_close(got / count, total / number + 0.25 * extra)


def test_models_without_experts_have_nothing_to_balance():
    model = ModernDecoder(today(31, d_model=8, n_layers=1, n_heads=2, d_ff=7))
    with pytest.raises(ValueError, match="a model with experts, got one without"):
        balanced(2, 0.1)(model, TEXT[:7][None])
    with pytest.raises(ValueError, match="a model with experts, got one without"):
        expert_fractions(model, TEXT[:7][None])


def test_fractions_are_of_each_layers_choices():
    model = experts()
    with torch.no_grad():
        for layer in model.decoder.layers[:2]:  # scoring all alike, they always choose the same
            layer.feed_forward.sublayer.router.weight.zero_()
    fractions = expert_fractions(model, TEXT[:26].view(2, 13))
    assert fractions.shape == (3, 5)
    torch.testing.assert_close(fractions.sum(1), torch.ones(3))
    assert fractions[0].max() == 0.5
    assert not torch.equal(fractions[0], fractions[2])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["2017", "4 experts"])
def test_training_is_that_of_the_step_and_its_seed(name):
    text = torch.arange(4, 4 + 23).repeat(11)
    model, losses = train_step(name, text, seed=1, steps=21)
    assert model.config == config_of(name, len(character_vocabulary()))
    assert len(losses) == 21
    assert losses[-1] < losses[0]
    assert held_out_loss(model, text) < 6
    assert train_step(name, text, seed=1, steps=21)[1] == losses
    assert train_step(name, text, seed=2, steps=21)[1] != losses
    assert train_step(name, text, seed=1, steps=21, lr=1e-3)[1] != losses
    changed, others = train_step(name, text, seed=1, steps=21, qk_norm=True)
    assert changed.config.qk_norm
    assert others != losses

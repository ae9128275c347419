"""The logit lens: the model's own logits at the end, those of a shorter model before it."""

from dataclasses import replace

import pytest
import torch

from chapters.families.lens import logit_lens
from lib.masks import causal_mask
from lib.transformer import Config, OneStack

SMALL = {"d_model": 12, "n_layers": 3, "n_heads": 2, "d_ff": 17, "norm": "pre"}
KINDS = [
    Config(29, **SMALL, dropout=0.5),
    Config(29, **SMALL, positions="rotary", activation="swiglu", tied=False),
]
MASK = causal_mask(7)


@pytest.mark.parametrize("mask", [None, MASK], ids=["full", "causal"])
@pytest.mark.parametrize("config", KINDS, ids=["sinusoidal", "rotary"])
def test_each_depth_is_the_model_that_ends_there(config, mask):
    torch.manual_seed(0)
    model, text = OneStack(config), torch.randint(29, (2, 7))
    lens = logit_lens(model, text, mask)
    assert lens.shape == (4, 2, 7, 29)
    assert model.training  # as before
    assert not any(
        layer._forward_hooks or layer._forward_pre_hooks for layer in model.encoder.layers
    )
    model.eval()
    assert torch.equal(lens[-1], model(text, mask))
    for depth in (1, 2, 3):
        shorter = OneStack(replace(config, n_layers=depth)).eval()
        names = shorter.state_dict()
        shorter.load_state_dict({name: model.state_dict()[name] for name in names})
        assert torch.equal(lens[depth], shorter(text, mask))
    embedded = model.encoder.positions.add(model.embedding(text))
    assert torch.equal(lens[0], model.projection(model.encoder.norm(embedded)))


def test_it_has_no_gradient_and_sees_no_later_token():
    torch.manual_seed(0)
    model, text = OneStack(KINDS[1]).double(), torch.randint(29, (2, 7))
    lens = logit_lens(model, text, MASK)
    assert not lens.requires_grad
    changed = text.clone()
    changed[:, 5] = (text[:, 5] + 1) % 29
    gap = (logit_lens(model, changed, MASK) - lens).abs().amax((1, 3))  # (depth, time)
    assert gap[:, :5].max() < 1e-12
    assert (gap[:, 5] > 1e-3).all()


def test_norms_after_the_sub_layers_are_refused():
    with pytest.raises(ValueError, match="expected a model with norm='pre', got 'post'"):
        logit_lens(OneStack(replace(KINDS[0], norm="post")), torch.randint(29, (2, 7)))

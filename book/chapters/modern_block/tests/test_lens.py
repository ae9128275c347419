"""The logit lens: the model's own logits at the end, those of a shorter model before it."""

from dataclasses import replace

import pytest
import torch

from chapters.modern_block.decoder import ModernDecoder, paper_2017, today
from chapters.modern_block.lens import logit_lens

SMALL = {"d_model": 12, "n_layers": 3, "n_heads": 2, "d_ff": 17}
KINDS = [
    paper_2017(29, **SMALL, dropout=0.5),
    today(29, **SMALL, n_kv_heads=1, window=3, n_experts=5),
]


@pytest.mark.parametrize("config", KINDS, ids=["paper", "today"])
def test_each_depth_is_the_model_that_ends_there(config):
    torch.manual_seed(0)
    model, text = ModernDecoder(config), torch.randint(29, (2, 7))
    lens = logit_lens(model, text)
    assert lens.shape == (4, 2, 7, 29)
    assert model.training  # as before
    assert not any(
        layer._forward_hooks or layer._forward_pre_hooks for layer in model.decoder.layers
    )
    model.eval()
    assert torch.equal(lens[-1], model(text))
    for depth in (1, 2, 3):
        shorter = ModernDecoder(replace(config, n_layers=depth)).eval()
        names = shorter.state_dict()
        shorter.load_state_dict({name: model.state_dict()[name] for name in names})
        assert torch.equal(lens[depth], shorter(text))
    embedded = model.decoder.positions.add(model.embedding(text))
    assert torch.equal(lens[0], model.projection(model.decoder.norm(embedded)))


def test_it_has_no_gradient_and_sees_no_later_token():
    torch.manual_seed(0)
    model, text = ModernDecoder(KINDS[1]).double(), torch.randint(29, (2, 7))
    lens = logit_lens(model, text)
    assert not lens.requires_grad
    changed = text.clone()
    changed[:, 5] = (text[:, 5] + 1) % 29
    gap = (logit_lens(model, changed) - lens).abs().amax((1, 3))  # (depth, time)
    assert gap[:, :5].max() < 1e-12
    assert (gap[:, 5] > 1e-3).all()

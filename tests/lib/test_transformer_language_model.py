"""The one-stack model: causal, the same step by step, and able to learn a text by heart."""

import pytest
import torch
from torch.nn import functional as F

from lib.masks import causal_mask
from lib.positions import SCHEMES
from lib.transformer import Config, LanguageModel, OneStack
from tests.helpers import assert_close

EVERY_SCHEME = pytest.mark.parametrize("positions", SCHEMES)


def small(**changes):
    torch.manual_seed(0)
    sizes = {"d_model": 24, "n_heads": 3, "d_ff": 37, "n_layers": 2, "dropout": 0.0}
    return LanguageModel(Config(29, **(sizes | changes)))


def tokens(batch=3, time=41):
    return torch.randint(29, (batch, time), generator=torch.Generator().manual_seed(0))


@EVERY_SCHEME
def test_a_later_token_changes_nothing_earlier(positions):
    model, text = small(positions=positions), tokens()
    changed = text.clone()
    changed[:, 17] = (text[:, 17] + 1) % 29
    before, after = model(text), model(changed)
    assert torch.equal(after[:, :17], before[:, :17])
    assert not torch.equal(after[:, 17], before[:, 17])


@EVERY_SCHEME
def test_step_by_step_and_after_a_prefix_it_is_the_same(positions):
    model, text = small(positions=positions, norm="pre").eval(), tokens()
    wanted = model(text)
    state = model.start()
    with torch.no_grad():
        assert_close(model(text[:, :7], state), wanted[:, :7], 1e-5)
    for t in range(7, 41):
        logits, weights, state = model.step(text[:, t], state)
        assert weights is None
        assert_close(logits, wanted[:, t], 1e-5)


@pytest.mark.parametrize("tied", [True, False])
def test_it_has_one_embedding_and_no_cross_attention(tied):
    model = small(tied=tied)
    assert (model.projection.weight is model.embedding.weight) == tied
    layer = 4 * (24 * 24 + 24) + 2 * 24 * 37 + 37 + 24 + 2 * 2 * 24
    assert sum(p.numel() for p in model.parameters()) == 2 * layer + (1 if tied else 2) * 29 * 24


def test_it_learns_a_text_by_heart():
    model, text = small(positions="rotary", norm="pre"), tokens(batch=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(100):
        loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert (model(text[:, :-1]).argmax(-1) == text[:, 1:]).all()


@EVERY_SCHEME
def test_one_stack_under_a_causal_mask_is_the_language_model(positions):
    model, text = small(positions=positions, norm="pre").eval(), tokens()
    stack = OneStack(model.config).eval()
    names = {name: name.replace("decoder.", "encoder.") for name in model.state_dict()}
    stack.load_state_dict({names[name]: t for name, t in model.state_dict().items()})
    assert_close(stack(text, causal_mask(text.shape[1])), model(text), 1e-5)
    assert (stack(text) - model(text)).abs().max() > 0.01  # without a mask it sees what follows

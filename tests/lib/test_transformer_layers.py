"""Padding left out of the work changes nothing at real positions, and costs nothing."""

import contextlib

import pytest
import torch
from torch import nn

from lib.layers import FeedForward, at_real
from lib.masks import padding_mask
from lib.positions import SCHEMES
from lib.transformer import Config, DecoderLayer, EncoderLayer, Transformer
from tests.helpers import assert_close, normal

LENGTHS, TARGET_LENGTHS = torch.tensor([7, 3, 1, 5, 7]), torch.tensor([2, 11, 1, 6, 9])


class Counting(nn.Module):
    """Counts the rows that a layer is asked to compute."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.rows = layer, 0

    def forward(self, x):
        self.rows += x.shape[:-1].numel()
        return self.layer(x)


def test_a_layer_sees_the_real_positions_alone():
    layer, x = Counting(FeedForward(13, 17).double()), normal(5, 7, 13).requires_grad_()
    real = padding_mask(LENGTHS, 7)[:, 0]
    with at_real([layer], real):
        out = layer(x)
    assert layer.rows == LENGTHS.sum()
    assert_close(out[real], layer(x)[real], 1e-12)
    assert not out[~real].any()
    out.sum().backward()
    assert not x.grad[~real].any()
    assert x.grad[real].any(dim=-1).all()


@pytest.mark.parametrize("fails", [False, True])
def test_afterwards_every_position_is_computed(fails):
    layer, x = FeedForward(13, 17), normal(5, 7, 13, dtype=torch.float32)
    wanted = layer(x)
    with contextlib.suppress(RuntimeError), at_real([layer], padding_mask(LENGTHS, 7)[:, 0]):
        layer(x[..., :12] if fails else x)
    assert torch.equal(layer(x), wanted)


def test_a_batch_of_padding_alone_is_zero():
    x = normal(5, 7, 13)
    none = torch.zeros(5, 7, dtype=torch.bool)
    layer = FeedForward(13, 17).double()
    with at_real([layer], none):
        assert not layer(x).any()


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_what_stands_at_padding_reaches_no_real_position(norm):
    config = Config(29, d_model=24, n_heads=3, d_ff=37, norm=norm, dropout=0.0)
    mask = padding_mask(LENGTHS, 7)
    real, memory = mask[:, 0], normal(5, 7, 24, seed=1)
    for layer, more in (
        (EncoderLayer(config), {"mask": mask}),
        (DecoderLayer(config), {"memory": memory, "memory_mask": mask, "mask": mask}),
    ):
        layer.double()
        x = normal(5, 7, 24)
        junk = torch.where(real.unsqueeze(-1), x, 1e3)
        with at_real([layer.feed_forward], real):
            wanted, got = (layer(one, **more) for one in (x, junk))
        assert torch.equal(wanted[real], got[real])
        assert not got[~real].any()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", SCHEMES)
@pytest.mark.parametrize("tied", [True, False])
def test_real_logits_are_those_of_forward(norm, positions, tied):
    """Values, and the gradients of all parameters."""
    torch.manual_seed(0)
    sizes = {"d_model": 24, "n_heads": 3, "d_ff": 37, "n_layers": 2, "dropout": 0.0}
    model = Transformer(Config(29, 31, **sizes, norm=norm, positions=positions, tied=tied)).double()
    source, target_in = torch.randint(4, 29, (5, 7)), torch.randint(4, 31, (5, 11))
    real = padding_mask(TARGET_LENGTHS, 11)[:, 0]
    wanted = model(source, LENGTHS, target_in)[real]
    got = model.real_logits(source, LENGTHS, target_in, TARGET_LENGTHS)
    assert got.shape == (TARGET_LENGTHS.sum(), 31)
    assert_close(got, wanted, 1e-12)
    slope = normal(*got.shape, seed=2)
    parameters = list(model.parameters())
    for a, b in zip(
        torch.autograd.grad((got * slope).sum(), parameters, materialize_grads=True),
        torch.autograd.grad((wanted * slope).sum(), parameters, materialize_grads=True),
        strict=True,
    ):
        assert_close(a, b, 1e-11)


def test_real_logits_under_bfloat16_autocast():
    model = Transformer(Config(29, d_model=24, n_heads=3, d_ff=37, n_layers=2))
    source, target_in = torch.randint(4, 29, (2, 5, 11))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model.real_logits(source, LENGTHS, target_in, TARGET_LENGTHS)
    logits.float().square().sum().backward()
    assert logits.dtype == torch.bfloat16
    assert logits.isfinite().all()


@pytest.mark.parametrize("positions", SCHEMES)
def test_every_layer_knows_where_a_token_stands(positions):
    """Without positions an encoder takes its tokens as a set: moved, they give the same."""
    torch.manual_seed(0)
    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 7, "n_layers": 2, "dropout": 0.0}
    model = Transformer(Config(29, positions=positions, **sizes)).double()
    for stack in (model.encoder, model.decoder):
        inside = stack.positions if stack.positions.in_attention else None
        for layer in stack.layers:
            assert layer.self_attention.sublayer.positions is inside
    assert all(at.cross_attention.sublayer.positions is None for at in model.decoder.layers)
    tokens = torch.tensor([[3, 1, 4, 15, 9, 2]])
    memory, _ = model.encode(tokens, torch.tensor([6]))
    moved, _ = model.encode(tokens.roll(1, dims=1), torch.tensor([6]))
    alike = (moved.roll(-1, dims=1) - memory).abs().max() < 1e-9
    assert alike == (positions == "none")

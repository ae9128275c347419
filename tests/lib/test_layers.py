"""Numbers worked out with a pencil, the properties of each layer, and its errors."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lib.layers import Embedding, FeedForward, LayerNorm, Residual, TiedProjection, layer_norm
from tests.helpers import assert_close, gradients, normal, unchecked


def test_layer_norm_by_hand():
    """Mean 5 and variance (9 + 1 + 1 + 9) / 4 = 5, not 20 / 3."""
    x = torch.tensor([[2.0, 4.0, 6.0, 8.0]])
    normed = layer_norm(x, torch.ones(4), torch.zeros(4), eps=0.0)
    assert normed[0].tolist() == pytest.approx([n / math.sqrt(5) for n in (-3, -1, 1, 3)])
    scaled = layer_norm(x, torch.full((4,), 2.0), torch.full((4,), 7.0), eps=0.0)
    assert_close(scaled, 2 * normed + 7, 1e-6)


def test_layer_norm_treats_each_position_by_itself():
    layer = LayerNorm(5).double()
    x = normal(2, 3, 5)
    together = layer(x)
    for b in range(2):
        for t in range(3):
            assert_close(layer(x[b, t]), together[b, t], 1e-12)
    assert_close(together.mean(-1), torch.zeros(2, 3), 1e-12)
    assert_close(together.var(-1, correction=0), torch.ones(2, 3), 1e-3)


def test_layer_norm_does_not_see_shift_and_scale():
    layer = LayerNorm(7, eps=0.0).double()
    x = normal(3, 7)
    assert_close(layer(11 * x + 13), layer(x), 1e-12)


def test_equal_entries_stay_finite():
    layer = LayerNorm(5)
    x = torch.full((2, 5), 3.0, requires_grad=True)
    layer(x).sum().backward()
    assert not layer(x).any()
    assert x.grad.isfinite().all()


def test_layer_norm_starts_with_gain_one_and_bias_zero():
    layer = LayerNorm(5)
    assert layer.gain.tolist() == [1.0] * 5
    assert layer.bias.tolist() == [0.0] * 5


def test_feed_forward_by_hand():
    """x = (1, -1): the inner layer is (1, -1) before the ReLU and (1, 0) after it."""
    layer = FeedForward(2, 2)
    with torch.no_grad():
        layer.w_1.weight.copy_(torch.eye(2))
        layer.w_2.weight.copy_(torch.tensor([[3.0, 5.0], [7.0, 11.0]]))
        layer.w_2.bias.copy_(torch.tensor([0.5, 0.0]))
    assert layer(torch.tensor([[1.0, -1.0]])).tolist() == [[3.5, 7.0]]


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "swiglu"])
def test_feed_forward_by_formula_at_each_position(activation):
    layer = FeedForward(5, 11, activation).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x = normal(2, 3, 5)
    inner = x @ layer.w_1.weight.T + layer.w_1.bias
    if activation == "relu":
        inner = inner.clamp(min=0)
    elif activation == "gelu":  # x times the normal distribution's mass below x
        inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    elif activation == "gelu_tanh":  # its formula in Hendrycks and Gimpel 2016
        bend = math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)
        inner = inner * 0.5 * (1 + torch.tanh(bend))
    else:
        inner = inner / (1 + torch.exp(-inner)) * (x @ layer.w_3.weight.T + layer.w_3.bias)
    wanted = inner @ layer.w_2.weight.T + layer.w_2.bias
    assert_close(layer(x), wanted, 1e-10)
    assert_close(layer(x[1, 2]), wanted[1, 2], 1e-10)


def test_feed_forward_equals_a_convolution_of_width_one():
    layer = FeedForward(5, 11).double()
    first, second = nn.Conv1d(5, 11, 1).double(), nn.Conv1d(11, 5, 1).double()
    with torch.no_grad():
        for convolution, linear in ((first, layer.w_1), (second, layer.w_2)):
            convolution.weight.copy_(linear.weight.unsqueeze(-1))
            convolution.bias.copy_(linear.bias)
    x = normal(2, 3, 5)
    assert_close(second(F.relu(first(x.transpose(1, 2)))).transpose(1, 2), layer(x), 1e-12)


@pytest.mark.parametrize(
    ("activation", "count"),
    [("relu", 2 * 5 * 11 + 16), ("gelu", 2 * 5 * 11 + 16), ("swiglu", 3 * 5 * 11 + 27)],
)
def test_feed_forward_parameters(activation, count):
    assert sum(p.numel() for p in FeedForward(5, 11, activation).parameters()) == count


class Twice(nn.Module):
    """A sub-layer whose output is easy to foresee."""

    def forward(self, x, extra=0.0):
        return 2 * x + extra


def test_residual_placements_by_formula():
    x = normal(2, 3, 5)
    norm = LayerNorm(5).double()
    post = Residual(Twice(), 5, norm="post").double()
    pre = Residual(Twice(), 5, norm="pre").double()
    assert_close(post(x, extra=1.0), norm(3 * x + 1), 1e-12)
    assert_close(pre(x, extra=1.0), x + 2 * norm(x) + 1, 1e-12)
    assert_close(pre(x, 1.0), pre(x, extra=1.0), 0.0)


def test_residual_drops_the_change_and_never_the_path():
    """With almost all dropped, the path is what remains."""
    torch.manual_seed(0)
    layer = Residual(Twice(), 5, norm="pre", dropout=0.999).double()
    x = normal(2, 3, 5)
    assert_close(layer.train()(x), x, 0.0)
    assert not torch.allclose(layer.eval()(x), x)


def test_dropout_keeps_the_expected_sum():
    torch.manual_seed(0)
    layer = Residual(Twice(), 2, norm="pre", dropout=0.3)
    x = torch.tensor([[1.0, -1.0]]).expand(40_000, 2)
    assert layer(x).mean(0).tolist() == pytest.approx([3.0, -3.0], abs=0.05)


def test_embedding_looks_up_and_scales():
    layer = Embedding(7, 9).double()
    tokens = torch.tensor([[3, 0, 6], [3, 3, 1]])
    one_hot = F.one_hot(tokens, 7).double()
    assert_close(layer(tokens), one_hot @ layer.weight * 3.0, 1e-12)
    assert torch.equal(layer(tokens)[0, 0], layer(tokens)[1, 1])


@pytest.mark.parametrize("std", [0.5, 1.0])
def test_embedded_tokens_start_with_the_given_spread(std):
    torch.manual_seed(0)
    for d_model in (16, 256):
        layer = Embedding(1000, d_model, std=std)
        assert layer(torch.arange(1000)).std().item() == pytest.approx(std, rel=0.05)


def test_tied_projection_has_the_matrix_and_one_gradient():
    embedding = Embedding(7, 5).double()
    projection = TiedProjection(embedding)
    assert projection.weight is embedding.weight
    assert projection.weight.data_ptr() == embedding.weight.data_ptr()
    tokens, x = torch.tensor([[2, 4]]), normal(1, 2, 5)
    assert_close(projection(x), x @ embedding.weight.T, 1e-12)

    both = embedding(tokens).sum() + (projection(x) ** 2).sum()
    whole = torch.autograd.grad(both, embedding.weight)[0]
    looked_up = torch.autograd.grad(embedding(tokens).sum(), embedding.weight)[0]
    scored = torch.autograd.grad((projection(x) ** 2).sum(), embedding.weight)[0]
    assert_close(whole, looked_up + scored, 1e-12)


@pytest.mark.parametrize("how", ["deepcopy", "double", "load_state_dict"])
def test_the_tie_survives(how):
    pair = nn.ModuleDict({"embedding": Embedding(7, 5)})
    pair["projection"] = TiedProjection(pair["embedding"])
    if how == "deepcopy":
        pair = copy.deepcopy(pair)
    elif how == "double":
        pair = pair.double()
    else:
        pair.load_state_dict({name: value + 1 for name, value in pair.state_dict().items()})
    assert pair["projection"].weight is pair["embedding"].weight
    assert len(list(pair.parameters())) == 1


def test_gradients_reach_every_parameter():
    x = normal(2, 3, 5).requires_grad_()
    for layer in (LayerNorm(5), FeedForward(5, 11), FeedForward(5, 11, "swiglu")):
        layer = layer.double()
        for gradient in gradients(layer(x), [x, *layer.parameters()]):
            assert gradient.any()


def test_autocast_runs():
    layer = Residual(FeedForward(8, 13), 8)
    x = normal(2, 3, 8, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = layer(x)
    assert_close(got, layer(x), 0.05)


def test_mistakes_are_named():
    x = torch.zeros(2, 3, 5)
    with unchecked():
        for layer in (LayerNorm(7), FeedForward(7, 11), TiedProjection(Embedding(3, 7))):
            name = type(layer).__name__
            with pytest.raises(ValueError, match=f"d_model=7 for {name}, got \\(2, 3, 5\\)"):
                layer(x)
        with pytest.raises(ValueError, match=r"keeps the shape \(2, 3, 5\), got \(2, 3, 1\)"):
            Residual(nn.Linear(5, 1), 5)(x)
    with pytest.raises(ValueError, match="out of relu, gelu, gelu_tanh, swiglu, got 'tanh'"):
        FeedForward(5, 11, "tanh")
    with pytest.raises(ValueError, match="got 'before'"):
        Residual(nn.Identity(), 5, norm="before")
    with pytest.raises(ValueError, match="from 0 to 6, got 2 to 7"):
        Embedding(7, 5)(torch.tensor([2, 7]))

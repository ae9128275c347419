"""Numbers worked out with a pencil, the properties of each layer, and its errors."""

import copy
import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lib.layers import (
    Embedding,
    FeedForward,
    LayerNorm,
    Residual,
    RMSNorm,
    TiedProjection,
    at_real,
    layer_norm,
)
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


def test_rms_norm_by_hand():
    """The mean of squares is (1 + 49 + 25 + 25) / 4 = 25, its root 5."""
    layer = RMSNorm(4, eps=0.0)
    x = torch.tensor([[1.0, -7.0, 5.0, 5.0]])
    assert layer(x).tolist() == [pytest.approx([0.2, -1.4, 1.0, 1.0])]
    with torch.no_grad():
        layer.gain.copy_(torch.tensor([1.0, 2.0, 3.0, 0.0]))
    assert layer(x).tolist() == [pytest.approx([0.2, -2.8, 3.0, 0.0])]
    assert RMSNorm(1, eps=3.0)(torch.ones(1)).item() == pytest.approx(0.5)


def test_rms_norm_by_formula_with_gradients():
    layer = RMSNorm(5, eps=0.01).double()
    nn.init.normal_(layer.gain)
    x = normal(2, 3, 5).requires_grad_()
    wanted = x / (x.pow(2).mean(-1, keepdim=True) + 0.01).sqrt() * layer.gain
    assert_close(layer(x), wanted, 1e-12)
    assert_close(layer(x[1, 2]), wanted[1, 2], 1e-12)
    inputs = [x, layer.gain]
    for got, true in zip(gradients(layer(x), inputs), gradients(wanted, inputs), strict=True):
        assert_close(got, true, 1e-12)


def test_rms_norm_does_not_see_scale_and_sees_a_shift():
    layer = RMSNorm(7, eps=0.0).double()
    x = normal(3, 7)
    assert_close(layer(11 * x), layer(x), 1e-12)
    assert not torch.allclose(layer(x + 1), layer(x), atol=0.1)
    centred = x - x.mean(-1, keepdim=True)  # where the mean is 0, it is LayerNorm
    assert_close(layer(centred), LayerNorm(7, eps=0.0).double()(x), 1e-12)
    assert not RMSNorm(3)(torch.zeros(2, 3)).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rms_norm_of_half_precision_rounds_the_result_alone(dtype):
    """Entries of 300 have squares above float16's 65,504; their mean is taken in float32."""
    layer = RMSNorm(1009)
    nn.init.normal_(layer.gain)
    for x in (normal(5, 1009, dtype=dtype), torch.full((5, 1009), 300.0).to(dtype)):
        gain = layer.gain.detach().to(dtype).double()
        wanted = x.double() / (x.double().pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * gain
        for got in (layer(x), layer.to(dtype)(x)):
            assert got.dtype == dtype
            error = ((got.double() - wanted) / wanted).abs()[wanted.abs() > 1e-3].max().item()
            assert error < torch.finfo(dtype).eps
        layer.float()


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


@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_feed_forward_without_biases(activation):
    bare, layer = FeedForward(5, 11, activation, bias=False), FeedForward(5, 11, activation)
    assert set(bare.state_dict()) == {n for n in layer.state_dict() if n.endswith(".weight")}
    layer.load_state_dict(bare.state_dict(), strict=False)  # whose biases start at 0
    x = normal(2, 3, 5, dtype=torch.float32)
    assert_close(bare(x), layer(x), 1e-6)
    assert not bare(torch.zeros(5)).any()


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


def test_residual_takes_another_norm():
    x = normal(2, 3, 5)
    rms = RMSNorm(5, eps=0.5).double()
    layers = {
        norm: Residual(Twice(), 5, norm=norm, norm_layer=partial(RMSNorm, eps=0.5)).double()
        for norm in ("post", "pre")
    }
    assert_close(layers["post"](x), rms(3 * x), 1e-12)
    assert_close(layers["pre"](x), x + 2 * rms(x), 1e-12)
    assert list(layers["pre"].state_dict()) == ["norm.gain"]


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
    for layer in (LayerNorm(5), RMSNorm(5), FeedForward(5, 11), FeedForward(5, 11, "swiglu")):
        layer = layer.double()
        for gradient in gradients(layer(x), [x, *layer.parameters()]):
            assert gradient.any()


def test_autocast_runs():
    x = normal(2, 3, 8, dtype=torch.float32)
    for norm_layer in (LayerNorm, RMSNorm):
        layer = Residual(FeedForward(8, 13), 8, norm_layer=norm_layer)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = layer(x)
        assert_close(got, layer(x), 0.05)


def test_mistakes_are_named():
    x = torch.zeros(2, 3, 5)
    with unchecked():
        for layer in (
            LayerNorm(7),
            RMSNorm(7),
            FeedForward(7, 11),
            TiedProjection(Embedding(3, 7)),
        ):
            with pytest.raises(RuntimeError, match=r"7.*5|5.*7"):  # torch's own
                layer(x)
        with pytest.raises(ValueError, match=r"keeps the shape \(2, 3, 5\), got \(2, 3, 1\)"):
            Residual(nn.Linear(5, 1), 5)(x)
    with pytest.raises(ValueError, match="out of relu, gelu, gelu_tanh, swiglu, got 'tanh'"):
        FeedForward(5, 11, "tanh")
    with pytest.raises(ValueError, match="got 'before'"):
        Residual(nn.Identity(), 5, norm="before")
    with pytest.raises(ValueError, match="from 0 to 6, got 2 to 7"):
        Embedding(7, 5)(torch.tensor([2, 7]))


@pytest.mark.parametrize("dropout", [-0.1, 1.5])
def test_a_dropout_that_is_no_fraction(dropout):
    with pytest.raises(ValueError, match=f"between 0 and 1, but got {dropout}"):  # torch's own
        Residual(nn.Identity(), 5, dropout=dropout)


def test_the_usual_eps_is_that_of_torch():
    x, gain, bias = normal(3, 5) * 1e-3, normal(5), normal(5, seed=1)
    assert_close(layer_norm(x, gain, bias), F.layer_norm(x, (5,), gain, bias), 1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LayerNorm(-3),
        lambda: RMSNorm(-3),
    ],
)
def test_sizes_below_zero_are_refused(make):
    with pytest.raises(RuntimeError, match="negative dimension -3"):  # torch's own
        make()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Embedding(0, 5), "vocab of 1 or more, got 0"),
        (lambda: Embedding(5, 0), "d_model of 1 or more, got 0"),
        (lambda: FeedForward(0, 5), "d_model of 1 or more, got 0"),
        (lambda: FeedForward(5, 0), "d_ff of 1 or more, got 0"),
    ],
)
def test_a_layer_of_nothing_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_sub_layer_that_is_dropped_whole_changes_nothing():
    layer, x = Residual(nn.Linear(5, 5), 5, norm="pre", dropout=1.0), normal(3, 5).float()
    assert torch.equal(layer(x), x)
    assert not torch.equal(layer.eval()(x), x)


def test_only_a_mask_of_the_positions_says_which_are_real():
    layer = nn.Linear(7, 7)
    with unchecked():
        with at_real([layer], torch.ones(2, 3).bool()), pytest.raises(IndexError, match="shape"):
            layer(torch.randn(2, 5, 7))
        with pytest.raises(ValueError, match="boolean mask"), at_real([layer], torch.ones(2, 5)):
            pass
    assert not layer._forward_hooks


def test_an_embedding_may_start_at_zero():
    assert not Embedding(5, 3, std=0.0).weight.any()

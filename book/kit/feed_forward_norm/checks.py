"""Properties of norms and of residual sub-layers; each classic mistake breaks one of them."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from kit.shared.checks import Steps, check, close, expect_tensor, normal, require, require_close

SHAPE = (2, 3, 5)  # (batch, time, d_model): no two sizes alike
EPS = 0.5  # so large that its place in the formula shows


@check("layer norm")
def check_layer_norm(norm: Callable[[Tensor, Tensor, Tensor, float], Tensor]) -> Steps:
    """Check norm(x, gain, bias, eps): mean 0 and biased variance 1 at each position.

    Shapes: x (batch, time, d_model), gain and bias (d_model). Returns the shape of x.
    """
    one, zero = torch.ones(SHAPE[-1]).double(), torch.zeros(SHAPE[-1]).double()
    x = 3 * normal(*SHAPE, seed=1) + 7
    y = expect_tensor(norm(x, one, zero, 1e-12), SHAPE, "a tensor")
    _require_by_position(lambda x: norm(x, one, zero, 1e-12), x)
    yield "each position by itself"

    mean = y.mean(-1)
    require_close(mean, 0.0, f"mean of a position: expected 0, got {mean[0, 0]:.3f}")
    _require_unit_square(y)
    yield "mean 0 and mean square 1, divided by d_model"

    require_close(
        norm(x, one, zero, EPS),
        _centred(x) / (_centred(x).square().mean(-1, keepdim=True) + EPS).sqrt(),
        "eps belongs to the variance, under the root: sqrt(variance + eps)",
    )
    _require_finite(lambda x: norm(x, one, zero, 1e-5), torch.full(SHAPE, 7.0))
    yield "eps under the root; equal entries stay finite, forward and backward"

    gain, bias = normal(SHAPE[-1], seed=2), normal(SHAPE[-1], seed=3)
    last = "gain and bias, one of each for a feature, come last: normalised * gain + bias"
    require_close(norm(x, gain, bias, 1e-12), y * gain + bias, last)
    yield "gain and bias for each feature"


@check("RMS norm")
def check_rms_norm(norm: Callable[[Tensor, Tensor, float], Tensor]) -> Steps:
    """Check norm(x, gain, eps): x / sqrt(mean square + eps) * gain, at each position.

    Shapes: x (batch, time, d_model), gain (d_model). Returns the shape of x.
    Source: Zhang and Sennrich 2019.
    """
    one, gain = torch.ones(SHAPE[-1]).double(), normal(SHAPE[-1], seed=2)
    x = 3 * normal(*SHAPE, seed=1) + 7
    y = expect_tensor(norm(x, one, 1e-12), SHAPE, "a tensor")
    _require_by_position(lambda x: norm(x, one, 1e-12), x)
    yield "each position by itself"

    require(not close(y.mean(-1), 0.0), "the mean was taken away: here it stays")
    _require_unit_square(y)
    yield "mean square 1, and the mean stays"

    require_close(
        norm(x, one, EPS),
        x / (x.square().mean(-1, keepdim=True) + EPS).sqrt(),
        "eps belongs to the mean square, under the root: sqrt(mean square + eps)",
    )
    _require_finite(lambda x: norm(x, one, 1e-5), torch.zeros(SHAPE))
    yield "eps under the root; zeros stay finite, forward and backward"

    require_close(norm(x, gain, 1e-12), y * gain, "the gain, one for a feature, comes last")
    yield "a gain for each feature"


@check("pre-norm")
def check_pre_norm(step: Callable[..., Tensor]) -> Steps:
    """Check step(x, sublayer, norm, drop): x + drop(sublayer(norm(x))).

    Shapes: x (batch, time, d_model); sublayer, norm and drop are functions from it to its shape.
    Source: Xiong et al. 2020.
    """
    x, zero = normal(*SHAPE, seed=1), torch.zeros_like

    def same(x: Tensor) -> Tensor:
        return x

    def triple(x: Tensor) -> Tensor:
        return 3 * x

    y = expect_tensor(step(x, zero, same, same), SHAPE, "a tensor")
    beside, undropped = step(x, zero, triple, same), step(x, same, same, zero)
    normed, dropped = (step(x, torch.sin, triple, drop) for drop in (same, torch.exp))
    inner = torch.sin(3 * x)
    late = not close(dropped, x + inner.exp())
    yield {
        "with a sub-layer that gives 0, x must come out unchanged: it is added": (y != x).any(),
        "the path beside the sub-layer is normalised; it must carry x itself": not close(beside, x),
        "dropout hits the path beside the sub-layer; only the sub-layer's output is "
        "dropped": not close(undropped, x),
        "the sub-layer must get norm(x)": not close(normed, x + inner),
        "drop is applied to the output of the sub-layer, once, before the sum": late,
    }
    yield "x passes unchanged beside the sub-layer"
    yield "the norm stands before the sub-layer, nowhere else"
    yield "dropout stands behind the sub-layer, before the sum"


@check("gradient of layer norm")
def check_layer_norm_backward(backward: Callable[[Tensor, Tensor, float], Tensor]) -> Steps:
    """Check backward(gradient, x, eps): the gradient with respect to x, for gain 1 and bias 0.

    Shapes: gradient, of the loss with respect to the normalised vectors, and x
        (batch, time, d_model). Returns the shape of x.
    """
    x, gradient = 3 * normal(*SHAPE, seed=1) + 7, normal(*SHAPE, seed=2)
    got = expect_tensor(backward(gradient, x, 1e-12), SHAPE, "a tensor")
    yield {
        "adding a number to all entries of x changes "
        "nothing, so the gradient must sum to 0": not close(got.sum(-1), 0.0),
        "stretching x about its mean changes nothing (eps apart), so "
        "the gradient must be orthogonal to x - mean": not close((got * _centred(x)).sum(-1), 0.0),
    }
    yield from ("no part along a shift", "no part along a stretch")

    for eps in (1e-5, EPS):
        leaf = x.clone().requires_grad_()
        normalised = torch.nn.functional.layer_norm(leaf, SHAPE[-1:], eps=eps)
        (want,) = torch.autograd.grad(normalised, leaf, gradient)
        otherwise = f"not the gradient that autograd finds with eps={eps}"
        require_close(backward(gradient, x, eps), want, otherwise)
    yield "equal to autograd, for any eps"


def _centred(x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
    return x - x.mean(-1, keepdim=True)


def _require_by_position(norm: Callable[[Tensor], Tensor], x: Tensor) -> None:
    changed = x.clone()
    changed[0, 0] = 11 * torch.arange(SHAPE[-1]).double()
    before, after = norm(x).flatten(0, 1)[1:], norm(changed).flatten(0, 1)[1:]
    wrong = "one position changed, and another one's output with it: use the last axis alone"
    require_close(after, before, wrong, tolerance=1e-10)


def _require_unit_square(y: Tensor) -> None:
    square, d = y.square().mean(-1), SHAPE[-1]
    first = square[0, 0].item()
    halved = f"the mean square is {first:.3f} = (d_model - 1) / d_model: divide by d_model"
    otherwise = f"mean square: expected 1, got {first:.3f}"
    require(abs(first - (d - 1) / d) > 1e-6, halved)
    require_close(square, 1.0, otherwise, tolerance=5e-4)  # leaves room for an eps of its own


def _require_finite(norm: Callable[[Tensor], Tensor], x: Tensor) -> None:
    x = x.double().requires_grad_()
    y = norm(x)
    require(bool(y.isfinite().all()), "equal entries give NaN or infinity: what does eps do?")
    require(y.requires_grad, "no gradient: the output is cut off from x")
    (gradient,) = torch.autograd.grad((y * normal(*SHAPE, seed=4)).sum(), x)
    require(bool(gradient.isfinite().all()), "equal entries give a gradient that is not finite")

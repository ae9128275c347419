"""Properties of norms and of residual sub-layers; each classic mistake breaks one of them."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from kit.shared.checks import Report, require

SHAPE = (2, 3, 5)  # (batch, time, d_model): no two sizes alike
EPS = 0.5  # so large that its place in the formula shows


def check_layer_norm(norm: Callable[[Tensor, Tensor, Tensor, float], Tensor]) -> Report:
    """Check norm(x, gain, bias, eps): mean 0 and biased variance 1 at each position.

    Shapes: x (batch, time, d_model), gain and bias (d_model). Returns the shape of x.
    Errors: CheckFailed.
    """
    gain, bias = torch.ones(SHAPE[-1]).double(), torch.zeros(SHAPE[-1]).double()
    x = 3 * _normal(*SHAPE, seed=1) + 7
    y = _tensor(norm(x, gain, bias, 1e-12), SHAPE)
    _require_by_position(lambda x: norm(x, gain, bias, 1e-12), x)
    require(_close(y.mean(-1), 0.0), f"mean of a position: expected 0, got {y.mean(-1)[0, 0]:.3f}")
    _require_unit_square(y)
    require(
        _close(norm(x, gain, bias, EPS), _centred(x) / (_variance(x) + EPS).sqrt()),
        "eps belongs to the variance, under the root: sqrt(variance + eps)",
    )
    _require_finite(lambda x: norm(x, gain, bias, 1e-5), torch.full(SHAPE, 7.0))
    gain, bias = _normal(SHAPE[-1], seed=2), _normal(SHAPE[-1], seed=3)
    require(
        _close(norm(x, gain, bias, 1e-12), y * gain + bias),
        "gain and bias, one of each for a feature, come last: normalised * gain + bias",
    )
    return Report(
        "layer norm",
        (
            "each position by itself",
            "mean 0 and mean square 1, divided by d_model",
            "eps under the root; equal entries stay finite, forward and backward",
            "gain and bias for each feature",
        ),
    )


def check_rms_norm(norm: Callable[[Tensor, Tensor, float], Tensor]) -> Report:
    """Check norm(x, gain, eps): x / sqrt(mean square + eps) * gain, at each position.

    Shapes: x (batch, time, d_model), gain (d_model). Returns the shape of x.
    Errors: CheckFailed. Source: Zhang and Sennrich 2019.
    """
    gain = torch.ones(SHAPE[-1]).double()
    x = 3 * _normal(*SHAPE, seed=1) + 7
    y = _tensor(norm(x, gain, 1e-12), SHAPE)
    _require_by_position(lambda x: norm(x, gain, 1e-12), x)
    require(not _close(y.mean(-1), 0.0), "the mean was taken away: here it stays")
    _require_unit_square(y)
    square = x.square().mean(-1, keepdim=True)
    require(
        _close(norm(x, gain, EPS), x / (square + EPS).sqrt()),
        "eps belongs to the mean square, under the root: sqrt(mean square + eps)",
    )
    _require_finite(lambda x: norm(x, gain, 1e-5), torch.zeros(SHAPE))
    gain = _normal(SHAPE[-1], seed=2)
    require(_close(norm(x, gain, 1e-12), y * gain), "the gain, one for a feature, comes last")
    return Report(
        "RMS norm",
        (
            "each position by itself",
            "mean square 1, and the mean stays",
            "eps under the root; zeros stay finite, forward and backward",
            "a gain for each feature",
        ),
    )


def check_pre_norm(step: Callable[..., Tensor]) -> Report:
    """Check step(x, sublayer, norm, drop): x + drop(sublayer(norm(x))).

    Shapes: x (batch, time, d_model); sublayer, norm and drop are functions from it to its shape.
    Errors: CheckFailed. Source: Xiong et al. 2020.
    """

    def same(x: Tensor) -> Tensor:
        return x

    x = _normal(*SHAPE, seed=1)
    y = _tensor(step(x, torch.zeros_like, same, same), SHAPE)
    require(
        torch.equal(y, x), "with a sub-layer that gives 0, x must come out unchanged: it is added"
    )
    require(
        _close(step(x, torch.zeros_like, lambda x: 3 * x, same), x),
        "the path beside the sub-layer is normalised; it must carry x itself",
    )
    require(
        _close(step(x, same, same, torch.zeros_like), x),
        "dropout hits the path beside the sub-layer; only the sub-layer's output is dropped",
    )
    require(
        _close(step(x, torch.sin, lambda x: 3 * x, same), x + torch.sin(3 * x)),
        "the sub-layer must get norm(x)",
    )
    require(
        _close(step(x, torch.sin, lambda x: 3 * x, torch.exp), x + torch.exp(torch.sin(3 * x))),
        "drop is applied to the output of the sub-layer, once, before the sum",
    )
    return Report(
        "pre-norm",
        (
            "x passes unchanged beside the sub-layer",
            "the norm stands before the sub-layer, nowhere else",
            "dropout stands behind the sub-layer, before the sum",
        ),
    )


def check_layer_norm_backward(backward: Callable[[Tensor, Tensor, float], Tensor]) -> Report:
    """Check backward(gradient, x, eps): the gradient with respect to x, for gain 1 and bias 0.

    Shapes: gradient, of the loss with respect to the normalised vectors, and x
        (batch, time, d_model). Returns the shape of x.
    Errors: CheckFailed.
    """
    x, gradient = 3 * _normal(*SHAPE, seed=1) + 7, _normal(*SHAPE, seed=2)
    got = _tensor(backward(gradient, x, 1e-12), SHAPE)
    require(
        _close(got.sum(-1), 0.0),
        "adding a number to all entries of x changes nothing, so the gradient must sum to 0",
    )
    require(
        _close((got * _centred(x)).sum(-1), 0.0),
        "stretching x about its mean changes nothing (eps apart), so the gradient must be "
        "orthogonal to x - mean",
    )
    for eps in (1e-5, EPS):
        leaf = x.clone().requires_grad_()
        normalised = torch.nn.functional.layer_norm(leaf, SHAPE[-1:], eps=eps)
        (want,) = torch.autograd.grad(normalised, leaf, gradient)
        require(
            _close(backward(gradient, x, eps), want),
            f"not the gradient that autograd finds with eps={eps}",
        )
    return Report(
        "gradient of layer norm",
        ("no part along a shift", "no part along a stretch", "equal to autograd, for any eps"),
    )


def _normal(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _centred(x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
    return x - x.mean(-1, keepdim=True)


def _variance(x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch 1"]:
    return _centred(x).square().mean(-1, keepdim=True)


def _close(a: Tensor, b: Tensor | float) -> bool:
    return torch.allclose(a, torch.as_tensor(b, dtype=a.dtype), rtol=1e-6, atol=1e-6)


def _tensor(y: object, shape: tuple[int, ...]) -> Tensor:
    require(isinstance(y, Tensor), f"expected a tensor, got {y!r}")
    require(tuple(y.shape) == shape, f"expected the shape of x, {shape}, got {tuple(y.shape)}")
    return y


def _require_by_position(norm: Callable[[Tensor], Tensor], x: Tensor) -> None:
    changed = x.clone()
    changed[0, 0] = 11 * torch.arange(SHAPE[-1]).double()
    same = torch.equal(norm(changed)[0, 1:], norm(x)[0, 1:])
    same = same and torch.equal(norm(changed)[1:], norm(x)[1:])
    require(same, "one position changed, and another one's output with it: use the last axis alone")


def _require_unit_square(y: Tensor) -> None:
    square, d = y.square().mean(-1)[0, 0].item(), SHAPE[-1]
    require(
        abs(square - (d - 1) / d) > 1e-6,
        f"the mean square is {square:.3f} = (d_model - 1) / d_model: divide by d_model",
    )
    require(
        bool((y.square().mean(-1) - 1).abs().max() < 1e-3),  # leaves room for an eps of its own
        f"mean square: expected 1, got {square:.3f}",
    )


def _require_finite(norm: Callable[[Tensor], Tensor], x: Tensor) -> None:
    x = x.double().requires_grad_()
    y = norm(x)
    require(bool(y.isfinite().all()), "equal entries give NaN or infinity: what does eps do?")
    require(y.requires_grad, "no gradient: the output is cut off from x")
    (y * _normal(*SHAPE, seed=4)).sum().backward()
    require(bool(x.grad.isfinite().all()), "equal entries give a gradient that is not finite")

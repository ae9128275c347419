"""Properties of norms and of residual sub-layers; each classic mistake breaks one of them."""

from collections.abc import Callable, Mapping
from itertools import permutations

import torch
from torch import Tensor
from torch.nn import functional as F

from checks.by_hand import ByHand
from checks.framework import (
    CLOSE,
    Steps,
    check,
    close,
    expect_tensor,
    normal,
    require,
    require_close,
    require_gradients,
    short,
)

SHAPE = (2, 3, 5)  # (batch, time, d_model): no two sizes alike
WIDTH = SHAPE[-1]
SMALL, EPS = 1e-12, 0.5  # without effect, and so large that its place in the formula shows


@check("layer norm")
def check_layer_norm(norm: Callable[[Tensor, Tensor, Tensor, float], Tensor]) -> Steps:
    """Check norm(x, gain, bias, eps): mean 0 and biased variance 1 at each position.

    Shapes: x (batch, time, d_model), gain and bias (d_model). Returns the shape of x.
    """
    x, gain, bias = _input(), normal(WIDTH, seed=2), normal(WIDTH, seed=3)
    one, zero = torch.ones_like(gain), torch.zeros_like(gain)
    kept = {"the mean must be subtracted": x / x.std(-1, correction=0, keepdim=True)}
    _require_norm(lambda x, eps: norm(x, one, zero, eps), _centred, "variance", kept)
    yield "each position by itself"
    yield "mean 0 and mean square 1, divided by d_model"
    yield "eps under the root; equal entries stay finite, forward and backward"

    last = "scale and bias, one number for each feature, come last: normalised * gain + bias"
    require_close(norm(x, gain, bias, EPS), F.layer_norm(x, (WIDTH,), gain, bias, EPS), last)
    yield "scale and bias for each feature"


@check("RMS norm")
def check_rms_norm(norm: Callable[[Tensor, Tensor, float], Tensor]) -> Steps:
    """Check norm(x, gain, eps): x / sqrt(mean square + eps) * gain, at each position.

    Shapes: x (batch, time, d_model), gain (d_model). Returns the shape of x.
    Source: Zhang and Sennrich 2019.
    """
    x, gain = _input(), normal(WIDTH, seed=2)
    one = torch.ones_like(gain)
    taken = {
        "the mean was subtracted: here it stays": F.layer_norm(x, (WIDTH,), eps=SMALL),
        "x is divided by its standard deviation; the mean square subtracts no mean": (
            x / x.std(-1, keepdim=True)
        ),
    }
    _require_norm(lambda x, eps: norm(x, one, eps), torch.clone, "mean square", taken)
    yield "each position by itself"
    yield "mean square 1, and the mean stays"
    yield "eps under the root; zeros stay finite, forward and backward"

    last = "with a scale of 1 it is right; the scale, one number for each feature, comes last"
    missing = {"the scale is missing": F.rms_norm(x, (WIDTH,), eps=EPS)}
    require_close(norm(x, gain, EPS), F.rms_norm(x, (WIDTH,), gain, EPS), last, missing)
    yield "a scale for each feature"


@check("pre-norm")
def check_pre_norm(step: Callable[..., Tensor]) -> Steps:
    """Check step(x, sublayer, norm, drop): x + drop(sublayer(norm(x))).

    Shapes: x (batch, time, d_model); sublayer, norm and drop are functions from it to its shape.
    Source: Xiong et al. 2020.
    """
    x = normal(*SHAPE)
    functions = {"sublayer": torch.arctan, "norm": torch.exp, "drop": torch.sin}
    results: dict[str, Tensor] = {}  # what these functions make of x, each used once at most
    for order in (names for n in range(4) for names in permutations(functions, n)):
        text, y = "x", x
        for name in order:
            text, y = f"{name}({text})", functions[name](y)
        results |= {text: y, f"x + {text}": x + y, f"norm(x) + {text}": x.exp() + y}
        results |= {f"{name}(x + {text})": f(x + y) for name, f in functions.items()}

    got = expect_tensor(step(x, *functions.values()), SHAPE, "a tensor")
    rule = "x must pass unchanged, and drop(sublayer(norm(x))) must be added"
    told = {f"this is {text}; {rule}": y for text, y in results.items()}
    want = results["x + drop(sublayer(norm(x)))"]
    seen = f"expected {short(want[0, 0])} at the first position, got {short(got[0, 0])}; {rule}"
    require_close(got, want, seen, told)

    def reference(x: Tensor) -> Tensor:
        return x + x.exp().arctan().sin()

    require_gradients(lambda x: step(x, *functions.values()), reference, x=x)
    yield "x passes unchanged beside the sub-layer"
    yield "the norm stands before the sub-layer, nowhere else"
    yield "dropout stands behind the sub-layer, before the sum"


@check("gradient of layer norm")
def check_layer_norm_backward(backward: Callable[[Tensor, Tensor, float], Tensor]) -> Steps:
    """Check backward(gradient, x, eps): the gradient with respect to x, for scale 1 and bias 0.

    Shapes: gradient, of the loss with respect to the normalised vectors, and x
        (batch, time, d_model). Returns the shape of x.
    """
    x, gradient = _input(), normal(*SHAPE, seed=2)

    def run(eps: float) -> tuple[Tensor, Tensor]:
        leaf = x.clone().requires_grad_()
        (want,) = torch.autograd.grad(F.layer_norm(leaf, (WIDTH,), eps=eps), leaf, gradient)
        with ByHand():
            got = backward(gradient, x, eps)
        return expect_tensor(got, SHAPE, "a tensor", like=x), want

    got, want = run(SMALL)
    deviation = x.std(-1, keepdim=True)
    y, flat = _centred(x) / deviation, _centred(gradient)
    unbiased = (flat - y * (gradient * y).mean(-1, keepdim=True)) / deviation
    yield {
        "the variance divides by d - 1; divide by d": close(got, unbiased),
        "adding a number to all entries of x changes "
        "nothing, so the gradient must sum to 0 at each position": not close(got.sum(-1), 0.0),
        "scaling x about its mean changes nothing (eps apart), so "
        "the gradient must be orthogonal to x - mean at each position": not close(
            (got * _centred(x)).sum(-1), 0.0
        ),
    }
    yield from ("no part along a shift", "no part along a scaling")

    seen = f"expected {short(want[0, 0])} at the first position, got {short(got[0, 0])}"
    longer = want * x.std(-1, correction=0, keepdim=True)
    divided = "the gradient must be divided by the root of variance + eps"
    require_close(got, want, seen, {divided: longer})
    added = f"right for a tiny eps, wrong for eps = {EPS}: add eps to the variance"
    require_close(*run(EPS), added)
    yield "equal to autograd, for any eps"


def _input() -> Tensor:
    return 3 * normal(*SHAPE, seed=1) + 7


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def _require_norm(
    norm: Callable[[Tensor, float], Tensor],
    deviation: Callable[[Tensor], Tensor],
    name: str,
    mistakes: Mapping[str, Tensor],
) -> None:
    """Require deviation(x) / sqrt(its mean square + eps); name says what the mean square is."""

    def formula(x: Tensor, eps: float) -> Tensor:
        return deviation(x) / (deviation(x).square().mean(-1, keepdim=True) + eps).sqrt()

    x, d = _input(), WIDTH
    y, want = expect_tensor(norm(x, SMALL), SHAPE, "a tensor", like=x), formula(x, SMALL)
    changed = x.clone()
    changed[0, 0] = 11 * torch.arange(d)
    others = norm(changed, SMALL).flatten(0, 1)[1:]
    alone = "one position changed, and another one's output with it: use the last axis alone"
    require_close(others, y.flatten(0, 1)[1:], alone)

    halved = f"the mean square is {(d - 1) / d:.3f} = (d_model - 1) / d_model: divide by d_model"
    mean_square = f"{y[0, 0].square().mean():.3f}"
    square = f"with a scale of 1 the mean square of the output must be 1, got {mean_square}"
    seen = f"{square}; first position: expected {short(want[0, 0])}, got {short(y[0, 0])}"
    root = deviation(x).square().mean(-1, keepdim=True).sqrt()
    mistakes = {
        halved: want * ((d - 1) / d) ** 0.5,
        "the squares are summed, not averaged": want / d**0.5,
        "the root is missing": want / root,
        "1 is added to the scale": want * 2,
        **mistakes,
    }
    require_close(y, want, seen, mistakes, 1e-4)  # leaves room for an eps of its own
    under = f"eps belongs to the {name}, under the root: sqrt({name} + eps)"
    require_close(norm(x, EPS), formula(x, EPS), under)
    require_gradients(lambda x: norm(x, EPS), lambda x: formula(x, EPS), CLOSE, x=x)

    same = torch.zeros_like(x, requires_grad=True)
    y = norm(same, 1e-5)
    (gradient,) = torch.autograd.grad(y.sum(), same)
    finite = bool(y.isfinite().all() and gradient.isfinite().all())
    require(finite, "equal entries give NaN or infinity: what does eps do?")

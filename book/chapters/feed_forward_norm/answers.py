"""Right and wrong answers to the exercises of chapter 7; the wrong ones with what they are told."""

from functools import reduce

import torch
from torch.nn import functional as F


def square(x, axes=-1):
    return x.square().mean(axes, keepdim=True)


def rms_loops(x, gain, eps):
    out = torch.empty_like(x)
    for row in range(x.shape[0]):
        for place in range(x.shape[1]):
            vector = x[row, place]
            out[row, place] = gain * vector / (vector.dot(vector) / len(vector) + eps).sqrt()
    return out


def rms_by_length(x, gain, eps):
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return torch.mul(x, gain).div(torch.sqrt(length**2 / x.size(-1) + eps))


def rms_einsum(x, gain, eps):
    squares = torch.einsum("btd,btd->bt", x, x) / len(gain)
    return torch.einsum("btd,d,bt->btd", x, gain, (squares + eps).rsqrt())


def rms_in_float32(x, gain, eps):
    """As the large models do it: float32 inside, the type of x outside."""
    wide = x.float()
    return gain * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).type_as(x)


def rms_by_moments(x, gain, eps):
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return x * gain / (var + mean**2 + eps) ** 0.5


def rms_divided_in_place(x, gain, eps):
    return x.div_((square(x) + eps).sqrt()) * gain


def rms_gain_changed(x, gain, eps):
    return gain.div_((square(x) + eps).sqrt()[0, 0]) * x


def rms_axis_lost(x, gain, eps):
    return x / (x.square().mean(-1) + eps).sqrt() * gain


def pre_stepwise(x, sublayer, norm, drop):
    path = x
    for function in (norm, sublayer, drop):
        x = function(x)
    return path + x


def pre_into_a_copy(x, sublayer, norm, drop):
    out = x.clone()
    out += drop(sublayer(norm(x)))
    return out


def pre_as_a_stack(x, sublayer, norm, drop):
    return torch.stack([x, drop(sublayer(norm(x)))]).sum(dim=0)


def pre_onto_the_sublayer(x, sublayer, norm, drop):
    y = drop(sublayer(norm(x)))
    y += x
    return y


def pre_in_place(x, sublayer, norm, drop):
    return x.add_(drop(sublayer(norm(x))))


def pre_norm_kept(x, sublayer, norm, drop):
    x = norm(x)
    return x + drop(sublayer(x))


def spelled(text):
    return eval(f"lambda x, sublayer, norm, drop: {text}")


def centred(x):
    return x - x.mean(-1, keepdim=True)


def variance(x):
    return square(centred(x))


def projected(gradient, y):
    return centred(gradient) - y * (gradient * y).mean(-1, keepdim=True)


def backward_by_jacobian(gradient, x, eps):
    root = (variance(x) + eps).sqrt()
    y, d = centred(x) / root, x.shape[-1]
    jacobian = torch.eye(d, dtype=x.dtype) - 1 / d - y[..., :, None] * y[..., None, :] / d
    return torch.einsum("bti,btij->btj", gradient, jacobian) / root


def backward_step_by_step(gradient, x, eps):
    """The chain rule backwards, one operation after the other."""
    d = x.size(-1)
    deviation = x - x.mean(dim=-1, keepdim=True)
    inverse = ((deviation**2).sum(dim=-1, keepdim=True) / d + eps) ** -0.5
    of_variance = (gradient * deviation).sum(-1, keepdim=True) * -0.5 * inverse**3
    of_deviation = gradient * inverse + of_variance * 2 * deviation / d
    return of_deviation - of_deviation.sum(-1, keepdim=True) / d


def backward_loops(gradient, x, eps):
    out = torch.zeros_like(x)
    for row in range(len(x)):
        for place in range(x.shape[1]):
            v, g = x[row, place], gradient[row, place]
            root = torch.sqrt(v.var(unbiased=False) + eps)
            y = (v - v.mean()) / root
            out[row, place] = (g - g.mean() - y * (g @ y) / len(v)) / root
    return out


def backward_by_projection(gradient, x, eps):
    """With the vectors of torch's own norm, and a matrix that takes the mean away."""
    y, d = F.layer_norm(x, x.shape[-1:], eps=eps), x.shape[-1]
    centring = torch.eye(d).to(x) - 1 / d
    return (gradient @ centring - y * (gradient * y).mean(-1, True)) / (variance(x) + eps).sqrt()


def backward_of_a_batch(gradient, x, eps):
    """Flat, written into a new tensor."""
    flat, g = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, x.shape[-1])
    out = torch.empty_like(flat)
    out[:] = backward_by_jacobian(g[None], flat[None], eps)[0]
    return out.view_as(x)


def backward_in_sums(gradient, x, eps):
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    rstd, d = torch.rsqrt(var + eps), x.shape[-1]
    y = (x - mean) * rstd
    sums = gradient.sum(-1, keepdim=True) + y * (gradient * y).sum(-1, keepdim=True)
    return rstd / d * (d * gradient - sums)


def gradient_changed(gradient, x, eps):
    root = (variance(x) + eps).sqrt()
    y = centred(x) / root
    stretch = (gradient * y).mean(-1, keepdim=True)
    gradient -= gradient.mean(-1, keepdim=True)
    return (gradient - y * stretch) / root


def x_changed(gradient, x, eps):
    x -= x.mean(-1, keepdim=True)
    return backward_in_sums(gradient, x, eps)


def by_autograd(gradient, x, eps):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = F.layer_norm(x, x.shape[-1:], eps=eps)
    return torch.autograd.grad(y, x, gradient)[0]


def by_backward(gradient, x, eps):
    x = x.clone().requires_grad_()
    ((x - x.mean(-1, keepdim=True)) / (variance(x) + eps).sqrt()).backward(gradient)
    return x.grad


def by_vjp(gradient, x, eps):
    return torch.func.vjp(lambda x: F.layer_norm(x, x.shape[-1:], eps=eps), x)[1](gradient)[0]


def by_jacobian_of_torch(gradient, x, eps):
    def norm(v):
        return F.layer_norm(v, v.shape, eps=eps)

    rows = zip(gradient.flatten(0, 1), x.flatten(0, 1), strict=True)
    return torch.stack([torch.func.jacrev(norm)(v).T @ g for g, v in rows]).view_as(x)


def over_all_positions(gradient, x, eps):
    root = (variance(x) + eps).sqrt()
    y = centred(x) / root
    return (gradient - gradient.mean((0, 1)) - y * (gradient * y).mean((0, 1))) / root


def no_projection(gradient, x, eps):
    return gradient / (variance(x) + eps).sqrt()


def mean_only(gradient, x, eps):
    return centred(gradient) / (variance(x) + eps).sqrt()


def stretch_only(gradient, x, eps):
    root = (variance(x) + eps).sqrt()
    y = centred(x) / root
    return (gradient - y * (gradient * y).mean(-1, keepdim=True)) / root


def unbiased(gradient, x, eps):
    root = (x.var(-1, keepdim=True) + eps).sqrt()
    return projected(gradient, centred(x) / root) / root


def not_divided(gradient, x, eps):
    return projected(gradient, centred(x) / (variance(x) + eps).sqrt())


def along_x(gradient, x, eps):
    return projected(gradient, x) / (variance(x) + eps).sqrt()


def eps_forgotten(gradient, x, eps):
    root = variance(x).sqrt()
    return projected(gradient, centred(x) / root) / root


def stretch_added(gradient, x, eps):
    root = (variance(x) + eps).sqrt()
    y = centred(x) / root
    return (centred(gradient) + y * (gradient * y).mean(-1, keepdim=True)) / root


RIGHT = {
    "rms_norm": [
        rms_loops,
        rms_by_length,
        rms_einsum,
        rms_in_float32,
        rms_by_moments,
        lambda x, gain, eps: F.rms_norm(x, x.shape[-1:], weight=gain, eps=eps),
        lambda x, gain, eps: x * (square(x) + eps) ** -0.5 * gain,
    ],
    "pre_norm": [
        lambda x, sublayer, norm, drop: drop(sublayer(norm(x))) + x,
        lambda x, sublayer, norm, drop: torch.add(
            x, reduce(lambda y, f: f(y), (norm, sublayer, drop), x)
        ),
        pre_stepwise,
        pre_into_a_copy,
        pre_as_a_stack,
        pre_onto_the_sublayer,
    ],
    "layer_norm_backward": [
        backward_by_jacobian,
        backward_step_by_step,
        backward_loops,
        backward_in_sums,
        backward_by_projection,
        backward_of_a_batch,
    ],
}

WRONG = {
    "rms_norm": {
        rms_divided_in_place: "argument 1 was changed",
        rms_gain_changed: "argument 2 was changed",
        rms_axis_lost: "RuntimeError",
        lambda x, gain, eps: F.normalize(x, dim=-1) * x.shape[-1] ** 0.5 * gain: "under the root",
        lambda x, gain, eps: (
            x / (square(x) + eps).sqrt() * gain.mean()
        ): "one number for each feature",
        lambda x, gain, eps: F.layer_norm(x, x.shape[-1:], gain, eps=eps): "mean was subtracted",
        lambda x, gain, eps: (
            x / (x.var(-1, keepdim=True) + eps).sqrt() * gain
        ): "divided by its standard deviation",
        lambda x, gain, eps: x / (square(x).sqrt() + eps) * gain: "under the root",
        lambda x, gain, eps: x / square(x).sqrt() * gain: "under the root",  # no eps
        lambda x, gain, eps: x / (square(x) + 1e-6).sqrt() * gain: "under the root",
        lambda x, gain, eps: x / (square(x) + eps**2).sqrt() * gain: "under the root",
        lambda x, gain, eps: x / (square(x, 0) + eps).sqrt() * gain: "one position changed",
        lambda x, gain, eps: x / (square(x, 1) + eps).sqrt() * gain: "one position changed",
        lambda x, gain, eps: x / (square(x, (1, 2)) + eps).sqrt() * gain: "one position changed",
        lambda x, gain, eps: x / (square(x, (0, 1, 2)) + eps).sqrt() * gain: "one position changed",
        lambda x, gain, eps: (
            x / (x.square().sum(-1, keepdim=True) + eps).sqrt() * gain
        ): "the squares are summed, not averaged",
        lambda x, gain, eps: (
            x / (square(x) * len(gain) / (len(gain) - 1) + eps).sqrt() * gain
        ): "0.800 = (d_model - 1)",
        lambda x, gain, eps: x / (square(x) + eps) * gain: "the root is missing",
        lambda x, gain, eps: x / (x.abs().mean(-1, keepdim=True) + eps) * gain: "got 1.013;",
        lambda x, gain, eps: x / (square(x) + eps).sqrt(): "the scale is missing",  # no gain
        lambda x, gain, eps: x / (square(x) + eps).sqrt() * (1 + gain): "1 is added to the scale",
        lambda x, gain, eps: (
            x / (square(x) + eps).sqrt() + gain
        ): "with a scale of 1 the mean square of the output must be 1, got 3.987;",
        lambda x, gain, eps: gain / (square(x) + eps).sqrt(): "got 0.031;",  # no x
        lambda x, gain, eps: x * gain / (square(x * gain) + eps).sqrt(): "comes last",
        lambda x, gain, eps: (x / (square(x) + eps).sqrt() * gain).detach(): "no gradient",
        lambda x, gain, eps: x / (square(x).detach() + eps).sqrt() * gain: "gradient of x",
    },
    "pre_norm": {
        pre_in_place: "argument 1 was changed",
        pre_norm_kept: "this is norm(x) + drop(sublayer(norm(x)));",
        lambda x, sublayer, norm, drop: x + drop(sublayer(norm(norm(x)))): "x must pass unchanged",
        lambda x, sublayer, norm, drop: torch.cat(
            [x, drop(sublayer(norm(x)))], dim=-1
        ): "got (2, 3, 10)",
        lambda x, sublayer, norm, drop: x + drop(drop(sublayer(norm(x)))): "x must pass unchanged",
        lambda x, sublayer, norm, drop: x * drop(sublayer(norm(x))): "x must pass unchanged",
        lambda x, sublayer, norm, drop: x - drop(sublayer(norm(x))): "(norm(x))) must be added",
        lambda x, sublayer, norm, drop: x.detach() + drop(sublayer(norm(x))): "gradient of x",
        **{
            spelled(text): f"this is {text};"
            for text in (
                "norm(x) + drop(sublayer(x))",
                "drop(sublayer(norm(x)))",
                "norm(x + drop(sublayer(x)))",
                "x + norm(drop(sublayer(x)))",
                "x + drop(norm(sublayer(x)))",
                "drop(x + sublayer(norm(x)))",
                "x + sublayer(drop(norm(x)))",
                "x + sublayer(norm(drop(x)))",
                "x + sublayer(norm(x))",
                "x + drop(sublayer(x))",
                "x + drop(norm(x))",
                "x + sublayer(x)",
            )
        },
    },
    "layer_norm_backward": {
        gradient_changed: "argument 1 was changed",
        x_changed: "argument 2 was changed",
        by_autograd: "autograd",
        by_backward: "autograd",
        by_vjp: "autograd",
        by_jacobian_of_torch: "autograd",
        over_all_positions: "must sum to 0 at each position",
        lambda gradient, x, eps: gradient: "must sum to 0",
        lambda gradient, x, eps: backward_in_sums(x, gradient, eps): "must be orthogonal",
        no_projection: "must sum to 0",
        mean_only: "must be orthogonal",
        stretch_only: "must sum to 0",
        stretch_added: "must be orthogonal",
        unbiased: "the variance divides by d - 1",
        not_divided: "must be divided by the root",
        along_x: "must sum to 0",
        eps_forgotten: "add eps to the variance",
    },
}

"""Wrong answers to the exercises of chapter 7, each a mistake that people make."""

import torch
from torch.nn import functional as F


def square(x, axes=-1):
    return x.square().mean(axes, keepdim=True)


def centred(x):
    return x - x.mean(-1, keepdim=True)


def variance(x):
    return square(centred(x))


def no_projection(gradient, x, eps):
    return gradient / (variance(x) + eps).sqrt()


def mean_only(gradient, x, eps):
    return centred(gradient) / (variance(x) + eps).sqrt()


def unbiased(gradient, x, eps):
    deviation = (x.var(-1, keepdim=True) + eps).sqrt()
    y = centred(x) / deviation
    return (centred(gradient) - y * (gradient * y).mean(-1, keepdim=True)) / deviation


def not_divided(gradient, x, eps):
    y = centred(x) / (variance(x) + eps).sqrt()
    return centred(gradient) - y * (gradient * y).mean(-1, keepdim=True)


def along_x(gradient, x, eps):
    deviation = (variance(x) + eps).sqrt()
    return (centred(gradient) - x * (gradient * x).mean(-1, keepdim=True)) / deviation


def eps_forgotten(gradient, x, eps):
    deviation = variance(x).sqrt()
    y = centred(x) / deviation
    return (centred(gradient) - y * (gradient * y).mean(-1, keepdim=True)) / deviation


WRONG = {
    "rms_norm": [
        lambda x, gain, eps: F.layer_norm(x, x.shape[-1:], gain, eps=eps),  # takes the mean away
        lambda x, gain, eps: x / (x.var(-1, keepdim=True) + eps).sqrt() * gain,
        lambda x, gain, eps: x / (square(x).sqrt() + eps) * gain,  # eps outside the root
        lambda x, gain, eps: x / square(x).sqrt() * gain,  # no eps
        lambda x, gain, eps: x / (square(x, 0) + eps).sqrt() * gain,  # over the batch
        lambda x, gain, eps: x / (square(x, 1) + eps).sqrt() * gain,  # over time
        lambda x, gain, eps: x / (square(x, (1, 2)) + eps).sqrt() * gain,  # over both
        lambda x, gain, eps: x / (x.square().sum(-1, keepdim=True) + eps).sqrt() * gain,
        lambda x, gain, eps: (  # divided by d_model - 1
            x / (x.square().sum(-1, keepdim=True) / (x.shape[-1] - 1) + eps).sqrt() * gain
        ),
        lambda x, gain, eps: x / (square(x) + eps) * gain,  # no root
        lambda x, gain, eps: x / (square(x) + eps).sqrt(),  # no gain
        lambda x, gain, eps: x * gain / (square(x * gain) + eps).sqrt(),  # the gain too early
        lambda x, gain, eps: (x / (square(x) + eps).sqrt() * gain).detach(),
    ],
    "pre_norm": [
        lambda x, sublayer, norm, drop: drop(sublayer(norm(x))),  # no residual
        lambda x, sublayer, norm, drop: torch.cat([x, drop(sublayer(norm(x)))], dim=-1),
        lambda x, sublayer, norm, drop: norm(x + drop(sublayer(x))),  # post-norm
        lambda x, sublayer, norm, drop: x + norm(drop(sublayer(x))),  # norm behind the sub-layer
        lambda x, sublayer, norm, drop: norm(x) + drop(sublayer(norm(x))),
        lambda x, sublayer, norm, drop: drop(x + sublayer(norm(x))),  # dropout after the sum
        lambda x, sublayer, norm, drop: x + sublayer(drop(norm(x))),
        lambda x, sublayer, norm, drop: x + sublayer(norm(x)),  # no dropout
        lambda x, sublayer, norm, drop: x + drop(sublayer(x)),  # no norm
        lambda x, sublayer, norm, drop: x + drop(drop(sublayer(norm(x)))),
        lambda x, sublayer, norm, drop: x * drop(sublayer(norm(x))),
    ],
    "layer_norm_backward": [
        lambda gradient, x, eps: gradient,
        no_projection,
        mean_only,
        unbiased,
        not_divided,
        along_x,
        eps_forgotten,
    ],
}

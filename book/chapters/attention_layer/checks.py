"""Properties of the layer's two relatives: the hard look-up and kernel regression."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from checks.attention import SIZES, draw
from checks.framework import Steps, check, close, expect_tensor, require, require_close


@check("hard look-up")
def check_hard_lookup(lookup: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Steps:
    """Check lookup(query, key, value): for each query the value whose key scores highest.

    Shapes: query (query, d_k), key (key, d_k), value (key, d_v). Returns (query, d_v).
    """
    for sizes in SIZES:
        query, key, value = draw(*sizes)
        output = expect_tensor(lookup(query, key, value), (sizes[0], sizes[3]))
        for i, q in enumerate(query):
            best = max(range(len(key)), key=lambda j: float(q @ key[j]))
            require(
                torch.equal(output[i], value[best]),
                f"query {i} of {len(query)} scores highest with key {best} of {len(key)}: "
                f"expected value {best} untouched, got {output[i].tolist()}",
            )
    yield f"returns the best key's own value, on {len(SIZES)} shapes"


@check("kernel attention")
def check_kernel_attention(smooth: Callable[[Tensor, Tensor, Tensor, float], Tensor]) -> Steps:
    """Check smooth(query, key, value, width): Nadaraya-Watson regression with a Gaussian kernel.

    Shapes: query (query, d), key (key, d), value (key, d_v), the bandwidth a number above 0;
        returns (query, d_v).
    Source: Nadaraya (1964), Watson (1964).
    """
    for sizes, width in itertools.product(SIZES, (0.7, 3.0)):
        query, key, value = draw(*sizes)
        value[:, 0] = 1  # so that the first output is the sum of the weights
        squares = (query[:, None] - key).square().sum(-1)
        scores = -squares / (2 * width**2)
        mistakes = {
            "the factor 2 is missing": (2 * scores).softmax(1) @ value,
            "the bandwidth is not squared": (width * scores).softmax(1) @ value,
            "the distance is not squared": (scores / squares.sqrt()).softmax(1) @ value,
            "the sign is missing: the farthest key gets the most weight": (-scores).softmax(1)
            @ value,
            "the mean of the squares is taken, not the sum": (scores / sizes[2]).softmax(1) @ value,
            "the softmax runs over the queries": scores.softmax(0) @ value,
        }
        output = expect_tensor(smooth(query, key, value, width), (sizes[0], sizes[3]))
        i = int((output[:, 0] - 1).abs().argmax())
        otherwise = f"the weights of query {i} sum to {output[i, 0].item():.7g}, not to 1"
        if close(output[:, 0], 1.0):
            formula = "exp(-distance**2 / (2 * width**2))"
            otherwise = f"the weights sum to 1, but the kernel is not {formula}"
        right = scores.exp() @ value / scores.exp().sum(1, keepdim=True)
        require_close(output, right, otherwise, mistakes)
    yield f"equals the quotient of sums on {len(SIZES)} shapes"

    query, key, value = draw(2, 3, 1, 5)
    far = expect_tensor(smooth(query + 1e4, key, value, 0.1), (2, 5))
    yield {
        "a query far from every key gives 0 / 0, since each kernel underflows to 0; a softmax "
        "of -distance**2 / (2 * width**2) is the same quotient and stays finite": far.isnan().any()
    }
    nearest = value[(query + 1e4 - key.T).abs().argmin(-1)]
    require_close(far, nearest, "far from every key the nearest one must take all the weight")
    yield "finite far from every key"

"""Properties of counts and of windowed attention: what torch counts, what a stack lets through."""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from chapters.complexity.layers import CausalConvolution
from checks.attention import draw, require_attention
from checks.cases import require_cases
from checks.framework import Steps, check, expect_tensor, require, require_close
from lib.attention import MultiHeadAttention, scaled_dot_product_attention
from lib.masks import window_mask
from measure.observed import count_elementwise, count_flops, path_length

D_K, D_V = 5, 7


@check("multi-head FLOPs")
def check_multi_head_flops(count: Callable[[int, int, int], int]) -> Steps:
    """Check count(n, d_model, n_heads): the FLOPs of one multi-head self-attention layer.

    It must be what torch counts in the layer itself, the four projections included, at several
    sizes.
    """

    def counted(n: int, d_model: int, n_heads: int) -> int:
        layer = MultiHeadAttention(d_model, n_heads, bias=False)
        return count_flops(layer, torch.zeros(1, n, d_model))

    mistakes = {
        "a multiplication and an addition are two": lambda n, d, h: 2 * n**2 * d + 4 * n * d**2,
        "d_k of a head is d_model / n_heads": lambda n, d, h: 4 * n**2 * d * h + 8 * n * d**2,
        "the four projections are missing": lambda n, d, h: 4 * n**2 * d,
        "W_o is the fourth matrix": lambda n, d, h: 4 * n**2 * d + 6 * n * d**2,
        "scores and weighted sum are two matrix multiplications": lambda n, d, h: (
            2 * n**2 * d + 8 * n * d**2
        ),
        "torch counts matrix multiplications only": lambda n, d, h: (
            4 * n**2 * d + 8 * n * d**2 + 5 * h * n**2  # and the softmax as elementwise work
        ),
    }
    sizes = [(7, 6, 1), (7, 6, 2), (13, 30, 5), (31, 10, 2)]
    require_cases(count, counted, sizes, mistakes)
    yield from ("what torch counts, at four sizes", "the same for any number of heads")


@check("path of dilated convolutions")
def check_dilated_path(layers: Callable[[int, int], int]) -> Steps:
    """Check layers(n, k): how many dilated convolutions let the last position depend on the first.

    A stack for n positions is built, its steps growing by k from layer to layer, and observed.
    """

    def seen(n: int, k: int) -> int:
        def stack(depth: int) -> nn.Module:
            torch.manual_seed(0)
            steps = (k**level for level in range(depth))
            return nn.Sequential(*(CausalConvolution(2, k, step) for step in steps)).double()

        return path_length(stack, n, 2, at_most=20)

    def by(log: Callable[[float], float], n: int, k: int) -> int:
        return math.ceil(log(n) / log(k))

    mistakes: dict[str, Callable[[int, int], int]] = {
        "the steps grow by k": lambda n, k: -(-(n - 1) // (k - 1)),
        "k**layers positions are enough for n": lambda n, k: seen(n + 1, k),
    }
    for log in (math.log, math.log2, math.log10):
        mistakes[f"a rounding error of {log.__name__} rounds a power of k up"] = partial(by, log)
    powers = [(3, 3), (125, 5), (243, 3), (512, 8)]
    sizes = [(2, 3), *((n + more, k) for n, k in powers for more in (0, 1))]
    require_cases(layers, seen, sizes, mistakes)
    yield from (
        "what a real stack lets through, at nine sizes",
        "right at powers of k and just above",
    )


@check("local attention")
def check_local_attention(local: Callable[..., Tensor]) -> Steps:
    """Check local(query, key, value, radius): attention to a window, at a cost linear in time.

    Shapes: query and key (time, d_k), value (time, d_v); returns (time, d_v).
    """
    for time, radius in ((11, 12), (11, 2), (1, 3), (16, 4), (13, 1), (7, 0)):
        query, key, value = draw(time, time, D_K, D_V)
        mask = window_mask(time, radius)
        want = scaled_dot_product_attention(query, key, value, mask)
        got = expect_tensor(local(query, key, value, radius), (time, D_V), like=want)
        gap = (got - want).abs().amax(dim=1)
        i = int(gap.argmax())
        seen = f"{max(0, i - radius)} to {min(time - 1, i + radius)}"
        where = (
            f"time={time}, radius={radius}: position {i} is wrong: it must attend to positions "
            f"{seen}, no others, weighted by a softmax (at the ends the window is shorter: no "
            "wrapping, no zeros, no shifting)"
        )
        if mask.all():
            require_attention(got, query, key, value, otherwise=where)
        require_close(got, want, f"{where}, got an output that is off by {gap[i].item():.2g}")
    yield "what a window mask gives, at six sizes"

    costs = []
    for time in (64, 256):
        inputs = *draw(time, time, D_K, D_V), 3
        costs.append(count_flops(local, *inputs) + count_elementwise(local, *inputs))
    ratio = costs[1] / max(costs[0], 1)
    told = f"four times the length costs {ratio:.1f} times the FLOPs"
    require(ratio < 6, f"{told}; under a mask the full matrix is computed all the same")
    yield "FLOPs linear in the length"

"""Properties of counts and of windowed attention: what torch counts, what a stack lets through."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from kit.complexity.layers import CausalConvolution
from kit.shared.checks import Steps, check, expect, expect_tensor, normals, require
from kit.shared.measure import count_flops, path_length
from lib.attention import MultiHeadAttention, scaled_dot_product_attention
from lib.masks import window_mask

D_K, D_V = 5, 7


@check("multi-head FLOPs")
def check_multi_head_flops(count: Callable[[int, int, int], int]) -> Steps:
    """Check count(n, d_model, n_heads): the FLOPs of one multi-head self-attention layer.

    It must be what torch counts in the layer itself, the four projections included, at several
    sizes.
    """
    for n, d_model, n_heads in ((7, 6, 1), (7, 6, 2), (13, 30, 5), (31, 10, 2)):
        layer = MultiHeadAttention(d_model, n_heads, bias=False)
        wanted = count_flops(layer, torch.zeros(1, n, d_model))
        got = expect(count(n, d_model, n_heads), int, "a whole number")
        maps = 4 * n**2 * d_model
        meaning = {
            wanted: "",
            wanted + (n_heads - 1) * maps: "; one head is d_model / n_heads wide",
            n_heads * maps: "; one head is d_model / n_heads wide",
            wanted - 2 * n * d_model**2: "; the heads are joined by a fourth matrix",
            maps: "; the four projections are missing",
            wanted // 2: "; a multiplication and an addition are two",
        }
        where = f"n={n}, d_model={d_model}, n_heads={n_heads}: torch counts {wanted:,}, got {got:,}"
        require(got == wanted, where + meaning.get(got, ""))
    yield from ("what torch counts, at four sizes", "the same for any number of heads")


@check("path of dilated convolutions")
def check_dilated_path(layers: Callable[[int, int], int]) -> Steps:
    """Check layers(n, k): how many dilated convolutions join the last of n positions to the first.

    A stack is built, its steps growing by k from layer to layer, and looked through.
    """
    for n, k in ((2, 3), (3, 3), (4, 3), (9, 3), (10, 3), (16, 2), (17, 2), (125, 5), (126, 5)):

        def stack(depth: int, k: int = k) -> nn.Module:
            torch.manual_seed(0)
            steps = (k**place for place in range(depth))
            return nn.Sequential(*(CausalConvolution(2, k, step) for step in steps)).double()

        seen, got = (
            path_length(stack, n, 2, at_most=20),
            expect(layers(n, k), int, "a whole number"),
        )
        where = f"n={n}, k={k}: the signal arrives after {seen} layers, got {got}"
        yield {
            f"{where}; the steps grow by k": got != seen and got == -(-(n - 1) // (k - 1)),
            f"{where}; n is a power of k, and a logarithm in floating point may miss it": n
            == k**seen
            and got > seen,
            where: got != seen,
        }
    yield from (
        "what a real stack lets through, at nine sizes",
        "right at powers of k and just above",
    )


@check("local attention")
def check_local_attention(local: Callable[..., Tensor]) -> Steps:
    """Check local(query, key, value, radius): attention to a window, at a cost linear in time.

    Shapes: query and key (time, d_k), value (time, d_v); returns (time, d_v).
    """
    for time, radius in ((11, 2), (1, 3), (16, 4), (13, 1), (7, 0), (5, 9)):
        query, key, value = _inputs(time)
        got = expect_tensor(local(query, key, value, radius), (time, D_V))
        wanted = scaled_dot_product_attention(query, key, value, window_mask(time, radius))
        gap = (got - wanted).abs().max(dim=1).values
        worst = int(gap.argmax())
        require(
            gap.max().item() < 1e-8,  # NaN fails too
            f"time={time}, radius={radius}: position {worst} must see positions "
            f"{max(0, worst - radius)} to {min(time - 1, worst + radius)} and no others; it is off "
            f"by {gap.max().item():.3g}",
        )
    yield "what a window mask gives, at six sizes"

    short, long = (count_flops(lambda *x: local(*x, 3), *_inputs(time)) for time in (64, 256))
    require(
        long < 6 * short,
        f"four times the length costs {long / max(short, 1):.1f} times the FLOPs; under a mask the "
        "full matrix is computed all the same",
    )
    yield "FLOPs linear in the length"


def _inputs(time: int) -> list[Tensor]:
    return normals((time, D_K), (time, D_K), (time, D_V), seed=time)

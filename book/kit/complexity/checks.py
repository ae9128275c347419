"""Properties of counts and of windowed attention: what torch counts, what a stack lets through."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from kit.complexity.layers import CausalConvolution
from kit.shared.checks import Report, require
from kit.shared.measure import count_flops, path_length
from lib.attention import MultiHeadAttention, scaled_dot_product_attention
from lib.masks import window_mask

D_K, D_V = 5, 7


def check_multi_head_flops(count: Callable[[int, int, int], int]) -> Report:
    """Check count(n, d_model, n_heads): the FLOPs of one multi-head self-attention layer.

    It must be what torch counts in the layer itself, the four projections included, at several
    sizes. Errors: CheckFailed.
    """
    for n, d_model, n_heads in ((7, 6, 1), (7, 6, 2), (13, 30, 5), (31, 10, 2)):
        layer = MultiHeadAttention(d_model, n_heads, bias=False)
        wanted = count_flops(layer, torch.zeros(1, n, d_model))
        got = _whole(count(n, d_model, n_heads))
        where = f"n={n}, d_model={d_model}, n_heads={n_heads}: torch counts {wanted:,}, got {got:,}"
        maps = 4 * n**2 * d_model
        require(got != wanted // 2, f"{where}; a multiplication and an addition are two")
        require(got != maps, f"{where}; the four projections are missing")
        require(
            n_heads == 1 or got not in (wanted + (n_heads - 1) * maps, n_heads * maps),
            f"{where}; one head is d_model / n_heads wide",
        )
        require(
            got != wanted - 2 * n * d_model**2, f"{where}; the heads are joined by a fourth matrix"
        )
        require(got == wanted, where)
    return Report(
        "multi-head FLOPs",
        ("what torch counts, at four sizes", "the same for any number of heads"),
    )


def check_dilated_path(layers: Callable[[int, int], int]) -> Report:
    """Check layers(n, k): how many dilated convolutions join the last of n positions to the first.

    A stack is built, its steps growing by k from layer to layer, and looked through.
    Errors: CheckFailed.
    """
    for n, k in ((2, 3), (3, 3), (4, 3), (9, 3), (10, 3), (16, 2), (17, 2), (125, 5), (126, 5)):

        def stack(depth: int, k: int = k) -> nn.Module:
            torch.manual_seed(0)
            steps = (k**place for place in range(depth))
            return nn.Sequential(*(CausalConvolution(2, k, step) for step in steps)).double()

        seen, got = path_length(stack, n, 2, at_most=20), _whole(layers(n, k))
        where = f"n={n}, k={k}: the signal arrives after {seen} layers, got {got}"
        require(got != -(-(n - 1) // (k - 1)) or got == seen, f"{where}; the steps grow by k")
        require(
            n != k**seen or got <= seen,
            f"{where}; n is a power of k, and a logarithm in floating point may miss it",
        )
        require(got == seen, where)
    return Report(
        "path of dilated convolutions",
        ("what a real stack lets through, at nine sizes", "right at powers of k and just above"),
    )


def check_local_attention(local: Callable[[Tensor, Tensor, Tensor, int], Tensor]) -> Report:
    """Check local(query, key, value, radius): attention to a window, at a cost linear in time.

    Shapes: query and key (time, d_k), value (time, d_v); returns (time, d_v).
    Errors: CheckFailed.
    """
    for time, radius in ((11, 2), (1, 3), (16, 4), (13, 1), (7, 0), (5, 9)):
        query, key, value = _inputs(time)
        got, shape = local(query, key, value, radius), (time, D_V)
        came = tuple(got.shape) if isinstance(got, Tensor) else got
        require(came == shape, f"expected a tensor {shape}, got {came}")
        wanted = scaled_dot_product_attention(query, key, value, window_mask(time, radius))
        gap = (got - wanted).abs().max(dim=1).values
        worst = int(gap.argmax())
        require(
            gap.max().item() < 1e-8,  # NaN fails too
            f"time={time}, radius={radius}: position {worst} must see positions "
            f"{max(0, worst - radius)} to {min(time - 1, worst + radius)} and no others; it is off "
            f"by {gap.max().item():.3g}",
        )
    short, long = (count_flops(lambda *x: local(*x, 3), *_inputs(time)) for time in (64, 256))
    require(
        long < 6 * short,
        f"four times the length costs {long / max(short, 1):.1f} times the FLOPs; under a mask the "
        "full matrix is computed all the same",
    )
    return Report(
        "local attention",
        ("what a window mask gives, at six sizes", "FLOPs linear in the length"),
    )


def _inputs(time: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(time)
    return [torch.randn(time, d, generator=generator, dtype=torch.float64) for d in (D_K, D_K, D_V)]


def _whole(value: object) -> int:
    require(
        isinstance(value, int) and not isinstance(value, bool),
        f"expected a whole number, got {value!r}",
    )
    return value

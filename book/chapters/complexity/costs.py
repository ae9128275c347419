"""Table 1 of the paper as functions: what each kind of layer costs, and how far a signal must go.

Each layer maps n vectors of dimension d to n vectors of dimension d, one sequence, and lets
positions exchange information. FLOPs count what torch's counter counts: a multiplication and an
addition are two, matrix multiplications only; softmax, tanh and other elementwise work are left
out. `measure.observed` counts and times the layers themselves; nothing here runs one.
"""

import math
from typing import NamedTuple


class Cost(NamedTuple):
    """What one layer needs for one sequence, and the longest path between two of its positions.

    flops        floating-point operations in matrix multiplications
    parameters   learned numbers, biases left out
    memory       numbers that the layer makes on the way to its output, and keeps for the gradient
    sequential   operations that must wait for one another
    path         steps that a signal takes between the two positions that are farthest apart

    Source: Attention Is All You Need, table 1.
    """

    flops: int
    parameters: int
    memory: int
    sequential: int
    path: int


def self_attention_cost(n: int, d: int, *, n_heads: int = 1, projections: bool = False) -> Cost:
    """O(n^2 d): every position is compared with every other, in one step.

    flops = 2 n^2 d (scores) + 2 n^2 d (weighted sum); with the projections to queries, keys,
    values and output, 4 * 2 n d^2 more, which the paper's table leaves out. memory: one n x n
    attention map for each head.
    Errors: ValueError for a size below 1, or n_heads that do not divide d.
    Source: Attention Is All You Need, table 1.
    """
    _require_sizes(n=n, d=d, n_heads=n_heads)
    if d % n_heads:
        raise ValueError(f"expected n_heads to divide d, got n_heads={n_heads} and d={d}")
    flops, parameters, memory = 4 * n**2 * d, 0, n_heads * n**2
    if projections:
        flops, parameters, memory = flops + 8 * n * d**2, 4 * d**2, memory + 4 * n * d
    return Cost(flops, parameters, memory, sequential=1, path=1 if n > 1 else 0)


def recurrent_cost(n: int, d: int) -> Cost:
    """O(n d^2): h_t = tanh(W x_t + U h_{t-1}), sequentially.

    A layer with gates has more pairs W and U: three in a GRU, four in an LSTM.

    flops = 2 n d^2 (W, all positions at once) + 2 (n - 1) d^2 (U, one by one; h_0 is 0).
    Errors: ValueError for a size below 1.
    Source: Attention Is All You Need, table 1.
    """
    _require_sizes(n=n, d=d)
    flops = 2 * n * d**2 + 2 * (n - 1) * d**2
    return Cost(flops, 2 * d**2, n * d, sequential=n, path=n - 1)


def convolution_cost(n: int, d: int, k: int, *, dilated: bool = False) -> Cost:
    """O(k n d^2): each position reads k positions, itself and those before it.

    path: layers until the last position has read the first. A layer reaches k - 1 positions back;
    in a stack whose steps grow by k from layer to layer, L layers reach k^L - 1.
    Errors: ValueError for a size below 1, or k below 2, which lets nothing pass between positions.
    Source: Attention Is All You Need, table 1 and section 4.
    """
    _require_sizes(n=n, d=d)
    if k < 2:
        raise ValueError(f"expected a kernel of at least 2 positions, got k={k}")
    path, reached = 0, 0
    while reached < n - 1:
        reached = k ** (path + 1) - 1 if dilated else reached + k - 1
        path += 1
    return Cost(2 * k * n * d**2, k * d**2, n * d, sequential=1, path=path)


def restricted_cost(n: int, d: int, radius: int, *, projections: bool = False) -> Cost:
    """O(r n d): attention to a neighbourhood of r = 2 radius + 1 positions.

    flops and memory count the pairs of positions in the window, so they are exact at the ends too;
    `chapters.complexity.layers` computes a little more, because it works in blocks. The projections cost
    what they cost in full attention.
    Errors: ValueError for a size below 1.
    Source: Attention Is All You Need, table 1 and section 4.
    """
    _require_sizes(n=n, d=d, radius=radius)
    reach = min(radius, n - 1)
    pairs = n * (2 * reach + 1) - reach * (reach + 1)
    flops, parameters, memory = 4 * pairs * d, 0, pairs
    if projections:
        flops, parameters, memory = flops + 8 * n * d**2, 4 * d**2, memory + 4 * n * d
    return Cost(flops, parameters, memory, sequential=1, path=math.ceil((n - 1) / radius))


def _require_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"expected {name} to be a whole number above 0, got {size!r}")

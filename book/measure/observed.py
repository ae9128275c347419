"""Measuring layers: FLOPs counted, seconds fitted, memory watched, paths and influence observed.

What is here holds for any function or module. `measure.costs` has the formulas that the results are
held against."""

import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy import stats
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from measure.costs import Kind, Link, Number, bytes_sent, messages_sent, ring_time

# As autograd names them; a fused attention kernel is one.
_PRODUCTS = ("Mm", "Bmm", "Addmm", "Convolution", "ScaledDotProduct")


def count_flops(function: Callable[..., object], *inputs: object) -> int:
    """Return the floating-point operations of `function(*inputs)`, as torch's counter sees them.

    It counts matrix products and convolutions, a multiplication and an addition as two. Attention
    runs through its plain kernel meanwhile: the counter does not know every fused one.
    Source: torch.utils.flop_counter.
    """
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
        function(*inputs)
    return counter.get_total_flops()


class _Elementwise(TorchDispatchMode):
    """Adds up the floating-point numbers that elementwise operations give."""

    total = 0

    def __torch_dispatch__(
        self,
        function: torch._ops.OpOverload,
        types: object,
        args: tuple = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        result = function(*args, **(kwargs or {}))
        is_copy = function.overloadpacket in (torch.ops.aten.clone, torch.ops.aten.copy_)
        is_elementwise = torch.Tag.pointwise in function.tags and not is_copy
        if is_elementwise and isinstance(result, Tensor) and result.is_floating_point():
            self.total += result.numel()
        return result


def count_elementwise(function: Callable[..., object], *inputs: object) -> int:
    """Return the FLOPs of `function(*inputs)` that `count_flops` leaves out: one for each number
    that a sum, product or root of single entries gives. Copies cost nothing here.
    """
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), _Elementwise() as counter:
        function(*inputs)
    return counter.total


def fastest_seconds(
    functions: Mapping[str, Callable[[], object]],
    repeats: int = 7,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Time functions in turn, A B C A B C, after one call of each that does not count.

    Taking turns lets a busy moment of the machine fall on all of them; the fastest call of each is
    the one that it disturbed least.
    Args: clock, `time.process_time` to count only what this process worked, on all its threads.
    Errors: ValueError for fewer than one repeat.
    """
    if repeats < 1:
        raise ValueError(f"expected one repeat or more, got {repeats}")
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for repeat in range(repeats + 1):
        for name, function in functions.items():
            start = clock()
            function()
            if torch.cuda.is_available():
                torch.cuda.synchronize()  # a GPU works on after the call has returned
            if repeat:
                taken[name].append(clock() - start)
    return {name: min(seconds) for name, seconds in taken.items()}


def longest_chain(output: Tensor) -> int:
    """Count the matrix multiplications and convolutions that had to wait for one another.

    It follows autograd's graph from `output` back to its inputs: of all ways, the one with the most
    multiplications on it. Two that could run side by side lie on different ways.
    Errors: ValueError for an output without a graph.
    """
    if output.grad_fn is None:
        raise ValueError("expected an output that autograd has recorded; give an input a gradient")
    chains: dict[object, int] = {}
    waiting = [output.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [earlier for earlier, _ in node.next_functions if earlier is not None]
        unknown = [earlier for earlier in before if earlier not in chains]
        waiting += unknown
        if not unknown:
            waiting.pop()
            longest = max((chains[earlier] for earlier in before), default=0)
            chains[node] = longest + node.name().startswith(_PRODUCTS)
    return chains[output.grad_fn]


class Power(NamedTuple):
    """y = c x^exponent, fitted, with the bounds between which the exponent lies with 95 %."""

    exponent: float
    low: float
    high: float


def fit_power(x: Sequence[float | int], y: Sequence[float | int]) -> Power:
    """Fit a straight line to log y against log x: its slope is the exponent.

    The bounds are those of Student's t for the slope; they hold if the errors of log y scatter
    about the line, and say nothing of a curve that is not a power of x.
    Errors: ValueError for fewer than three points, or a number that is not above 0.
    """
    if len(x) != len(y) or len(x) < 3:
        raise ValueError(f"expected three points or more, got {len(x)} x and {len(y)} y")
    if not all(value > 0 for value in (*x, *y)):
        raise ValueError("expected numbers above 0: a power law is a line in their logarithms")
    logs = (torch.tensor(v, dtype=torch.float64).log().numpy() for v in (list(x), list(y)))
    line = stats.linregress(*logs)
    half = stats.t.ppf(0.975, len(x) - 2) * line.stderr
    return Power(float(line.slope), float(line.slope - half), float(line.slope + half))


class Measured(NamedTuple):
    """The time of one collective operation over n ranks, in seconds."""

    n: int
    nbytes: int
    seconds: Number
    kind: Kind = "all_reduce"


def fit_link(measured: Sequence[Measured]) -> Link:
    """The latency and bandwidth with which `ring_time` comes closest to measured times.

    Least squares of the relative errors, so that the short messages count as much as the long ones.
    What would come out negative is 0: no latency, or a bandwidth without bound.
    Errors: ValueError for fewer than two different sizes, times that are not positive, or one rank.
    """
    if len({(one.nbytes, one.n) for one in measured}) < 2:
        raise ValueError("expected times of at least two sizes, got fewer; measure another one")
    if any(one.seconds <= 0 or one.n < 2 for one in measured):
        raise ValueError("expected positive times of two ranks or more; measure again")
    rows = [(messages_sent(m.kind, m.n), bytes_sent(m.kind, m.nbytes, m.n)) for m in measured]
    scaled = np.array(rows, dtype=float) / np.array([[one.seconds] for one in measured])
    wanted = np.ones(len(measured))
    latency, per_byte = np.linalg.lstsq(scaled, wanted, rcond=None)[0]
    if latency < 0 or per_byte < 0:
        only = int(latency < 0)  # the column that is left
        best = float(scaled[:, only] @ wanted / (scaled[:, only] @ scaled[:, only]))
        latency, per_byte = (0.0, best) if only else (best, 0.0)
    return Link(float(latency), float(1 / per_byte) if per_byte > 0 else float("inf"))


def relative_errors(measured: Sequence[Measured], link: Link) -> list[float]:
    """For each measured time, predicted / measured - 1."""
    return [ring_time(one.kind, one.nbytes, one.n, link) / one.seconds - 1 for one in measured]


class _Watch(TorchDispatchMode):
    """Adds up the bytes of every new tensor's storage, and takes them off when it is freed."""

    def __init__(self, given: Iterable[Tensor]) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known = {tensor.untyped_storage()._cdata for tensor in given}

    def __torch_dispatch__(
        self,
        function: Callable[..., object],
        types: object,
        args: tuple = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor):
                self._add(tensor.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self.known:
            self.known.add(key)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


def peak_bytes(function: Callable[..., object], *inputs: Tensor) -> int:
    """Return the most bytes that tensors made by `function(*inputs)` held at any one moment.

    The inputs do not count, nor does what a kernel needs within itself. On any device.
    """
    with _Watch(inputs) as watch:
        _kept = function(*inputs)  # alive until the watch ends, as for a caller
    return watch.peak


def reach(
    function: Callable[[Tensor], Tensor], n: int, d: int
) -> Bool[Tensor, "output_time input_time"]:
    """Observe which inputs reach which outputs: True where a gradient arrives.

    Shapes: `function` maps (1, n, d) to (1, n, d), in float64. Returns (n, n), rows are outputs.
        A gradient that happens to be 0 would be missed; with random parameters that does not
        happen.
    """
    rows = [_gradient(function, n, d, position) for position in range(n)]
    return torch.stack(rows) != 0


def path_length(
    stack: Callable[[int], Callable[[Tensor], Tensor]], n: int, d: int, *, at_most: int = 1000
) -> int:
    """Observe how many layers it takes until the last of n outputs depends on the first input.

    `stack(layers)` returns a function from (1, n, d) to (1, n, d) in float64 of so many layers.
    Errors: ValueError if `at_most` layers are not enough.
    """
    for layers in range(1, at_most + 1):
        if _gradient(stack(layers), n, d, n - 1)[0] != 0:
            return layers
    raise ValueError(f"expected a signal to arrive within {at_most} layers; it does not")


def _gradient(
    function: Callable[[Tensor], Tensor], n: int, d: int, position: int
) -> Float[Tensor, " n"]:
    """Size of the gradient of one output position with respect to every input position."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, n, d, dtype=torch.float64, generator=generator).requires_grad_()
    direction = torch.randn(d, dtype=torch.float64, generator=generator)  # lets no terms cancel
    (gradient,) = torch.autograd.grad(function(x)[0, position] @ direction, x)
    return gradient[0].abs().sum(dim=-1)


def influence(
    function: Callable[[Tensor], Tensor], x: Float[Tensor, "time d_in"], tolerance: float = 0.0
) -> Bool[Tensor, "query key"]:
    """Return which outputs depend on which inputs: True where the Jacobian is not exactly zero.

    A masked pair is exactly zero on every processor: a weight of 0 multiplies all that comes from
    it. Where terms cancel, as in the softmax of a single key, the zero holds up to rounding only,
    and what a kernel leaves there depends on the processor.

    Shapes: x (time, d_in), function(x) (query, d_out). Returns (query, key), key = time of x: True
        at (i, j) if some entry of output i has a derivative to some entry of input j.
    Args: tolerance, the size up to which a derivative counts as zero.
    """
    jacobian = torch.autograd.functional.jacobian(function, x)  # (query, d_out, key, d_in)
    return (jacobian.abs() > tolerance).any(dim=3).any(dim=1)

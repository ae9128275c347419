"""Properties that masks must have, and the proof that nothing leaks through a model."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lib.checks import Report, require


def influence(
    function: Callable[[Tensor], Tensor], x: Float[Tensor, "time d_in"]
) -> Bool[Tensor, "query key"]:
    """Return which outputs depend on which inputs: True where the Jacobian is not exactly zero.

    Shapes: x (time, d_in), function(x) (query, d_out). Returns (query, key), key = time of x: True
        at (i, j) if some entry of output i has a derivative to some entry of input j.
    Source: ours. Chapter: 6 (Masking).
    """
    jacobian = torch.autograd.functional.jacobian(function, x)  # (query, d_out, key, d_in)
    return (jacobian != 0).any(dim=3).any(dim=1)


def check_nothing_leaks(
    function: Callable[[Tensor], Tensor] | nn.Module,
    x: Float[Tensor, "time d_in"],
    mask: Bool[Tensor, "query key"],
) -> Report:
    """Check that output i feels input j only where mask[i, j] allows it, in training and in use.

    First by the Jacobian, which must be exactly zero elsewhere; then by changing the inputs that
    output i may not see, which must leave it the same bit for bit.

    Shapes: x (time, d_in), function(x) (query, d_out), mask (query, key), True = may attend.
    Errors: CheckFailed, which names the first pair of positions that leaks.
    Source: ours. Chapter: 6 (Masking).
    """

    def run(x: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same dropout each time
            return function(x)

    is_module = isinstance(function, nn.Module)
    mode_before = function.training if is_module else None
    for training in (True, False) if is_module else (None,):
        if is_module:
            function.train(training)
        where = {True: " in training", False: " in use", None: ""}[training]
        leaks = (influence(run, x) & ~mask).nonzero().tolist()
        require(not leaks, f"output {leaks[:1]} (query, key) feels an input it may not see{where}")
        with torch.no_grad():
            before = run(x)
            for i, allowed in enumerate(mask):
                changed = torch.where(allowed[:, None], x, 3 - 2 * x)
                require(
                    torch.equal(run(changed)[i], before[i]),
                    f"output {i} changed with inputs that it may not see{where}",
                )
    if is_module:
        function.train(mode_before)
    return Report(
        "nothing leaks",
        ("the Jacobian is exactly zero where masked", "no bit changes with a masked input"),
    )


def check_padding_mask(make: Callable[[Tensor, int], Tensor]) -> Report:
    """Check make(lengths, n_keys): key j is allowed where j < length.

    Shapes: lengths (batch,) gives a mask that broadcasts to (batch, query, key).
    Errors: CheckFailed. Source: ours. Chapter: 6 (Masking).
    """
    lengths, n_keys, n_queries = torch.tensor([3, 0, 7, 1, 5]), 7, 11
    mask = _boolean(make(lengths, n_keys))
    full = (len(lengths), n_queries, n_keys)
    try:
        mask = mask.expand(full)
    except RuntimeError:
        require(False, f"expected (batch, 1, key) = (5, 1, 7), got {tuple(mask.shape)}")
    for b, length in enumerate(lengths.tolist()):
        row = [j < length for j in range(n_keys)]
        got = mask[b, 0].tolist()
        require(
            got != [not allowed for allowed in row], "the polarity is swapped: True = may attend"
        )
        require(got == row, f"length {length}: expected the row {row}, got {got}")
    return Report("padding mask", ("True up to the length, False after it", "a length of 0"))


def check_causal_mask(make: Callable[[int], Tensor]) -> Report:
    """Check make(n): position i may attend to j where j <= i, itself included.

    Errors: CheckFailed. Source: ours. Chapter: 6 (Masking).
    """
    for n in (1, 2, 7):
        mask = _boolean(make(n))
        require(tuple(mask.shape) == (n, n), f"expected {(n, n)}, got {tuple(mask.shape)}")
        require(bool(mask.diagonal().all()), "each position may attend to itself")
        for i in range(n):
            for j in range(n):
                require(
                    bool(mask[i, j]) == (j <= i),
                    f"query {i}, key {j}: expected {j <= i}; rows are queries, columns are keys",
                )
    return Report("causal mask", ("no later position is seen", "each position sees itself"))


def _boolean(mask: object) -> Tensor:
    require(isinstance(mask, Tensor), f"expected a boolean tensor, got {mask!r}")
    require(mask.dtype == torch.bool, f"expected a boolean tensor, got {mask.dtype}")
    return mask

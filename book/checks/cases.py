"""Checks of functions that a formula defines: what they must give, case by case."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from checks.framework import CLOSE, CheckFailed, expect, expect_tensor, require


def require_cases(
    answer: Callable[..., Any],
    right: Callable[..., Any],
    cases: Sequence[tuple],
    mistakes: Mapping[str, Callable[..., Any]],
    kind: Any = Integral,
    what: str = "a whole number",
) -> list[Any]:
    """Require what the right function gives in each case, numbers or tensors; return the answers.

    A tensor of one number is a number too. A known mistake is told only if it gives what the answer
    gave in every case, so that no mistake is told that was not made.

    Args: mistakes, what a wrong answer means and the function that it is; kind and what, the type
        of numbers and the words for it.
    """
    wanted = [right(*case) for case in cases]
    got = [
        expect_tensor(answer(*case), want.shape, like=want)
        if isinstance(want, Tensor)
        else expect(_plain(answer(*case)), kind, what)
        for case, want in zip(cases, wanted, strict=True)
    ]
    for case, ours, want in zip(cases, got, wanted, strict=True):
        if not _same(ours, want):
            names = zip(inspect.signature(right).parameters, case, strict=False)
            where = ", ".join(f"{name}={_shown(value)}" for name, value in names)
            told = f"{where}: expected {_shown(want)}, got {_shown(ours)}"
            for meaning, wrong in mistakes.items():
                is_it = all(_same(x, wrong(*case)) for x, case in zip(got, cases, strict=True))
                require(not is_it, f"{told}; {meaning}")
            raise CheckFailed(told)
    return got


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def _same(one: Any, other: Any) -> bool:
    """Close to the digits of float32; what is no number on both sides is the same."""
    a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (one, other))
    return a.shape == b.shape and torch.allclose(a, b, CLOSE, CLOSE, equal_nan=True)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor) and value.dim() > 1:
        return f"a tensor {tuple(value.shape)}"
    if isinstance(value, Tensor):
        return f"[{', '.join(map(_shown, value.tolist()))}]"
    return f"{value:.4g}" if isinstance(value, float) else repr(value)

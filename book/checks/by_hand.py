"""For exercises that ask for a gradient by hand: autograd is refused, however it is called."""

from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode

from checks.framework import require

GRADIENTS = ("backward", "grad", "_make_dual")  # of torch.func, backwards and forwards, too


class ByHand(TorchFunctionMode):
    """While it is entered, a call that lets torch differentiate fails the check."""

    def __torch_function__(
        self, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        by_torch = getattr(function, "__name__", "") in GRADIENTS
        require(not by_torch, "autograd computes this gradient: write it by hand")
        return function(*args, **(kwargs or {}))

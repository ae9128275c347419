"""Properties of what the chapter has its readers write."""

from collections.abc import Callable

import torch
from torch import Tensor

from kit.shared.checks import Report, expect_tensor


def check_modern_block(answer: Callable[[Tensor], Tensor]) -> Report:
    """Check answer(x): say here which property it must have.

    Shapes: x (time, d_model). Returns (time, d_model).
    Errors: CheckFailed.
    """
    for time, d_model in ((5, 3), (1, 2)):
        x = torch.randn(time, d_model, generator=torch.Generator().manual_seed(time))
        expect_tensor(answer(x), (time, d_model))
    raise NotImplementedError("test what the exercise asks for, then return a Report of it")

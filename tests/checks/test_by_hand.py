"""Autograd is refused in each of its forms, and all else is left alone."""

import pytest
import torch
from torch.nn import functional as F

from checks.by_hand import ByHand
from checks.framework import CheckFailed


def square(x):
    return (x * x).sum()


def by_backward(x):
    x = x.clone().requires_grad_()
    square(x).backward()
    return x.grad


def by_grad(x):
    leaf = x.clone().requires_grad_()
    return torch.autograd.grad(square(leaf), leaf)[0]


@pytest.mark.parametrize(
    "gradient",
    [
        by_backward,
        by_grad,
        lambda x: torch.func.grad(square)(x),
        lambda x: torch.func.vjp(square, x)[1](torch.ones(()))[0],
        lambda x: torch.func.jacfwd(square)(x),
        lambda x: torch.autograd.functional.jacobian(square, x),
    ],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # jacfwd
def test_autograd_is_refused(gradient):
    x = torch.arange(3.0)
    assert torch.equal(gradient(x), 2 * x)
    with ByHand(), pytest.raises(CheckFailed, match="write it by hand"):
        gradient(x)


def test_what_is_written_by_hand_passes():
    x = torch.arange(3.0)
    with ByHand():
        assert torch.equal(F.layer_norm(2 * x, (3,)), F.layer_norm(2 * x, (3,)))
    assert torch.equal(by_backward(x), 2 * x)

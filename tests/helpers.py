"""What several tests need: calls as a reader makes them, random inputs, masks of every form."""

import contextlib
from collections.abc import Iterator

import torch
from jaxtyping import config
from torch import Tensor


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Call the library as a reader does: without the shape checks that the tests switch on.

    A mistake must meet the library's own ValueError, not the tests' type checker.
    """
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal numbers that depend on the shape and the seed alone."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def random_mask(*shape: int, seed: int = 0) -> Tensor:
    """A random boolean mask whose every row keeps at least one key."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    mask = torch.rand(shape, generator=generator) < 0.6
    keep = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator)
    return mask.scatter(-1, keep, True)


def gradients(output: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """Gradients of a random projection of the output, so that no error cancels in a sum."""
    weight = normal(*output.shape, seed=99, dtype=output.dtype)
    return list(torch.autograd.grad((output * weight).sum(), inputs))


def assert_close(got: Tensor, wanted: Tensor, tolerance: float) -> None:
    """Equal to within an absolute tolerance, of one shape, and finite."""
    assert got.shape == wanted.shape
    assert got.isfinite().all()
    gap = (got.double() - wanted.double()).abs().max().item() if got.numel() else 0.0
    assert gap <= tolerance, f"largest difference {gap:.3g}, allowed {tolerance:.3g}"

"""What several tests need: calls as a reader makes them, random inputs, masks of every form."""

import contextlib
import math
import signal
from collections.abc import Iterator, Mapping

import pytest
import torch
from jaxtyping import config
from torch import Tensor

from drawing.schematic import Schematic
from lib.transformer import Transformer


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


@contextlib.contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Let this process write no file beyond so many bytes, as if the disk were full.

    Skips the test on a system without such limits.
    """
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error, not the end of the process
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


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


def assert_shapes(
    schematic: Schematic, tensors: Mapping[str, Tensor], sizes: Mapping[str, int]
) -> None:
    """Hold every shape that a schematic shows against the tensor of that name.

    Args: sizes, a number for each axis, no two alike, so that none can be mixed up. An axis written
    "heads*d_k" is a product; one that is a figure is itself.
    """
    assert len(set(sizes.values())) == len(sizes), f"expected sizes that differ, got {sizes}"
    shapes = schematic.shapes
    assert shapes.keys() == tensors.keys(), "expected a tensor for each part with a shape, no other"
    for name, shape in shapes.items():
        shown = tuple(
            math.prod(int(one) if one.isdigit() else sizes[one] for one in axis.split("*"))
            for axis in shape
        )
        actual = tuple(tensors[name].shape)
        assert shown == actual, f"{name} is shown as {shape}, {shown}, but it is {actual}"


def as_packed(model: Transformer) -> Transformer:
    """The model as the page has it: its parameters through float16 and back."""
    model.load_state_dict({name: t.half().float() for name, t in model.state_dict().items()})
    return model.eval()

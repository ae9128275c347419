"""The framework of every check: what a property is, what was seen, and what it usually means.

There are two ways to test a property. A check of an exercise takes the reader's own function or
module, raises `CheckFailed` at the first property that does not hold, which says what was expected,
what came and where to look, and returns a `Report` if all hold. A `Property` of a whole model never
raises: calling it gives a `Finding`, so that one broken model can be asked them all.

A check never compares with stored random numbers: it tests a property, or copies weights into a
reference. Random inputs, closeness and expected shapes stand here, once."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

CLOSE = 1e-5  # of float32


class CheckFailed(AssertionError):
    """An answer lacks a property that it must have; the message says which."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows instead of the way through this library: the message alone."""
        return [f"CheckFailed: {self}"]


@dataclass(frozen=True)
class Report:
    """What a check found to hold, one line each."""

    name: str
    held: tuple[str, ...]

    def __repr__(self) -> str:
        lines = "\n".join(f"  ok  {line}" for line in self.held)
        return f"{self.name}: all {len(self.held)} properties hold\n{lines}"


def require(condition: bool, message: str) -> None:
    """Raise CheckFailed with `message` unless `condition` holds."""
    if not condition:
        raise CheckFailed(message)


def draw(n_queries: int, n_keys: int, d_k: int, d_v: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw query (query, d_k), key (key, d_k) and value (key, d_v) in float64."""
    generator = torch.Generator().manual_seed(n_queries * n_keys)
    shapes = ((n_queries, d_k), (n_keys, d_k), (n_keys, d_v))
    return tuple(torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes)


def close(a: Tensor, b: Tensor) -> bool:
    """Say whether two tensors of one shape agree to ten decimals."""
    return a.shape == b.shape and torch.allclose(a, b.to(a), rtol=1e-8, atol=1e-10)


def expect_tensor(output: object, shape: tuple[int, ...]) -> Tensor:
    """Return the answer if it is a tensor of that shape; an empty answer is not."""
    require(isinstance(output, Tensor), f"expected a tensor {shape}, got {output!r}")
    got = tuple(output.shape)
    require(got == shape, f"expected an output of shape {shape}, got {got}")
    return output


@dataclass(frozen=True)
class Finding:
    """What a property test found: the number that decided, None if nothing could be run."""

    name: str
    held: bool
    number: float | None
    message: str

    def __repr__(self) -> str:
        number = "stops" if self.number is None else f"{self.number:.2g}"
        if self.number and abs(self.number) < CLOSE:
            number = "< 1e-5"
        return f"{'ok  ' if self.held else 'FAIL'} {self.name:11} {number:>8}  {self.message}"


class Findings(tuple[Finding, ...]):
    """Findings, one a line. Source: ours."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))

    @property
    def caught(self) -> list[str]:
        """The names of the properties that do not hold."""
        return [finding.name for finding in self if not finding.held]

    def insist(self) -> "Findings":
        """Raise CheckFailed with all that does not hold; else return the findings."""
        if self.caught:
            lines = "\n".join(repr(found) for found in self if not found.held)
            raise CheckFailed(f"{len(self.caught)} of {len(self)} properties fail\n{lines}")
        return self


@dataclass(frozen=True)
class Property:
    """A named test with the question that it asks; calling it gives a Finding, or None if it needs
    something that was not given.
    """

    name: str
    question: str
    test: Callable[[Any], tuple[bool, float, str] | None]

    def __call__(self, subject: Any) -> Finding | None:
        try:
            with torch.random.fork_rng(devices=[]):
                result = self.test(subject)
        except Exception as error:
            text = " ".join(str(error).split())
            text = text if len(text) <= 120 else f"{text[:117]}..."
            return Finding(self.name, False, None, f"it stops: {type(error).__name__}: {text}")
        return None if result is None else Finding(self.name, *result)


def asks(name: str, question: str) -> Callable[[Callable], Property]:
    """Make a Property of a function that returns (held, number, message)."""
    return functools.partial(Property, name, question)


def decide(
    number: int | float, allowed: int | float, good: str, bad: str
) -> tuple[bool, float, str]:
    """Held if the number is no larger than what is allowed."""
    return number <= allowed, float(number), good if number <= allowed else bad


def gap(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to entries above 1; infinite if one is not finite."""
    if one.shape != other.shape or not (one.isfinite().all() and other.isfinite().all()):
        return math.inf
    scale = max(1.0, other.abs().max().item()) if other.numel() else 1.0
    return (one - other).abs().max().item() / scale if one.numel() else 0.0


@torch.no_grad()
def stir(module: nn.Module) -> None:
    """Move every parameter a little, so that no gain is 1 and no bias 0 as in a fresh module."""
    draw = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw).to(parameter))

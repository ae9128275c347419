"""The framework of every check: a property, what was seen, and what it usually means.

A check of an exercise is a generator under `check(name)`: it tries the reader's function or module,
yields tables of faults to look for, and each property once it has been shown. Called, it gives a
`Report`, or stops with `CheckFailed` at the first fault, which says what was expected, what came
and, for a known mistake, what it means. A `Property` of a whole model never raises: calling it
gives a `Finding`, so that one broken model can be asked them all.

A check never compares with stored random numbers: it tests a property, or copies weights into a
reference. Random inputs, closeness, expected types and shapes stand here, once."""

import contextlib
import functools
import math
import traceback
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

CLOSE = 1e-5  # of float32
TOLERANCE = 1e-6  # of float64, with room for an answer that takes one root in float32


Faults = Mapping[str, bool | Tensor]  # what a fault means, and whether it is seen
Steps = Generator[str | Faults, None, None]


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


def check(name: str) -> Callable[[Callable[..., Steps]], Callable[..., Report]]:
    """Make a check of a generator that yields faults to look for, and properties that it has shown.

    Its first argument is the reader's: an error in it is a failed check, and so is a changed input.
    No check moves torch's random numbers.
    Errors: each check raises CheckFailed.
    """

    def make(steps: Callable[..., Steps]) -> Callable[..., Report]:
        @functools.wraps(steps)
        def run(answer: Any, *arguments: Any, **named: Any) -> Report:
            held = []
            is_function = callable(answer) and not isinstance(answer, nn.Module)
            subject = guarded(answer) if is_function else answer
            tried = contextlib.closing(steps(subject, *arguments, **named))
            with torch.random.fork_rng(devices=[]), tried as found:
                for step in found:
                    if isinstance(step, str):
                        held.append(step)
                    else:
                        refuse(step)
            return Report(name, tuple(held))

        return run

    return make


def guarded(function: Callable) -> Callable:
    """Return the reader's function, which now fails the check if it raises or changes an input."""

    def call(*arguments: Any, **named: Any) -> Any:
        before = [x.detach().clone() if isinstance(x, Tensor) else x for x in arguments]
        try:
            result = function(*arguments, **named)
        except CheckFailed:
            raise
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)[1:]
            own = [frame.line for frame in frames if frame.filename == frames[0].filename]
            where = f", in the line: {own[-1]}" if own and own[-1] else ""
            name = type(error).__name__
            raise CheckFailed(f"your function raised {name}: {error}{where}") from error
        for number, (x, old) in enumerate(zip(arguments, before, strict=True), start=1):
            require(
                not isinstance(x, Tensor) or torch.equal(x, old),
                f"argument {number} was changed by your function: work on a copy",
            )
        return result

    return call


def require(condition: bool, message: str) -> None:
    """Raise CheckFailed with `message` unless `condition` holds."""
    if not condition:
        raise CheckFailed(message)


def refuse(faults: Faults) -> None:
    """Raise CheckFailed with the meaning of the first fault that is seen, if one is."""
    for message, seen in faults.items():
        require(not seen, message)


def require_close(
    got: Tensor,
    want: Tensor | float,
    otherwise: str,
    mistakes: Mapping[str, Tensor | float] = MappingProxyType({}),
    tolerance: float = TOLERANCE,
) -> None:
    """Require that `got` is what is wanted; a known mistake is told by the wrong result it gives.

    Args: otherwise, the message for a result that nobody knows; mistakes, what a wrong result means
        and that result, of which the first that fits speaks.
    """
    if not close(got, want, tolerance):
        refuse({meaning: close(got, wrong, tolerance) for meaning, wrong in mistakes.items()})
        raise CheckFailed(otherwise)


def require_gradients(
    function: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    tolerance: float = TOLERANCE,
    /,
    **inputs: Tensor,
) -> None:
    """Require the gradients of the reference with respect to each input, of a sum of squares."""
    leaves = [x.clone().requires_grad_() for x in inputs.values()]
    output = function(*leaves)
    require(output.requires_grad, "no gradient: the output is cut off from the inputs")
    got = torch.autograd.grad(output.square().sum(), leaves, allow_unused=True)
    want = torch.autograd.grad(reference(*leaves).square().sum(), leaves)
    for name, ours, theirs in zip(inputs, got, want, strict=True):
        require(close(ours, theirs, tolerance), f"the gradient of {name} is wrong or missing")


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Draw standard normal numbers in float64, the same at each call."""
    return normals(shape, seed=seed)[0]


def normals(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    """Draw a tensor of each shape in float64, the same at each call."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def close(a: object, b: Tensor | float, tolerance: float = TOLERANCE) -> bool:
    """Say whether a tensor has the shape of another and its entries, or one number everywhere."""
    if not isinstance(a, Tensor):
        return False
    b = b.to(a) if isinstance(b, Tensor) else torch.full_like(a, b)
    return a.shape == b.shape and torch.allclose(a, b, rtol=tolerance, atol=tolerance)


def expect(value: Any, kind: Any, what: str) -> Any:
    """Return the answer if it is of that type; True and False are no numbers."""
    is_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    require(is_kind, f"expected {what}, got {value!r}")
    return value


def expect_tensor(
    output: Any, shape: tuple[int, ...], what: str | None = None, hint: str = ""
) -> Tensor:
    """Return the answer if it is a tensor of that shape; an empty answer is not.

    Args: what, the words for it; hint, what a wrong shape means.
    """
    expect(output, Tensor, what or f"a tensor {tuple(shape)}")
    got = tuple(output.shape)
    require(got == tuple(shape), f"expected an output of shape {tuple(shape)}, got {got}{hint}")
    return output


def is_parts(value: Any, count: int, kind: type = object) -> bool:
    """Say whether a value is a tuple or a list of so many parts of a type."""
    is_tuple = isinstance(value, tuple | list) and len(value) == count
    return is_tuple and all(isinstance(part, kind) for part in value)


def expect_pair(value: Any, what: str) -> tuple[Any, Any]:
    """Return the answer as a tuple if it is a pair."""
    require(is_parts(value, 2), f"expected {what}, got {type(value).__name__}")
    return tuple(value)


def short(values: Tensor, digits: int = 4) -> list[float]:
    """Return the entries of a row as a message shows them."""
    return [round(value, digits) for value in values.tolist()]


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
    """Findings, one a line."""

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

"""The framework of every check: a property, what was seen, and what it usually means.

A check of an exercise is a generator under `check(name)`: it tries the reader's function or module,
yields tables of faults to look for, and each property once it has been shown. Called, it gives a
`Report`, or stops with `CheckFailed` at the first fault, which says what was expected, what came
and, for a known mistake, what it means. A `Property` of a whole model never raises: calling it
gives a `Finding`, so that one broken model can be asked them all.

A check never compares with stored random numbers: it tests a property, or copies parameters into
a reference. Random inputs, closeness, expected types and shapes stand here, once."""

import contextlib
import functools
import math
import reprlib
import traceback
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

CLOSE = 1e-5  # of float32
TOLERANCE = 1e-6  # of float64, with room for an answer that takes one root in float32
BOOK = str(Path(__file__).parents[1])
OTHERS = (BOOK, str(Path(torch.__file__).parent))  # whose code is not the reader's

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
        count = len(self.held)
        said = "the property holds" if count == 1 else f"all {count} properties hold"
        return f"{self.name}: {said}\n{lines}"


def check(name: str) -> Callable[[Callable[..., Steps]], Callable[..., Report]]:
    """Make a check of a generator that yields faults to look for, and properties that it has shown.

    Its first argument is the reader's: an error in it is a failed check, and so is a changed input,
    also in a function or module that it makes. No check moves torch's random numbers.
    Errors: each check raises CheckFailed.
    """

    def make(steps: Callable[..., Steps]) -> Callable[..., Report]:
        @functools.wraps(steps)
        def run(answer: Any, *arguments: Any, **named: Any) -> Report:
            held = []
            with contextlib.ExitStack() as stack:
                stack.enter_context(torch.random.fork_rng(devices=[]))
                tried = steps(_watched(answer, stack), *arguments, **named)
                for step in stack.enter_context(contextlib.closing(_answered(tried))):
                    if isinstance(step, str):
                        held.append(step)
                    else:
                        refuse(step)
            return Report(name, tuple(held))

        return run

    return make


def _answered(steps: Steps) -> Steps:
    """The steps of a check, in which an error that the reader's code led to is a failed check."""
    try:
        yield from steps
    except CheckFailed:
        raise
    except Exception as error:
        innermost = traceback.extract_tb(error.__traceback__)[-1]
        if innermost.filename.startswith(BOOK) and not _own_lines(error):
            raise
        raise CheckFailed(_told(error)) from error


def guarded(function: Callable) -> Callable:
    """Return the reader's function, which now fails the check if it raises or changes an input.

    What it returns is watched as well, if that is a function or a module.
    """

    @functools.wraps(function, updated=())
    def call(*arguments: Any, **named: Any) -> Any:
        given = {f"argument {i}": value for i, value in enumerate(arguments, start=1)} | named
        before = {name: _copied(value) for name, value in given.items()}
        try:
            result = function(*arguments, **named)
        except CheckFailed:
            raise
        except Exception as error:
            raise CheckFailed(_told(error)) from error
        _require_unchanged(given, before)
        return _watched(result)

    return call


def _watched(answer: Any, stack: contextlib.ExitStack | None = None) -> Any:
    """The answer, which fails the check when it changes an input; the stack ends the watch."""
    if not isinstance(answer, nn.Module):
        return guarded(answer) if callable(answer) else answer
    seen: dict[str, Any] = {}

    def before(module: nn.Module, arguments: tuple, named: dict) -> None:
        seen.update(given=[*arguments, named], before=_copied([*arguments, named]))

    def after(*_: Any) -> None:
        _require_unchanged({"an input": seen["given"]}, {"an input": seen["before"]})

    hooks = (
        answer.register_forward_pre_hook(before, with_kwargs=True),
        answer.register_forward_hook(after),
    )
    if stack is not None:
        for hook in hooks:
            stack.callback(hook.remove)
    return answer


def _own_lines(error: Exception) -> list[str]:
    """The lines of the reader's code that led to an error: neither the book's nor torch's."""
    frames = traceback.extract_tb(error.__traceback__)
    return [str(frame.line) for frame in frames if not frame.filename.startswith(OTHERS)]


def _told(error: Exception) -> str:
    own = _own_lines(error)
    where = f", in the line: {own[-1]}" if own and own[-1] else ""
    return f"your function raised {type(error).__name__}: {error}{where}"


def _copied(value: Any) -> Any:
    """A copy of tensors, in containers too; anything else as it is."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list | tuple) else value


def _is_unchanged(value: Any, before: Any) -> bool:
    if isinstance(value, Tensor):
        return value.shape == before.shape and bool(
            torch.isclose(value, before, rtol=0, atol=0, equal_nan=True).all()
        )
    if isinstance(value, dict):
        return [*value] == [*before] and _is_unchanged([*value.values()], [*before.values()])
    if isinstance(value, list | tuple):
        return len(value) == len(before) and all(map(_is_unchanged, value, before))
    return value is before


def _require_unchanged(given: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    for name, value in given.items():
        changed = f"{name} was changed by your function: work on a copy"
        require(_is_unchanged(value, before[name]), changed)


def require(condition: bool, message: str) -> None:
    """Raise CheckFailed with `message` unless `condition` holds."""
    if not condition:
        raise CheckFailed(message)


def refuse(faults: Faults) -> None:
    """Raise CheckFailed with the meaning of the first fault that is seen, if one is."""
    for message, seen in faults.items():
        require(not seen, message)


def require_close(
    got: Any,
    want: Tensor | float,
    otherwise: str,
    mistakes: Mapping[str, Tensor | float] = MappingProxyType({}),
    tolerance: float = TOLERANCE,
) -> None:
    """Require that `got` is what is wanted; a known mistake is told by the wrong result it gives.

    Args: otherwise, the message for a result that nobody knows; mistakes, what a wrong result means
        and that result, of which the first that fits speaks. A tensor of another kind of numbers,
        on another device, or rounded to float32 on its way is told without being listed.
    """
    if isinstance(got, Tensor) and isinstance(want, Tensor):
        require_kind(got, want)
    if not close(got, want, tolerance):
        refuse({meaning: close(got, wrong, tolerance) for meaning, wrong in mistakes.items()})
        rounded = (
            "right to the digits of float32 only, and the inputs are float64: make new tensors "
            "with x.new_zeros(...) or dtype=x.dtype"
        )
        is_double = isinstance(want, Tensor) and want.dtype == torch.float64
        require(not (is_double and tolerance < CLOSE and close(got, want, CLOSE)), rounded)
        raise CheckFailed(otherwise)


def require_kind(got: Tensor, like: Tensor) -> None:
    """Require the kind of numbers of another tensor (float, whole or boolean) and its device."""
    kinds = [_kind(x) for x in (got, like)]
    require(kinds[0] == kinds[1], f"expected {kinds[1]} ({like.dtype}), got {got.dtype}")
    require(got.device == like.device, f"expected a tensor on {like.device}, got {got.device}")


def _kind(x: Tensor) -> str:
    if x.is_floating_point() or x.is_complex():
        return "floating-point numbers"
    return "True and False" if x.dtype == torch.bool else "whole numbers"


def require_gradients(
    function: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    tolerance: float = TOLERANCE,
    /,
    **inputs: Tensor,
) -> None:
    """Require the gradients of the reference with respect to each input, of a sum of squares."""
    leaves = [x.clone().requires_grad_() for x in inputs.values()]
    want = torch.autograd.grad(reference(*leaves).square().sum(), leaves)
    output = function(*leaves)
    require(output.requires_grad, "no gradient: the output is detached from the inputs")
    got = torch.autograd.grad(output.square().sum(), leaves, allow_unused=True)
    for name, ours, theirs in zip(inputs, got, want, strict=True):
        wrong = f"the gradient of {name} is wrong or missing"
        require_close(ours, theirs, wrong, tolerance=tolerance)


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
    b = (
        b.to(a.device)
        if isinstance(b, Tensor)
        else torch.tensor(b, dtype=torch.float64).expand(a.shape)
    )
    dtype = torch.promote_types(a.dtype, b.dtype)
    near = a.shape == b.shape and torch.isclose(a.to(dtype), b.to(dtype), tolerance, tolerance)
    return bool(torch.as_tensor(near).all())


def expect(value: Any, kind: Any, what: str) -> Any:
    """Return the answer if it is of that type; True and False are no numbers."""
    is_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    require(is_kind, f"expected {what}, got {shown(value)}")
    return value


def shown(value: Any) -> str:
    """Return a value as a message shows it: the shape of a tensor, the beginning of a long text."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return reprlib.repr(value)


def expect_tensor(
    output: Any,
    shape: tuple[int, ...],
    what: str | None = None,
    hint: str = "",
    like: Tensor | None = None,
) -> Tensor:
    """Return the answer if it is a tensor of that shape; an empty answer is not.

    Args: what, the words for it; hint, what a wrong shape means; like, a tensor whose kind of
        numbers (float, whole or boolean) and device it must have.
    """
    expect(output, Tensor, what or f"a tensor of shape {tuple(shape)}")
    got = tuple(output.shape)
    require(got == tuple(shape), f"expected an output of shape {tuple(shape)}, got {got}{hint}")
    if like is not None:
        require_kind(output, like)
    return output


def is_parts(value: Any, count: int, kind: type = object) -> bool:
    """Say whether a value is a tuple or a list of so many parts of a type."""
    is_tuple = isinstance(value, tuple | list) and len(value) == count
    return is_tuple and all(isinstance(part, kind) for part in value)


def expect_pair(value: Any, what: str) -> tuple[Any, Any]:
    """Return the answer as a tuple if it is a pair."""
    require(is_parts(value, 2), f"expected {what}, got {shown(value)}")
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
    """Move every parameter a little, so that no scale is 1 and no bias 0 as in a fresh one."""
    draw = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw).to(parameter))

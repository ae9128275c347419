"""What every chapter needs beside its subject: show code, compare two versions, fix the seed."""

import inspect
import random
import textwrap
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor, nn


class Source:
    """The source of one object, shown as code in the page and as plain text in a terminal."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.text}\n```"


def show_source(thing: Callable | type) -> Source:
    """Show the library's own code, so that the chapter and the library cannot drift apart.

    Args: a function or a class of this library.
    Errors: ValueError if Python cannot find its source.
    """
    try:
        return Source(textwrap.dedent(inspect.getsource(thing)).rstrip())
    except (OSError, TypeError) as error:
        raise ValueError(f"expected a function or class with a source, got {thing!r}") from error


def seed_everything(seed: int) -> None:
    """Make this run repeatable: seeds Python, NumPy and torch.

    The last digits of a trained number still differ between machines and numbers of threads; the
    number of threads is left as it is.
    """
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (libraries still draw from the global generator)
    torch.manual_seed(seed)


def best_device() -> torch.device:
    """Return the GPU if torch sees one, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def assert_same(
    one: Callable[..., Tensor],
    other: Callable[..., Tensor],
    *inputs: Tensor | None,
    atol: float = 1e-10,
    parameters: Iterable[tuple[nn.Parameter, nn.Parameter]] = (),
) -> str:
    """Check in float64 that two functions give the same values and the same gradients.

    Floating inputs are converted to float64 and asked for their gradients; others pass unchanged.
    The output is weighted with random numbers before the backward pass, so that no error can
    cancel in a plain sum. `parameters` pairs parameters of the two sides whose gradients must also
    agree; modules must already be in float64.

    Returns: one line that says what was compared.
    Errors: AssertionError naming what differs and by how much.
    """
    pairs = list(parameters)
    results = []
    for function, side in ((one, 0), (other, 1)):
        copies = [_fresh(x) for x in inputs]
        for pair in pairs:
            pair[side].grad = None
        output = function(*copies)
        weight = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
        if output.requires_grad:
            (output * weight.to(output)).sum().backward()
        gradients = [x.grad for x in copies if x is not None and x.requires_grad]
        gradients += [pair[side].grad for pair in pairs]
        results.append((output.detach(), gradients))

    (value, gradients), (other_value, other_gradients) = results
    _compare("values", value, other_value, atol)
    for number, (a, b) in enumerate(zip(gradients, other_gradients, strict=True)):
        if a is None and b is None:
            continue
        if a is None or b is None:
            raise AssertionError(f"gradient {number} reaches only one of the two functions")
        _compare(f"gradient {number}", a, b, atol)
    return f"same values {tuple(value.shape)} and {len(gradients)} gradients, within {atol:.0e}"


def _fresh(x: Tensor | None) -> Tensor | None:
    """A float64 leaf with a gradient for a floating input; anything else as it came."""
    if x is None or not x.is_floating_point():
        return x
    return x.detach().to(torch.float64).clone().requires_grad_()


def _compare(what: str, a: Tensor, b: Tensor, atol: float) -> None:
    if a.shape != b.shape:
        raise AssertionError(f"{what}: shapes differ, {tuple(a.shape)} and {tuple(b.shape)}")
    gap = (a - b).abs().max().item() if a.numel() else 0.0
    if not gap <= atol:  # so it is for NaN, which infinity minus infinity is too
        raise AssertionError(f"{what}: largest difference {gap:.3g}, allowed {atol:.0e}")

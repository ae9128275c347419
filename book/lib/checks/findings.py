"""What a property test of a model or of a layer is made of, and what it hands back: a finding."""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lib.checks import CheckFailed
from lib.data import BOS, EOS, PAD

CLOSE = 1e-5  # of float32
LENGTHS = (3, 7, 1, 5, 2)  # of the sources of a batch, padded to 7


@dataclass(frozen=True)
class Finding:
    """What a property test found: the number that decided, None if nothing could be run.

    Source: ours. Chapter: 15 (Mistakes in the wild).
    """

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
    """Findings, one a line. Source: ours. Chapter: 15 (Mistakes in the wild)."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self))

    @property
    def caught(self) -> list[str]:
        """The names of the properties that do not hold. Chapter: 15 (Mistakes in the wild)."""
        return [finding.name for finding in self if not finding.held]

    def insist(self) -> "Findings":
        """Raise CheckFailed with all that does not hold; else return the findings.

        Chapter: 15 (Mistakes in the wild).
        """
        if self.caught:
            lines = "\n".join(repr(found) for found in self if not found.held)
            raise CheckFailed(f"{len(self.caught)} of {len(self)} properties fail\n{lines}")
        return self


@dataclass(frozen=True)
class Property:
    """A named test with the question that it asks; calling it gives a Finding, or None if it needs
    something that was not given. Source: ours. Chapter: 15 (Mistakes in the wild).
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


@dataclass(frozen=True)
class ModelSubject:
    """What is tested: how to make a model, its vocabularies, and what it may be compared with.

    Source: ours. Chapter: 15 (Mistakes in the wild).
    """

    make_model: Callable[[], nn.Module]
    source_vocab: int
    target_vocab: int
    parameters: int | None = None
    reference: Callable[[nn.Module], nn.Module] | None = None

    def model(self, seed: int = 0) -> nn.Module:
        """A fresh model in evaluation mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make_model().eval()

    def batch(self, time: int = 4) -> tuple[Tensor, Tensor, Tensor]:
        """Sources padded to 7, their lengths, and targets without padding."""
        draw = torch.Generator().manual_seed(0)
        lengths = torch.tensor(LENGTHS)
        source = torch.randint(EOS + 1, self.source_vocab, (5, 7), generator=draw)
        target = torch.randint(EOS + 1, self.target_vocab, (5, time), generator=draw)
        target[:, 0] = BOS
        return source.masked_fill(torch.arange(7) >= lengths[:, None], PAD), lengths, target


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


def another(tokens: Tensor, vocab: int) -> Tensor:
    """Another word in each place, none of them special."""
    return EOS + 1 + (tokens - EOS).clamp(min=0) % (vocab - EOS - 1)


def modes(model: nn.Module) -> Iterator[Callable[..., Tensor]]:
    """The model in training and then in evaluation mode, without gradients, dropout repeated."""

    @torch.no_grad()
    def run(*inputs: Tensor) -> Tensor:
        torch.manual_seed(0)
        return model(*inputs)

    for training in (True, False):
        model.train(training)
        yield run

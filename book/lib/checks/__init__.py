"""Properties that a correct answer must have: the checks behind the exercises and the tests.

A check takes the reader's own function or module. It raises `CheckFailed`, which says what was
expected, what came and where to look; if all holds it returns a `Report`. A check never compares
with stored random numbers: it tests a property, or copies weights into a reference.
The checks stand in one module for each part of the library: `checks.attention` checks attention.
"""

from dataclasses import dataclass


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

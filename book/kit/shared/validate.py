"""Checks that widgets share: each returns plain lists, or says what was expected and what came."""

from collections.abc import Mapping, Sequence
from typing import Any

from kit.shared.widget import quantise


def fields(value: Any, names: Sequence[str], where: str) -> Mapping[str, Any]:
    """A mapping with exactly these names. Errors: ValueError naming what is missing or too much."""
    if not isinstance(value, Mapping) or set(value) != set(names):
        got = sorted(value) if isinstance(value, Mapping) else type(value).__name__
        raise ValueError(f"{where}: expected a mapping with {sorted(names)}, got {got}")
    return value


def items(value: Any, where: str) -> list[Any]:
    """A list that is not empty. Errors: ValueError for text, an empty list, or no list."""
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        got = "an empty one" if isinstance(value, Sequence) and not value else repr(value)[:60]
        raise ValueError(f"{where}: expected a list of at least one entry, got {got}")
    return list(value)


def tokens(value: Any, where: str, *, may_be_empty: bool = False) -> list[str]:
    """A list of tokens. Errors: ValueError for uncut text, or an entry that is not text."""
    if may_be_empty and isinstance(value, Sequence) and not value and not isinstance(value, str):
        return []
    found = items(value, where)
    for token in found:
        if not isinstance(token, str):
            raise ValueError(f"{where}: expected tokens as text, got {token!r}")
    return found


def matrix(value: Any, rows: int, columns: int, where: str, *, digits: int = 3) -> list[list]:
    """A matrix of numbers, rounded. Errors: ValueError for another shape, NaN or infinity."""
    try:
        found = quantise(value, digits)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    shape_holds = isinstance(found, list) and len(found) == rows
    if not shape_holds or any(not isinstance(r, list) or len(r) != columns for r in found):
        lengths = [len(r) if isinstance(r, list) else "a number" for r in found]
        got = f"{len(found)} rows of lengths {sorted(set(lengths), key=str)}"
        raise ValueError(f"{where}: expected {rows} rows of {columns} numbers, got {got}")
    return found


def share(value: Any, where: str, *, digits: int = 3) -> float:
    """A number from 0 to 1, rounded. Errors: ValueError for anything else."""
    number = quantise(value, digits)
    if not isinstance(number, float) or not 0 <= number <= 1:
        raise ValueError(f"{where}: expected a number from 0 to 1, got {value!r}")
    return number


def index(value: Any, size: int, where: str) -> int:
    """A whole number below `size`. Errors: ValueError for anything else."""
    return whole(value, 0, size - 1, where)


def one_of(value: Any, options: Sequence[Any], where: str) -> Any:
    """A value out of a list. Errors: ValueError that lists them all."""
    if isinstance(value, bool) or value not in options:
        raise ValueError(f"{where}: expected one of {', '.join(map(str, options))}, got {value!r}")
    return value


def whole(value: Any, low: int, high: int, where: str) -> int:
    """A whole number from `low` to `high`. Errors: ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{where}: expected a whole number from {low} to {high}, got {value!r}")
    return value


def number(value: Any, low: int | float, high: int | float, where: str) -> int | float:
    """A number from `low` to `high`. Errors: ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{where}: expected a number from {low:g} to {high:g}, got {value!r}")
    return value


def flag(value: Any, where: str) -> bool:
    """True or False. Errors: ValueError for anything else."""
    if not isinstance(value, bool):
        raise ValueError(f"{where}: expected True or False, got {value!r}")
    return value

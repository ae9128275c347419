"""What a widget may hold: traits that check every assignment, and checks of nested data.

A widget's domain is its traits. Each refuses a value outside its domain with a ValueError that says
what was expected and what came, in the constructor and afterwards; the widget stays as it was.
A check of nested data is a function of a value and of where it stands; it returns plain data.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import traitlets

Check = Callable[[Any, str], Any]
LARGEST = 1e300  # of numbers; infinity is larger


class Refused(traitlets.TraitError, ValueError):
    """A value outside a domain: a ValueError to readers, and one that traitlets takes back."""


def refuse(where: str, expected: str, got: object) -> NoReturn:
    """Raise the error of every check: where, what was expected, and what came."""
    raise Refused(f"{where}: expected {expected}, got {got}")


class State(traitlets.TraitType):
    """A trait that readers and a kernel change, kept as check(widget, value, name) returns it."""

    name: str  # which traitlets sets

    def __init__(self, default: Any = traitlets.Undefined, check: Callable | None = None):
        super().__init__(default)
        self.tag(sync=True)
        self._own_check = check

    def check(self, widget: Any, value: Any, name: str) -> Any:
        """The value as the widget keeps it. Errors: ValueError for one outside the domain."""
        return value

    def exported(self, widget: Any) -> Any:
        """The domain as the browser's controls take it; None where the script says it itself."""
        return None

    def validate(self, widget: Any, value: Any) -> Any:
        return (self._own_check or self.check)(widget, value, self.name)


class Fixed(State):
    """Data that the browser reads once: set when the widget is built, and never again."""

    def check(self, widget: Any, value: Any, name: str) -> Any:
        held = getattr(widget, name) if widget._built else value
        if type(value) is not type(held) or value != held:
            refuse(name, "what the widget was built with", f"{value!r:.60}; build another widget")
        return held


class Choice(State):
    """One of `options`, a list, or the function of the widget that gives it."""

    def __init__(self, default: Any, options: Sequence[Any] | Callable[[Any], Sequence[Any]]):
        super().__init__(default)
        self.options = options if callable(options) else list(options)

    def allowed(self, widget: Any) -> list[Any]:
        """The options of this widget."""
        return list(self.options(widget) if callable(self.options) else self.options)

    def check(self, widget: Any, value: Any, name: str) -> Any:
        return one_of(value, self.allowed(widget), name)

    def exported(self, widget: Any) -> list[Any]:
        return self.allowed(widget)


class Whole(State):
    """A whole number from `low` to `high`; without `high`, to what the widget's `limits` say."""

    def __init__(self, default: Any = 0, low: int = 0, high: int | None = None):
        super().__init__(default)
        self.low, self.high = low, high

    def check(self, widget: Any, value: Any, name: str) -> Any:
        return value if self.high is None else whole(value, name, self.low, self.high)

    def exported(self, widget: Any) -> dict[str, Any] | None:
        within = {"least": self.low, "most": self.high, "whole": True}
        return None if self.high is None else within

    def _cross_validate(self, widget: Any, value: Any) -> Any:
        """As the limits depend on other traits, they are held once those have their values too."""
        for name, high in widget.limits() if self.high is None else ():
            trait = getattr(type(widget), name)
            held = value if trait is self else getattr(widget, name)
            if widget._heard and isinstance(held, int):
                held = min(held, high)
            held = whole(held, name, trait.low, high)
            if trait is self:
                return held
        return value


class Number(State):
    """A number from `low` to `high`, kept with two digits after the point."""

    def __init__(self, default: float, low: int | float, high: int | float):
        super().__init__(default, lambda _, value, name: number(value, name, low, high, digits=2))
        self.low, self.high = low, high

    def exported(self, widget: Any) -> dict[str, Any]:
        return {"least": self.low, "most": self.high, "whole": False}


class Flag(State):
    """True or False."""

    def __init__(self, default: bool = False):
        super().__init__(default, lambda _, value, name: flag(value, name))

    def exported(self, widget: Any) -> list[bool]:
        return [False, True]


def defaults(cls: type) -> Iterator[tuple[str, Any]]:
    """Name and default of the state that a class declares."""
    for name, trait in vars(cls).items():
        if isinstance(trait, traitlets.TraitType) and not isinstance(trait, Fixed):
            yield name, trait.default_value


def one_of(value: Any, options: Sequence[Any], where: str) -> Any:
    """The entry of a list that equals the value; a whole number may stand for one with a point."""
    for option in options:
        same = isinstance(value, type(option) | int) and not isinstance(value, bool)
        if same and value == option:
            return option
    return refuse(where, f"one of {', '.join(map(str, options))}", repr(value))


def flag(value: Any, where: str) -> bool:
    """True or False."""
    return value if isinstance(value, bool) else refuse(where, "True or False", repr(value))


def _span(low: int | float, high: int | float) -> str:
    return f"from {low:g} to {high:g}" if high < math.inf else f"of at least {low:g}"


def whole(value: Any, where: str, low: int = 1, high: int | float = math.inf) -> int:
    """A whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        refuse(where, f"a whole number {_span(low, high)}", repr(value))
    return value


def number(
    value: Any, where: str, low: int | float = 0, high: int | float = 1, *, digits: int = 3
) -> float:
    """A number from `low` to `high`, rounded; without them a fraction."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    found = round(value, digits) if is_number and abs(value) < LARGEST else math.nan
    if not low <= found <= high:
        refuse(where, f"a number {_span(low, high)}", repr(value))
    return float(found) + 0.0  # adding 0.0 turns -0.0 into 0.0


def text(value: Any, where: str) -> str:
    """Text."""
    return value if isinstance(value, str) else refuse(where, "text", repr(value))


def record(**checks: Check) -> Check:
    """A mapping with exactly these fields, each as its check keeps it."""

    def check(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping) or set(value) != set(checks):
            got = sorted(value) if isinstance(value, Mapping) else type(value).__name__
            refuse(where, f"a mapping with {sorted(checks)}", got)
        return {name: keep(value[name], f"{where}.{name}") for name, keep in checks.items()}

    return check


def items(
    value: Any, where: str, check: Check, size: int | None = None, what: str = "", least: int = 1
) -> list[Any]:
    """A list of `size` entries, which `what` names in the error, or of `least` or more."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        refuse(where, "a list of at least one entry", f"{value!r:.60}")
    if size is not None and len(value) != size:
        refuse(where, f"{size} {what}", len(value))
    if size is None and len(value) < least:
        refuse(where, "a list of at least one entry", "an empty one")
    return [check(entry, f"{where}[{i}]") for i, entry in enumerate(value)]


def listed(check: Check, **size: Any) -> Check:
    """The check of a list, see `items`, from that of an entry."""
    return lambda value, where: items(value, where, check, **size)


def tokens(value: Any, where: str, least: int = 1) -> list[str]:
    """A list of tokens, not a text."""
    return items(value, where, text, least=least)


def anything(value: Any, where: str) -> Any:
    """What another check looks at later."""
    return value


def matrix(value: Any, where: str, rows: int, columns: int, *, digits: int = 3) -> list[list]:
    """A matrix of finite numbers, rounded."""
    try:
        found = quantise(value, digits)
    except ValueError as error:
        raise Refused(f"{where}: {error}") from error
    lengths = [len(row) if isinstance(row, list) else "a number" for row in found]
    if lengths != [columns] * rows:
        got = f"{len(found)} rows of lengths {sorted(set(lengths), key=str)}"
        refuse(where, f"{rows} rows of {columns} numbers", got)
    return found


def guesses(value: Any, where: str, least: int = 0) -> list[list]:
    """A list of [token, probability], the likeliest first."""
    found: list[list] = []
    for pair in items(value, where, anything, least=least):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            refuse(where, "(token, probability)", repr(pair))
        found.append([text(pair[0], where), number(pair[1], where)])
    chances = [chance for _, chance in found]
    if chances != sorted(chances, reverse=True):
        refuse(where, "the likeliest first", chances)
    return found


def vectors(rows: Mapping[str, Any], width: int, limit: int, where: str, digits: int) -> list[list]:
    """The vectors of tokens, whose names `moved` can tell apart, within the limit."""
    if bad := [name for name in rows if not name or set(" =;,") & set(name)]:
        refuse(where, "tokens without spaces and = ; ,", bad)
    found = matrix(list(rows.values()), where, len(rows), width, digits=digits)
    if max(abs(value) for row in found for value in row) > limit:
        refuse(where, f"numbers from {-limit} to {limit}", "larger ones")
    return found


def moved(value: Any, where: str, names: Sequence[str], width: int, limit: int) -> str:
    """Vectors that the reader has moved, as text such as "red=1,0.5;fox=0,2"."""
    if text(value, where) == "":
        return value
    for part in value.split(";"):
        name, _, row = part.partition("=")
        try:
            fits = [abs(float(entry)) <= limit for entry in row.split(",")] == [True] * width
        except ValueError:
            fits = False
        if name not in names or not fits:
            refuse(where, f"TOKEN= and {width} numbers from {-limit} to {limit}", repr(part))
    return value


def quantise(values: Any, digits: int = 3) -> Any:
    """Round numbers to a few digits, so that stored data are small and change rarely.

    Args: values, a number, nested sequences of numbers, or anything with `tolist` (a tensor, an
        array); digits after the point.
    Returns: floats in the same nesting, as lists.
    Errors: ValueError for NaN, infinity, or what is not a number.
    """
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (list, tuple)):
        return [quantise(value, digits) for value in values]
    if isinstance(values, bool) or not isinstance(values, (int, float)):
        raise ValueError(f"expected numbers, got {values!r}; convert it before you quantise it")
    if not math.isfinite(values):
        raise ValueError(f"expected finite numbers, got {values}; mask or replace it first")
    return round(float(values), digits) + 0.0  # adding 0.0 turns -0.0 into 0.0

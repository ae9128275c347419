"""What a widget may hold: said once, by the traits that its class declares.

They are traitlets' own: `Enum`, `Int` and `Float` with `min` and `max`, `Bool`, `Unicode`. What
traitlets has not, stands here: `Fixed` data; `OneOf` and `Place`, whose domain depends on the data;
what the page learns of a trait; the error that says what was expected.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import traitlets


class Refused(traitlets.TraitError, ValueError):
    """A value outside a domain: a ValueError to readers, and one that traitlets takes back."""


def refuse(where: str, expected: str, got: object) -> NoReturn:
    """Raise the error of every check: where, what was expected, and what came."""
    raise Refused(f"{where}: expected {expected}, got {got}") from None


class Fixed(traitlets.Any):
    """Data that the browser reads once: set when the widget is built, and never again."""

    allow_none = False

    def validate(self, widget: Any, value: Any) -> Any:
        assert self.name is not None  # traitlets sets it
        held = getattr(widget, self.name) if widget._built else value
        if type(value) is not type(held) or value != held:
            built = f"{value!r:.60}; build another widget"
            refuse(self.name, "what the widget was built with", built)
        return held


class OneOf(traitlets.Enum):
    """One of what a function of the widget lists; the first of them unless another is named."""

    def __init__(
        self, options: Callable[[Any], Sequence[Any]], default_value: Any = traitlets.Undefined
    ):
        super().__init__((), default_value)
        self.options = options

    def default(self, widget: Any = None) -> Any:
        found = super().default(widget)
        return self.options(widget)[0] if widget and found is traitlets.Undefined else found

    def validate(self, widget: Any, value: Any) -> Any:
        return traitlets.Enum(list(self.options(widget))).validate(widget, value)


class Place(traitlets.Int):
    """A whole number of at least `least`, up to what the widget's `limits` say."""

    def __init__(self, default_value: int = 0, least: int = 0):
        super().__init__(default_value)
        self.least = least

    def validate(self, widget: Any, value: Any) -> Any:
        return value  # which is looked at once the traits that it depends on have theirs

    def _cross_validate(self, widget: Any, value: Any) -> Any:
        for name, high in widget.limits():
            trait = getattr(type(widget), name)
            held = value if trait is self else getattr(widget, name)
            if widget._heard and isinstance(held, int):
                held = min(held, high)
            held = whole(held, name, trait.least, high)
            if trait is self:
                return held
        return value


def exported(trait: traitlets.TraitType, widget: Any) -> Any:
    """The domain as the page's controls take it: a list, a range, or None for any other."""
    if isinstance(trait, traitlets.Bool):
        return [False, True]
    if isinstance(trait, traitlets.Enum):
        return list(trait.options(widget) if isinstance(trait, OneOf) else trait.values or ())
    if isinstance(trait, traitlets.Int | traitlets.Float) and not isinstance(trait, Place):
        whole = isinstance(trait, traitlets.Int)
        return {"least": trait.min, "most": trait.max, "whole": whole}
    return None


def expected(trait: traitlets.TraitType, widget: Any) -> str:
    """The domain in words."""
    domain = exported(trait, widget)
    if isinstance(trait, traitlets.Bool):
        return "True or False"
    if isinstance(domain, list):
        return f"one of {', '.join(map(str, domain))}"
    if domain:
        kind = "a whole number" if domain["whole"] else "a number"
        return f"{kind} from {domain['least']:g} to {domain['most']:g}"
    return str(trait.help or trait.info())


def plain(trait: traitlets.TraitType, widget: Any, value: Any) -> Any:
    """A value as it is assigned: the entry of a list that equals it, as the list has it.

    Errors: traitlets.TraitError for what traitlets would take: True for 1 and 1 for True, NaN for
    a number; and for a tensor, which it would compare.
    """
    if exported(trait, widget) is None:
        return value
    flag = isinstance(trait, traitlets.Bool)
    known = isinstance(value, str | int | float) and isinstance(value, bool) is flag
    if not known or value != value:
        raise traitlets.TraitError(f"another kind of value: {value!r}")
    options = exported(trait, widget) if isinstance(trait, traitlets.Enum) else []
    return options[options.index(value)] if value in options else value


def whole(value: Any, where: str, low: int, high: int) -> int:
    """A whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        refuse(where, f"a whole number from {low} to {high}", repr(value))
    return value


def vectors(rows: Mapping[str, Any], width: int, limit: int, where: str, digits: int) -> list[list]:
    """The vectors of tokens, whose names `moved` can tell apart, within the limit."""
    if bad := [name for name in rows if not name or set(" =;,") & set(name)]:
        refuse(where, "tokens without spaces and = ; ,", bad)
    found = quantise(list(rows.values()), digits)
    lengths = [len(row) for row in found]
    if lengths != [width] * len(rows):
        refuse(where, f"{len(rows)} rows of {width} numbers", f"rows of {sorted(set(lengths))}")
    if max(abs(value) for row in found for value in row) > limit:
        refuse(where, f"numbers from {-limit} to {limit}", "larger ones")
    return found


def moved(value: str, where: str, names: Sequence[str], width: int, limit: int) -> str:
    """Vectors that the reader has moved, as text such as "red=1,0.5;fox=0,2"."""
    for part in value.split(";") if value else ():
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

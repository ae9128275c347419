"""For each trait of a widget, values inside its domain and values outside it."""

import math
from typing import Any

from tests.widget_samples import TEXTS
from widgets import domain
from widgets.base import BookWidget

STRANGE = (None, True, [], {}, b"1", math.nan, object())


def traits(widget: BookWidget) -> dict[str, domain.State]:
    """The traits that the browser gets; each has a domain."""
    found = widget.traits()
    return {name: found[name] for name in widget.data()}


def inside(widget: BookWidget, name: str) -> list[Any]:
    """Values that the trait holds: all of a list; of numbers the ends and one between."""
    trait = traits(widget)[name]
    if isinstance(trait, domain.Fixed):
        return [getattr(widget, name)]
    if isinstance(trait, domain.Flag):
        return [True, False]
    if isinstance(trait, domain.Choice):
        return list(trait.options(widget) if callable(trait.options) else trait.options)
    if isinstance(trait, domain.Whole):
        high = dict(widget.limits())[name] if trait.high is None else trait.high
        return sorted({trait.low, (trait.low + high) // 2, high})
    if isinstance(trait, domain.Number):
        return [trait.low, round((trait.low + trait.high) / 3, 2), trait.high]
    return TEXTS[widget._module, name][0]


def outside(widget: BookWidget, name: str) -> list[Any]:
    """Values beside the domain, and values of another type, even if they look alike."""
    trait, good = traits(widget)[name], inside(widget, name)
    if isinstance(trait, domain.Fixed):
        [held] = good
        return [value for value in (*STRANGE, "", 0, 1.0, [held]) if value is not held]
    if isinstance(trait, domain.Flag):
        return [value for value in STRANGE if value is not True] + [0, 1, "true"]
    if isinstance(trait, domain.Whole):
        beyond = [good[0] - 1, good[-1] + 1, float(good[0]), str(good[-1])]
        return [*STRANGE, *beyond, math.inf]
    if isinstance(trait, domain.Number):
        return [*STRANGE, trait.low - 0.01, trait.high + 0.01, str(trait.low), math.inf, -math.inf]
    if isinstance(trait, domain.Choice):
        alike = [float(value) for value in good if isinstance(value, int)]
        words = [str(value) for value in good if not isinstance(value, str)]
        return [*STRANGE, *alike, *words, "no such", -7, 0.123]
    return [*STRANGE, 1, *TEXTS[widget._module, name][1]]

"""For each trait of a widget, values inside its domain and values outside it."""

import math
from typing import Any

from traitlets import Bool, Enum, TraitType

from tests.widget_samples import TEXTS
from widgets import domain
from widgets.base import BookWidget

STRANGE = (None, True, [], {}, math.nan, object())


def traits(widget: BookWidget) -> dict[str, TraitType]:
    """The traits that the browser gets; each has a domain."""
    found = widget.traits()
    return {name: found[name] for name in widget.data()}


def state_of(widget: BookWidget) -> list[str]:
    """The names of those that change."""
    return [name for name, trait in traits(widget).items() if not isinstance(trait, domain.Fixed)]


def inside(widget: BookWidget, name: str) -> list[Any]:
    """Values that the trait holds: all of a list; of numbers the ends and one between."""
    trait = traits(widget)[name]
    known = domain.exported(trait, widget)
    if isinstance(trait, domain.Fixed):
        return [getattr(widget, name)]
    if isinstance(known, list):
        return known
    if isinstance(trait, domain.Place):
        known = {"least": trait.least, "most": dict(widget.limits())[name], "whole": True}
    if known:
        between = round((known["least"] + known["most"]) / 3, 0 if known["whole"] else 2)
        middle = int(between) if known["whole"] else between
        return sorted({known["least"], max(known["least"], middle), known["most"]})
    return TEXTS[widget._module, name][0]


def outside(widget: BookWidget, name: str) -> list[Any]:
    """Values beside the domain, and values of another type, even if they look alike."""
    trait, good = traits(widget)[name], inside(widget, name)
    if isinstance(trait, domain.Fixed):
        [held] = good
        others = (*STRANGE, "", 0, 1.0, [held])
        return [value for value in others if type(value) is not type(held) or value != held]
    if isinstance(trait, Bool):
        return [value for value in STRANGE if value is not True] + [0, 1, "true"]
    if isinstance(trait, Enum):
        words = [str(value) for value in good if not isinstance(value, str)]
        return [*STRANGE, *words, "no such", -7, 0.123]
    if (widget._module, name) in TEXTS:
        return [*STRANGE, 1, *TEXTS[widget._module, name][1]]
    return [*STRANGE, good[0] - 1, good[-1] + 1, str(good[-1]), math.inf, -math.inf, 10**400]

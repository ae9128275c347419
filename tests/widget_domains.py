"""For each trait of a widget, values inside its domain and values outside it."""

import math
from typing import Any

from widgets import domain
from widgets.base import BookWidget

PLACES = [[0.5, 1.0], [-1.25, 2.0], [0.0, 0.0], [3.0, 3.0], [-3.0, 0.01]]
# Text and lists that mean something: by module and trait, what fits the sample, and what does not
TEXTS = {
    ("self_attention_explorer", "sentence"): (
        ["fox", "red red runs fox"],
        ["", "cat", "red cat", " ".join(["red"] * 65)],
    ),
    ("self_attention_explorer", "edited"): (
        ["", "red=1,-2", "fox=0,0.125;red=2,2"],
        ["red", "red=", "red=1", "red=1,2,3", "red=1,2.5", "red=1,nan", "cat=1,1", "red=1,1;"],
    ),
    ("query_plane", "query"): (
        [[0.0, 0.0], [3.0, -3.0], [0.1, -2.75]],
        ["1,1", [1.0], [1, 2, 3], [3.1, 0], [0, -3.1], [math.nan, 0], [[1, 1]], [True, 1]],
    ),
    **{
        ("query_plane", name): (
            [PLACES, [[3.0, -3.0]] * 5],
            [PLACES[:4], [*PLACES, [0, 0]], [*PLACES[:4], [0, 3.1]], [[0]] * 5, "1,1"],
        )
        for name in ("key", "value")
    },
    ("tied_softmax", "edited"): (
        ["", "un=3,-3", "deux=0.5,0;<i>=1,1"],
        ["un=1", "un=4,0", "un=0,inf", "cinq=1,1", "un=x,1"],
    ),
    ("mask_builder", "lengths"): (["3", "1, 2,3", "0,0,99"], ["", "1,", "-1", "1.5", "a", "१२"]),
    ("mask_builder", "by_hand"): (["", "2.4t", "0.0f_63.1t"], ["2.4", "2.4t_", "-1.2t", "2,4t"]),
    ("bug_hunt", "asked"): (["", "0", "2.0.1"], ["3", "0.", "-1", "a", "0,1"]),
    ("head_ablation", "off"): (
        ["", "e1.1", "e1.2_d1.1_c1.2"],
        ["e1.3", "x1.1", "e1", "c1.1_e1.1", "e1.1_e1.1", "e1.1_", "e1.1 d1.1"],
    ),
    ("head_ablation", "own"): (["", "six days", "days in"], ["six cats", " ", "six " * 49]),
    ("forward_tracer", "own"): (["", "six days", "days in"], ["six cats", " ", "six " * 49]),
}
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

"""A hunt for the mistake in an unnamed model, and the table of all mistakes and properties."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from chapters.mistakes.catalogue import find_mistake
from chapters.mistakes.properties import QUESTIONS
from chapters.mistakes.symptoms import WINDOW
from checks.framework import Finding
from widgets import domain
from widgets.base import BookWidget, static_table

TOKENS = 14  # of a sentence; longer ones are truncated
HELD, CAUGHT, STOPS = range(3)
Matrix = Mapping[str, Mapping[str, Finding]]


class BugHunt(BookWidget):
    """Look at a broken model, choose a property to test, and name the mistake.

    Args: matrix, the findings of each property for each mistake, as
        `catalogue.mistake_matrix` gives them; cases, the symptoms of trained models by the name of
        their mistake, as `symptoms.symptoms` gives them; right, those of a model without a
        mistake. mode, "hunt" or "matrix"; case, the number of the model that is shown first.
    Errors: ValueError for a name that is no mistake or not in the matrix, rows of the matrix with
        unequal properties, or symptoms that do not fit.
    """

    _module = "bug_hunt"
    properties = domain.Fixed()  # {name, question}
    mistakes = domain.Fixed()  # {name, title, group, source, looks, why, ...}
    findings = domain.Fixed()  # mistake by property: [held, number, message]
    messages = domain.Fixed()  # each once
    cases = domain.Fixed()
    right = domain.Fixed()
    window = domain.Fixed(WINDOW)
    mode = domain.Choice("hunt", ("hunt", "matrix"))
    case = domain.Whole()
    test = domain.Choice("", lambda self: _names(self.properties))
    asked = domain.State("", lambda self, *new: self._tests(*new))
    guess = domain.Choice("", lambda self: ["", *_names(self.mistakes)])
    named = domain.Choice("", guess.options)  # the guess that was handed in
    shown = domain.Flag()
    row = domain.Whole()
    column = domain.Whole()

    def __init__(
        self,
        matrix: Matrix,
        cases: Mapping[str, Mapping[str, Any]],
        right: Mapping[str, Any],
        **start: Any,
    ):
        if not matrix or not cases:
            raise ValueError("expected at least one mistake in the matrix and one case, got none")
        found = [find_mistake(name) for name in matrix]
        names = list(next(iter(matrix.values())))
        for name, row in matrix.items():
            if list(row) != names:
                domain.refuse(f"matrix, {name}", f"the properties {names}", list(row))
        for name in cases:
            domain.one_of(name, list(matrix), "cases")
        messages = list(dict.fromkeys(f.message for row in matrix.values() for f in row.values()))
        told = ("name", "title", "group", "source", "looks", "why", "fixed")
        super().__init__(
            properties=[{"name": name, "question": QUESTIONS[name]} for name in names],
            mistakes=[
                {field: getattr(one, field) for field in told} | {"code": one.code()}
                for one in found
            ],
            findings=[[_packed(row[name], messages) for name in names] for row in matrix.values()],
            messages=messages,
            cases=[{"name": name, **_symptoms(given, name)} for name, given in cases.items()],
            right=_symptoms(right, "right"),
            **{"test": names[0]} | start,
        )

    def _tests(self, value: Any, name: str) -> str:
        """The properties that were run, by number, e.g. 5.6."""
        for part in domain.text(value, name).split("." if value else None):
            domain.whole(int(part) if part.isdecimal() else part, name, 0, len(self.properties) - 1)
        return value

    def limits(self) -> Iterator[tuple[str, int]]:
        yield "case", len(self.cases) - 1
        yield "row", len(self.mistakes) - 1
        yield "column", len(self.properties) - 1

    def summary(self) -> str:
        return (
            f"BugHunt: {len(self.cases)} unnamed models; {len(self.mistakes)} mistakes, "
            f"{len(self.properties)} properties"
        )

    def static_html(self) -> str:
        names = _names(self.properties)
        rows = [
            (entry["title"], entry["looks"], ", ".join(_caught(row, names)) or "none of them")
            for entry, row in zip(self.mistakes, self.findings, strict=True)
        ]
        caption = "Each mistake, its symptoms, and the properties that catch it"
        return static_table(caption, ("mistake", "symptoms", "caught by"), rows)


def _names(entries: Sequence[Mapping[str, str]]) -> list[str]:
    return [entry["name"] for entry in entries]


def _caught(row: Sequence[Sequence], names: Sequence[str]) -> list[str]:
    return [name for name, (held, *_) in zip(names, row, strict=True) if held != HELD]


def _packed(finding: Finding, messages: list[str]) -> list:
    """[held, number, message]: numbers to two digits, an infinite one as None."""
    number = finding.number
    held = HELD if finding.held else STOPS if number is None else CAUGHT
    known = number is not None and number < float("inf")
    return [held, float(f"{number:.2g}") if known else None, messages.index(finding.message)]


_loss = partial(domain.number, high=math.inf, digits=2)
_fields = domain.record(
    source=domain.tokens,
    wanted=domain.tokens,
    said=lambda said, where: domain.tokens(said, where, least=0),
    losses=domain.listed(_loss),
    validation=_loss,
    map=domain.anything,
)


def _symptoms(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    found = _fields(given, where)
    size = len(found["wanted"]), len(found["source"])
    if max(size) > TOKENS:
        domain.refuse(where, f"at most {TOKENS} tokens", max(size))
    found["map"] = domain.matrix(found["map"], f"{where}.map", *size, digits=2)
    return found | {"said": found["said"][:TOKENS]}

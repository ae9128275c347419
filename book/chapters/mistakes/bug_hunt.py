"""A hunt for the mistake in an unnamed model, and the table of all mistakes and properties."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from traitlets import Bool, Bunch, Enum, Unicode, validate

from chapters.mistakes.catalogue import find_mistake
from chapters.mistakes.properties import QUESTIONS
from chapters.mistakes.symptoms import WINDOW, Symptoms
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
    Errors: ValueError for a name that is no mistake, or a start that the controls cannot reach.
    """

    _module = "bug_hunt"
    properties = domain.Fixed()  # {name, question}
    mistakes = domain.Fixed()  # {name, title, group, source, looks, why, ...}
    findings = domain.Fixed()  # mistake by property: [held, number, message]
    messages = domain.Fixed()  # each once
    cases = domain.Fixed()
    right = domain.Fixed()
    window = domain.Fixed(WINDOW)
    mode = Enum(("hunt", "matrix"), "hunt")
    case = domain.Place()
    test = domain.OneOf(lambda self: _names(self.properties))
    asked = Unicode()
    guess = domain.OneOf(lambda self: ["", *_names(self.mistakes)])
    named = domain.OneOf(guess.options)  # the guess that was handed in
    shown = Bool()
    row = domain.Place()
    column = domain.Place()

    def __init__(
        self,
        matrix: Matrix,
        cases: Mapping[str, Symptoms],
        right: Symptoms,
        **start: Any,
    ):
        found = [find_mistake(name) for name in matrix]
        names = list(next(iter(matrix.values())))
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
            cases=[{"name": name, **_shown(given)} for name, given in cases.items()],
            right=_shown(right),
            **start,
        )

    @validate("asked")
    def _tests(self, proposal: Bunch) -> str:
        """The properties that were run, by number, e.g. 5.6."""
        last = len(self.properties) - 1
        for part in proposal.value.split("." if proposal.value else None):
            if not part.isdecimal() or int(part) > last:
                domain.refuse("asked", f"numbers from 0 to {last} with dots between", repr(part))
        return proposal.value

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


def _shown(given: Symptoms) -> dict[str, Any]:
    """What is shown of a model's symptoms, with few digits."""
    return {
        "source": given["source"],
        "wanted": given["wanted"],
        "said": given["said"][:TOKENS],
        "losses": domain.quantise(given["losses"], 2),
        "validation": domain.quantise(given["validation"], 2),
        "map": domain.quantise(given["map"], 2),
    }

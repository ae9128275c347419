"""A hunt for the mistake in an unnamed model, and the table of all mistakes and properties."""

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from kit.mistakes.catalogue import find_mistake
from kit.mistakes.properties import QUESTIONS
from kit.mistakes.symptoms import WINDOW
from kit.shared import validate
from kit.shared.checks import Finding
from kit.shared.widget import BookWidget, quantise, static_table

SHOWN = ("losses", "validation", "source", "wanted", "said", "map")
TOKENS = 14  # of a sentence; longer ones are cut
HELD, CAUGHT, STOPS = range(3)
Matrix = Mapping[str, Mapping[str, Finding]]


class BugHunt(BookWidget):
    """Look at a broken model, choose a property to test, and name the mistake.

    Args: matrix, the findings of each property for each mistake, as `kit.mistakes.catalogue.mistake_matrix`
        gives them; cases, the symptoms of trained models by the name of their mistake, as
        `kit.mistakes.symptoms.symptoms` gives them; right, the symptoms of a model without a
        mistake. mode, "hunt" or "matrix"; case, the number of the model that is shown first.
    Errors: ValueError for a name that is no mistake or not in the matrix, rows of the matrix with
        unequal properties, or symptoms that do not fit.
    """

    _module = "bug_hunt"
    properties = traitlets.List().tag(sync=True)  # {name, question}
    mistakes = traitlets.List().tag(sync=True)  # {name, title, group, source, looks, why, ...}
    findings = traitlets.List().tag(sync=True)  # mistake by property: [held, number, message]
    messages = traitlets.List().tag(sync=True)  # each once
    cases = traitlets.List().tag(sync=True)
    right = traitlets.Dict().tag(sync=True)
    window = traitlets.Int(WINDOW).tag(sync=True)
    mode = traitlets.Unicode().tag(sync=True)
    case = traitlets.Int().tag(sync=True)
    test = traitlets.Unicode().tag(sync=True)  # the property that is chosen
    asked = traitlets.Unicode().tag(sync=True)  # those that were run, e.g. 5.6
    guess = traitlets.Unicode().tag(sync=True)
    named = traitlets.Unicode().tag(sync=True)  # the guess that was handed in
    shown = traitlets.Bool().tag(sync=True)
    row = traitlets.Int().tag(sync=True)
    column = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        matrix: Matrix,
        cases: Mapping[str, Mapping[str, Any]],
        right: Mapping[str, Any],
        *,
        mode: str = "hunt",
        case: int = 0,
    ):
        if not matrix or not cases:
            raise ValueError("expected at least one mistake in the matrix and one case, got none")
        found = [find_mistake(name) for name in matrix]
        names = list(next(iter(matrix.values())))
        for name, row in matrix.items():
            if list(row) != names:
                raise ValueError(
                    f"matrix, {name}: expected the properties {names}, got {list(row)}"
                )
        for name in cases:
            validate.one_of(name, list(matrix), "cases")
        validate.one_of(mode, ("hunt", "matrix"), "mode")
        validate.index(case, len(cases), "case")
        messages = list(dict.fromkeys(f.message for row in matrix.values() for f in row.values()))
        super().__init__(
            properties=[{"name": name, "question": QUESTIONS[name]} for name in names],
            mistakes=[
                {
                    "name": mistake.name,
                    "title": mistake.title,
                    "group": mistake.group,
                    "source": mistake.source,
                    "looks": mistake.looks,
                    "why": mistake.why,
                    "mended": mistake.mended,
                    "code": mistake.code(),
                }
                for mistake in found
            ],
            findings=[[_packed(row[name], messages) for name in names] for row in matrix.values()],
            messages=messages,
            cases=[{"name": name, **_symptoms(given, name)} for name, given in cases.items()],
            right=_symptoms(right, "right"),
            mode=mode,
            case=case,
            test=names[0],
        )

    def summary(self) -> str:
        return (
            f"BugHunt: {len(self.cases)} unnamed models; {len(self.mistakes)} mistakes, "
            f"{len(self.properties)} properties"
        )

    def static_html(self) -> str:
        names = [entry["name"] for entry in self.properties]
        rows = [
            (entry["title"], entry["looks"], ", ".join(_caught(row, names)) or "none of them")
            for entry, row in zip(self.mistakes, self.findings, strict=True)
        ]
        caption = "Each mistake, what one sees of it, and the properties that catch it"
        return static_table(caption, ("mistake", "what one sees", "caught by"), rows)


def _caught(row: Sequence[Sequence], names: Sequence[str]) -> list[str]:
    return [name for name, (held, *_) in zip(names, row, strict=True) if held != HELD]


def _packed(finding: Finding, messages: list[str]) -> list:
    """[held, number, message]: numbers to two digits, an infinite one as None."""
    number = finding.number
    held = HELD if finding.held else STOPS if number is None else CAUGHT
    known = number is not None and number < float("inf")
    return [held, float(f"{number:.2g}") if known else None, messages.index(finding.message)]


def _symptoms(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    validate.fields(given, SHOWN, where)
    lists = {
        name: validate.tokens(given[name], f"{where}, {name}", may_be_empty=name == "said")[:TOKENS]
        for name in ("source", "wanted", "said")
    }
    size = (len(given["wanted"]), len(given["source"]))
    if max(size) > TOKENS:
        raise ValueError(f"{where}: expected at most {TOKENS} tokens, got {max(size)}")
    losses = [quantise(loss, 2) for loss in validate.items(given["losses"], f"{where}, losses")]
    return {
        **lists,
        "losses": losses,
        "validation": quantise(given["validation"], 2),
        "map": validate.matrix(given["map"], *size, f"{where}, map", digits=2),
    }

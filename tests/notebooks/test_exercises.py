"""The exercises: each printed solution passes, the empty answer and the wrong ones fail.

A coding exercise of a chapter is
- a code cell tagged "exercise" that defines the function to be filled, named F;
- the next code cell that mentions F, tagged "raises-exception", which runs the check;
- a solution directive with a python block that defines F.
What F's check must accept and refuse stands in book/chapters/name/answers.py: RIGHT gives for
F a list of right answers in different styles, WRONG gives wrong ones, each with a piece of the
message that it must get, so that a check that names another mistake fails too. A python block of
any solution that asserts something is run as well. The check of an exercise tagged "processes"
starts some, which takes seconds, so `make test` tries no answers on it. All these run with the
imports, functions and classes of the chapter's cells, and with nothing that it computes.

`make answers` prints all answers with what the checks say of them.
"""

import ast
import contextlib
import io
import linecache
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

from checks.framework import CheckFailed
from tests.notebooks.guards import tags
from tests.paths import BOOK

DIRECTIVE = re.compile(r"^(`{3,}|:{3,})\{(\w+)\}[ \t]*([^\n]*)\n(.*?)^\1[ \t]*$", re.M | re.S)
BLOCK = re.compile(r"^(`{3,})python\n(.*?)^\1[ \t]*$", re.M | re.S)
CHAPTERS = sorted(BOOK.glob("[0-9]*.ipynb"))
TRAINED = {"attention_layer", "multi_head"}  # printed solutions there train models
LEAST_EXERCISES, LEAST_CODING = 5, 2
LEAST_RIGHT, LEAST_WRONG = 3, 4
SIDES = ("RIGHT", "WRONG")  # the two lists of a file of answers


class Exercise(NamedTuple):
    chapter: str
    name: str  # of the function to be written
    context: str  # imports and definitions before it
    stub: str
    check: str
    starts: bool  # its check starts processes


def defined(code: str) -> list[str]:
    body = ast.parse(code).body
    return [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)]


def context(code: str) -> str:
    """The imports, functions and classes of a cell: what needs no run of the chapter."""
    kept = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef
    return "\n".join(ast.unparse(node) for node in ast.parse(code).body if isinstance(node, kept))


def exercises(path: Path) -> list[Exercise]:
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    found, before = [], ""
    for number, cell in enumerate(cells):
        if "exercise" not in tags(cell):
            before += context(cell.source) + "\n"
            continue
        for name in defined(cell.source):
            later = [
                other.source
                for other in cells[number + 1 :]
                if "raises-exception" in tags(other) and re.search(rf"\b{name}\b", other.source)
            ]
            check = later[0] if later else ""
            starts = "processes" in tags(cell)
            found.append(Exercise(path.stem, name, before, cell.source, check, starts))
    return found


def directives(path: Path, kind: str) -> dict[str, str]:
    """Label and text of each directive of a kind; an exercise bears its label as an option."""
    found = {}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "markdown":
            continue
        for match in DIRECTIVE.finditer(cell.source):
            _, name, argument, text = match.groups()
            if name == kind:
                label = re.search(r"^:label: (\S+)", text, re.M)
                found[label.group(1) if label and kind == "exercise" else argument.strip()] = text
    return found


def solution_of(path: Path, name: str) -> str:
    for text in directives(path, "solution").values():
        for _, code in BLOCK.findall(text):
            if name in defined(code):
                return code
    raise AssertionError(f"{path.stem}: no solution defines {name}")


def run(exercise: Exercise, answer: str | None = None, function: object = None) -> None:
    """Put an answer in the place of the stub, then run the chapter's own check cell."""
    namespace: dict = {"__name__": exercise.chapter}
    exec(exercise.context, namespace)
    if answer is not None:
        exec(answer, namespace)
    else:
        namespace[exercise.name] = function
    exec(exercise.check, namespace)


class Answer(NamedTuple):
    exercise: Exercise
    function: Callable
    says: str | None  # a piece of the message that it must get; None for a right answer

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


@cache
def listed(chapter: str) -> dict[str, dict]:
    """What the answers' file of a chapter defines; it is run when its first answer is asked for."""
    text = (BOOK / "chapters" / chapter[3:] / "answers.py").read_text(encoding="utf-8")
    name = f"<answers of {chapter}>"  # a reader's code, and so of no file of the book
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    found: dict = {"__name__": "answers"}
    exec(compile(text, name, "exec"), found)
    return found


def answers(exercise: Exercise) -> list[Answer]:
    """All listed answers to an exercise, the right ones first."""
    right, wrong = (listed(exercise.chapter)[side].get(exercise.name, {}) for side in SIDES)
    found = [Answer(exercise, function, None) for function in right]
    return found + [Answer(exercise, function, says) for function, says in wrong.items()]


CODING = [exercise for path in CHAPTERS for exercise in exercises(path)]
each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
each_exercise = pytest.mark.parametrize(
    "exercise", CODING, ids=lambda exercise: f"{exercise.chapter}-{exercise.name}"
)
each_answered = pytest.mark.parametrize(
    "exercise",
    [
        pytest.param(
            exercise,
            id=f"{exercise.chapter}-{exercise.name}",
            marks=[pytest.mark.slow] if exercise.starts else [],
        )
        for exercise in CODING
    ],
)


@each_chapter
def test_chapter_has_exercises_with_hints_and_solutions(path):
    asked = directives(path, "exercise")
    assert len(asked) >= LEAST_EXERCISES
    assert directives(path, "solution").keys() == asked.keys()
    for label, text in directives(path, "solution").items():
        assert ":class: dropdown" in text, f"the solution of {label} stands open"
    for label, text in asked.items():
        assert re.search(r"\d+ minutes", text), f"{label} does not say how long it takes"
    assert len(directives(path, "hint")) + len(directives(path, "dropdown")) >= 1
    assert sum(e.chapter == path.stem for e in CODING) >= LEAST_CODING


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.stem, marks=[pytest.mark.slow] if path.stem[3:] in TRAINED else []
        )
        for path in CHAPTERS
    ],
)
def test_solutions_are_python_and_their_assertions_hold(path):
    notebook = nbformat.read(path, as_version=4)
    cells = [c for c in notebook.cells if c.cell_type == "code" and "exercise" not in tags(c)]
    for label, text in directives(path, "solution").items():
        for _, code in BLOCK.findall(text):
            compiled = compile(code, label, "exec")
            if re.search(r"^\s*assert\b", code, re.M):
                namespace: dict = {"__name__": path.stem}
                exec("\n".join(context(cell.source) for cell in cells), namespace)
                exec(compiled, namespace)


@each_answered
def test_printed_solution_passes(exercise):
    assert exercise.check, f"{exercise.name} has no cell tagged raises-exception that checks it"
    run(exercise, solution_of(BOOK / f"{exercise.chapter}.ipynb", exercise.name))


@each_exercise
def test_empty_answer_fails(exercise):
    with pytest.raises(CheckFailed):
        run(exercise, exercise.stub)


@each_exercise
def test_answers_are_listed(exercise):
    says = [answer.says for answer in answers(exercise)]
    right, wrong = says.count(None), len(says) - says.count(None)
    assert right >= LEAST_RIGHT, f"list right answers to {exercise.name}, of different styles"
    assert wrong >= LEAST_WRONG, f"list wrong answers to {exercise.name}"


@each_answered
def test_answers_are_accepted_or_refused_for_their_mistake(exercise):
    """One test for all answers to an exercise; it names each that the check misjudges."""
    judged = [(answer, verdict(answer)) for answer in answers(exercise)]
    assert [f"{answer.name}: {said}" for answer, said in judged if said] == []


def verdict(answer: Answer) -> str | None:
    """How the check misjudges an answer; None if it says what it must."""
    message = message_for(answer)
    if answer.says is None:
        return message and f"a right answer is refused: {message}"
    if message is None:
        return "a wrong answer is accepted"
    return None if answer.says in message else f"expected {answer.says!r} in {message!r}"


def message_for(answer: Answer) -> str | None:
    """What the check says of an answer; None if it is accepted."""
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            run(answer.exercise, function=answer.function)
        except CheckFailed as failed:
            return str(failed)
    return None


CHECK = """found = halve(2)
if found is None:
    raise CheckFailed("no number")
if found > 1:
    raise CheckFailed("too large")
"""


def test_a_check_that_judges_wrongly_is_named():
    exercise = Exercise("", "halve", "from checks.framework import CheckFailed", "", CHECK, False)
    half, whole, none = (lambda x: x / 2), (lambda x: x), (lambda x: None)
    assert verdict(Answer(exercise, half, None)) is None
    assert verdict(Answer(exercise, whole, "too large")) is None
    assert verdict(Answer(exercise, whole, None)) == "a right answer is refused: too large"
    assert verdict(Answer(exercise, half, "too large")) == "a wrong answer is accepted"
    assert verdict(Answer(exercise, none, "too large")) == "expected 'too large' in 'no number'"


if __name__ == "__main__":
    everything = [answer for exercise in CODING for answer in answers(exercise)]
    for number, answer in enumerate(everything, start=1):
        said = message_for(answer)
        print(f"{number:4} {answer.exercise.chapter}/{answer.exercise.name}/{answer.name}")
        print(f"     {'accepted' if said is None else 'refused: ' + said}")

"""Notebooks as learners hand them in: a chapter for readers, with answers in its stub cells."""

import itertools
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from build.readers.reader import reader_notebook
from build.source.places import Places
from checks.grading.exercises import Chapter, all_chapters
from tests.notebooks.test_exercises import listed, solution_of
from tests.paths import BOOK, ROOT

PLACES = Places(ROOT)


def chapter(name: str) -> Chapter:
    (found,) = (chapter for chapter in all_chapters() if chapter.stem[3:] == name)
    return found


def code(text: str) -> NotebookNode:
    return nbformat.v4.new_code_cell(text)


def with_answers(asked: Chapter, answers: dict[str, str], *above: str) -> NotebookNode:
    """The chapter's notebook for readers; `answers` by name, and cells above the first stub."""
    notebook = reader_notebook(BOOK / f"{asked.stem}.ipynb", PLACES)
    names = {exercise.stub: exercise.name for exercise in asked.exercises}
    stubs = [i for i, cell in enumerate(notebook.cells) if cell.source in names]
    for i in stubs:
        cell = notebook.cells[i]
        cell.source = answers.get(names[cell.source], cell.source)
    notebook.cells[stubs[0] : stubs[0]] = map(code, above)
    return notebook


def solved(asked: Chapter, **others: str) -> NotebookNode:
    """With the printed solutions, but for the answers that are given."""
    path = BOOK / f"{asked.stem}.ipynb"
    printed = {e.name: solution_of(path, e.name) for e in asked.exercises if e.name not in others}
    return with_answers(asked, printed | others)


def from_lists(asked: Chapter, seed: int) -> tuple[NotebookNode, list[str | None]]:
    """With right and wrong answers of the chapter's own answers.py, which stands in a cell above.

    Returns: the notebook, and for each exercise a piece of the message; None for a right answer.
    """
    lists, answers, told = listed(asked.stem), {}, []
    for number, exercise in enumerate(asked.exercises, start=seed):
        right, wrong = lists["RIGHT"][exercise.name], lists["WRONG"][exercise.name]
        if number % 2:
            answers[exercise.name] = (
                f'{exercise.name} = RIGHT["{exercise.name}"][{seed % len(right)}]'
            )
            told.append(None)
        else:
            which = seed % len(wrong)
            answers[exercise.name] = f'{exercise.name} = [*WRONG["{exercise.name}"]][{which}]'
            told.append([*wrong.values()][which])
    text = (BOOK / "chapters" / asked.stem[3:] / "answers.py").read_text(encoding="utf-8")
    return with_answers(asked, answers, text), told


def worn(notebook: NotebookNode) -> NotebookNode:
    """As Colab and some weeks leave it: without tags and identities, with cells of notes and tries
    between the others, the exercises moved to the front, and a bookmark in front of all."""
    cells = []
    for number, cell in enumerate(notebook.cells):
        cell.metadata = {}
        cell.id = f"cell{number}"
        cells += [cell, *([code(f"try_{number} = undefined")] if number % 7 == 0 else [])]
    first = next(i for i, cell in enumerate(cells) if "## Exercises" in cell.source)
    imports = [cell for cell in cells[:first] if cell.cell_type == "code"][:2]
    rest = itertools.filterfalse(imports.__contains__, cells[:first])
    notebook.cells = [code("%matplotlib inline\nbookmark = 1"), *imports, *cells[first:], *rest]
    return notebook


def hand_in(notebook: NotebookNode, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(notebook), encoding="utf-8")

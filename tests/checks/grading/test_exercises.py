"""What the chapters ask is found as readers see it, and a notebook's chapter by what is in it."""

import re

import pytest

from build.readers.reader import reader_notebook
from build.source.places import Places
from checks.grading.exercises import BOOK, all_chapters, chapter_of, same
from tests.notebooks.test_exercises import CODING
from tests.paths import ROOT

each_chapter = pytest.mark.parametrize("chapter", all_chapters(), ids=lambda chapter: chapter.stem)


def test_all_exercises_are_found():
    found = [(c.stem, e.name, e.stub, e.check_cell) for c in all_chapters() for e in c.exercises]
    graded = [e for e in CODING if not e.starts]  # an answer that is graded starts no process
    assert found == [(e.chapter, e.name, e.stub, e.check) for e in graded]


@each_chapter
def test_their_numbers_and_titles_are_those_that_readers_see(chapter):
    shown = reader_notebook(BOOK / f"{chapter.stem}.ipynb", Places(ROOT))
    text = "\n".join(cell.source for cell in shown.cells if cell.cell_type == "markdown")
    headings = re.findall(r"^### Exercise ([\d.]+: .*) \([a-z]+, \d+ minutes.*\)$", text, re.M)
    for exercise in chapter.exercises:
        assert f"{exercise.number}: {exercise.title}" in headings


@each_chapter
def test_a_chapter_is_recognised_by_its_imports_or_by_its_answers_alone(chapter):
    (imports,) = (code for code in chapter.code if f"from {chapter.room}.checks" in code)
    assert chapter_of([imports], "anna.ipynb") is chapter
    answers = [e.stub.replace("...", "pass") for e in chapter.exercises]
    assert chapter_of(answers, "anna.ipynb") is chapter
    assert chapter_of(answers, "05_multi_head.ipynb") is chapter


def test_the_name_of_the_file_decides_where_nothing_else_does():
    assert chapter_of(["x = 1"], "anna.ipynb") is None
    found = chapter_of(["x = 1"], "anna_06_masking (2).ipynb")
    assert found is not None
    assert found.stem == "06_masking"


def test_comments_and_line_breaks_make_no_other_code():
    assert same("f(1, 2)  # two") == same("# @title\nf(\n    1,\n    2,\n)")
    assert same("f(1, 2)") != same("f(2, 1)")
    assert same("def (:\n") == "def (:"

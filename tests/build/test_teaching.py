"""The plan of the page about teaching: minutes, titles and exercises are the chapters' own."""

import json
import re

import pytest

from checks.grading.exercises import all_chapters
from tests.paths import BOOK

PAGE = (BOOK / "teaching.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+) \| (.*?) \| (\d+) \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)
EXERCISE = re.compile(r"`{3,}\{exercise\} .*\n:label: .*\n\n\*[^*]*?(\d+) minutes")
IN_CODE = {exercise.number for chapter in all_chapters() for exercise in chapter.exercises}
ALLOWED = 40  # minutes of exercises in a session of ninety


def texts(name):
    cells = json.loads((BOOK / name).read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]


def reading(opening):
    """The minutes that a chapter's first lines give for the whole of it."""
    if found := re.search(r"Reading: (\d+) minutes|^\*(\d+) minutes, and", opening, re.MULTILINE):
        return int(found[1] or found[2])
    assert re.search(r"[Tt]he whole chapter\s+(takes )?an hour", opening)
    return 60


def minutes(number, name):
    """The minutes of each exercise of a chapter, by its number as readers see it."""
    found = EXERCISE.findall("\n\n".join(texts(name)))
    return {f"{number}.{i}": int(given) for i, given in enumerate(found, start=1)}


def test_there_are_twelve_sessions():
    assert [int(row[0]) for row in ROWS] == [*range(1, 13)]
    assert "## A course of twelve sessions" in PAGE


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"session {row[0]}")
def test_a_session_has_the_figures_of_its_chapters(row):
    _, chapters, read, inside, outside = row
    named = re.findall(r"(\d+)\. \[(.*?)\]\((\w+\.ipynb)\)", chapters)
    assert named
    total, known = 0, {}
    for number, title, name in named:
        assert name.startswith(f"{int(number):02}_")
        opening = texts(name)[0]
        assert re.search(r"^# (.*)$", opening, re.MULTILINE)[1] == title
        total += reading(opening)
        known |= minutes(int(number), name)
    assert int(read) == total
    given = re.findall(r"(\*\*)?(\d+\.\d+)(?:\*\*)? \((\d+)\)", f"{inside}, {outside}")
    assert len(given) == len({number for _, number, _ in given}) >= 4
    for bold, number, said in given:
        assert known[number] == int(said), number
        assert bool(bold) is (number in IN_CODE), number
    assert sum(map(int, re.findall(r"\((\d+)\)", inside))) <= ALLOWED


def test_what_the_plan_leaves_out_no_chapter_of_it_needs():
    planned = {number for row in ROWS for number in re.findall(r"(\d+)\. \[", row[1])}
    left = [path.name for path in sorted(BOOK.glob("[0-9]*.ipynb"))]
    left = [name for name in left if str(int(name[:2])) not in planned]
    assert [int(name[:2]) for name in left] == [13, 14, 16, 17]
    assert "**Chapters 13, 14, 16 and 17** are not in the plan" in PAGE
    for row in ROWS:
        for name in re.findall(r"\((\w+\.ipynb)\)", row[1]):
            needs = re.findall(r"You need .*", texts(name)[0], re.DOTALL)
            assert not [other for other in left if other in "".join(needs)]

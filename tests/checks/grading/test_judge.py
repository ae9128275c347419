"""What is said of an answer: the book's own check decides, not the copy in the notebook."""

import pytest

from checks.grading.exercises import all_chapters
from checks.grading.handed_in import HandedIn
from checks.grading.judge import FAILED, LONGEST, NOT_ANSWERED, PASSED, one_line, verdict
from tests.notebooks.test_exercises import solution_of
from tests.paths import BOOK

(CHAPTER,) = (chapter for chapter in all_chapters() if chapter.stem == "06_masking")
PREFIX = CHAPTER.exercises[1]
SOLUTION = solution_of(BOOK / "06_masking.ipynb", PREFIX.name)
WRONG = "def prefix_mask(lengths, n):\n    return lengths\n"


def judged(*cells):
    return verdict(HandedIn(CHAPTER, list(cells)), PREFIX)


def test_an_answer_passes_without_the_cells_that_it_was_written_beside():
    assert judged(SOLUTION) == (PASSED, "")  # it reads what the chapter imports


def test_an_answer_gets_the_message_of_the_check():
    assert judged(WRONG) == (FAILED, "expected an output of shape (5, 7, 7), got (5,)")
    assert judged(PREFIX.stub, PREFIX.check_cell) == (NOT_ANSWERED, "")


@pytest.mark.parametrize(
    "spoilt",
    [
        "def check_prefix_mask(answer):\n    return 'all properties hold'",
        "import chapters.masking.checks\nchapters.masking.checks.check_prefix_mask = print",
        "from checks.framework import CheckFailed\nraise CheckFailed('no')",
    ],
)
def test_the_learners_copy_of_a_check_decides_nothing(spoilt, monkeypatch):
    import chapters.masking.checks as checks

    monkeypatch.setattr(
        checks, "check_prefix_mask", checks.check_prefix_mask
    )  # put back at the end
    assert judged(spoilt, WRONG, "check_prefix_mask(prefix_mask)")[0] == FAILED
    assert judged(spoilt, SOLUTION, "check_prefix_mask(None)") == (PASSED, "")


def test_an_error_in_an_answer_is_told_with_its_line():
    text = "def prefix_mask(lengths, n):\n    size = n + missing\n    return size\n"
    result, message = judged(text)
    assert result == FAILED
    assert "NameError: name 'missing' is not defined" in message
    assert message.endswith("in the line: size = n + missing")


def test_an_error_before_the_answer_is_told_if_the_answer_depends_on_it():
    result, message = judged("size = 1 / 0", "prefix_mask = make(size)")
    assert result == FAILED
    assert "NameError: name 'make'" in message
    assert judged("1 / 0", "size = 1 / 0", SOLUTION) == (PASSED, "")


@pytest.mark.parametrize("how", ["raise SystemExit(0)", "raise KeyboardInterrupt", "exit()"])
def test_an_answer_that_wants_to_end_the_program_has_failed(how):
    result, message = judged(f"import sys\ndef prefix_mask(lengths, n):\n    {how}\n")
    assert result == FAILED
    assert message.startswith("your function raised ")
    assert judged(f"def prefix_mask(lengths, n): return n\n{how}\nprefix_mask = 1 / 0")[0] == FAILED


def test_a_class_of_an_answer_is_found_as_in_a_notebook():
    sizes = "from dataclasses import dataclass\n@dataclass\nclass Sizes:\n    n: int\n"
    text = "def prefix_mask(lengths, n):\n    assert Sizes(n).n == n\n    return lengths\n"
    assert judged(sizes, text)[1].startswith("expected an output of shape")


def test_a_message_is_one_line_and_has_an_end():
    assert one_line("a\n  b\x00\x1b[31mc") == "a b [31mc"
    assert len(one_line("x" * 10_000)) == LONGEST

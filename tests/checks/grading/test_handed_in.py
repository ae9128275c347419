"""The answer is found whatever became of the cells, and only what it needs is run."""

import ast
import json

import nbformat
import pytest

from checks.grading.exercises import all_chapters
from checks.grading.handed_in import HandedIn, NotAnswered, NotRead, read_notebook

(CHAPTER,) = (chapter for chapter in all_chapters() if chapter.stem == "06_masking")
SOFTMAX = CHAPTER.exercises[0]
ANSWER = "def masked_softmax(scores, mask):\n    return scores.masked_fill(~mask, LOW).softmax(-1)"
TRAINS = "model = endless()"


def needed(*cells, exercise=SOFTMAX):
    """The learner's statements that are run for an exercise, as code."""
    statements = HandedIn(CHAPTER, list(cells)).needed_for(exercise)
    return [ast.unparse(one.node) for one in statements if one.place != "the book"]


def binds(answer, *others):
    """Whether the cells give this answer, whatever else they need."""
    return needed(*others)[-1] == ast.unparse(ast.parse(answer))


def test_only_what_the_answer_reads_is_run():
    cells = ["LOW = small()", TRAINS, "def small():\n    return -9e9", ANSWER, "print(model)"]
    assert needed(*cells) == [
        "LOW = small()",
        "def small():\n    return -9000000000.0",
        ast.unparse(ast.parse(ANSWER)),
    ]


def test_a_name_has_the_last_value_before_the_check():
    cells = ["LOW = 1", "LOW = -9", ANSWER, SOFTMAX.check_cell, "LOW = 2", TRAINS]
    assert needed(*cells)[0] == "LOW = -9"
    assert needed(ANSWER, SOFTMAX.check_cell, "LOW = 2")[1] == "LOW = 2"  # it was run before


@pytest.mark.parametrize(
    "changes",
    [
        ["LOW = []", "LOW.append(1)"],
        ["LOW = 1", "LOW += 1"],
        ["LOW = [1]", "LOW[0] = 2"],
        ["LOW = object", "LOW.x = 2"],
        ["LOW = 1", "if LOW:\n    LOW = 2"],
        ["LOW = []", "for x in (1, 2):\n    LOW.append(x)"],
        ["n = 2", "LOW = [n for _ in range(n)]"],
        ["n = 2", "class LOW:\n    size = n"],
        ["from math import *"],
    ],
    ids=lambda changes: changes[-1],
)
def test_what_changes_a_value_is_run_too(changes):
    assert needed(*changes, TRAINS, ANSWER)[:-1] == [ast.unparse(ast.parse(c)) for c in changes]


def test_a_call_on_a_module_is_no_change_of_it():
    cells = ["import torch\ntorch.manual_seed(0)", ANSWER.replace("LOW", "torch.inf")]
    assert needed(*cells)[0] == "import torch"
    assert len(needed(*cells)) == 2


def test_the_last_answer_counts_wherever_it_stands():
    other = ANSWER.replace("LOW", "-1")
    assert binds(other, SOFTMAX.stub, ANSWER, SOFTMAX.check_cell, other, SOFTMAX.check_cell)
    assert binds(other, ANSWER, other, SOFTMAX.stub)  # a stub that was moved is no answer
    assert binds("masked_softmax = other", "masked_softmax = other", SOFTMAX.check_cell)


def test_an_answer_under_another_name_is_what_the_check_was_given():
    mine = ANSWER.replace("masked_softmax", "mine")
    assert needed(SOFTMAX.stub, mine, "check_masked_softmax(mine)") == [
        ast.unparse(ast.parse(mine)),
        "masked_softmax = mine",
    ]
    given = "check_masked_softmax(lambda scores, mask: scores)"
    assert binds("masked_softmax = lambda scores, mask: scores", SOFTMAX.stub, given)


@pytest.mark.parametrize(
    "cells", [[], [SOFTMAX.stub, SOFTMAX.check_cell], [f"# mine\n{SOFTMAX.stub}\n# to do"]]
)
def test_the_stub_is_no_answer(cells):
    with pytest.raises(NotAnswered):
        needed("x = 1", *cells)


def test_what_the_chapter_gives_to_a_check_is_no_answer():
    (layer,) = (chapter for chapter in all_chapters() if chapter.stem == "03_attention_layer")
    case = next(text for text in layer.code if text.startswith("check_attention("))
    with pytest.raises(NotAnswered):
        HandedIn(layer, [layer.exercises[0].stub, case]).needed_for(layer.exercises[0])


def test_a_cell_that_is_no_python_is_told_where_it_was_the_answer():
    broken = "def masked_softmax(scores, mask):\n    return scores["
    with pytest.raises(SyntaxError, match="never closed"):
        needed(SOFTMAX.stub, broken)
    with pytest.raises(NotAnswered):
        needed(SOFTMAX.stub, "def another(:")
    assert binds(ANSWER, broken, ANSWER)


@pytest.mark.parametrize(
    "text",
    [
        f"%matplotlib inline\n!pip install x\n{ANSWER}\nmasked_softmax?",
        f"%%time\n{ANSWER}",
        f"\n%%capture out\n{ANSWER}",
    ],
)
def test_what_is_for_ipython_is_left_out(text):
    assert binds(ANSWER, "%%bash\nrm -r x", text)


def written(cells):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    return nbformat.writes(notebook).encode()


def test_a_notebook_is_read_with_lists_of_lines_and_of_colab_and_in_the_older_format():
    assert read_notebook(written([ANSWER]), "x.ipynb").chapter is CHAPTER
    marked = b"\xef\xbb\xbf" + written([ANSWER])
    assert read_notebook(marked, "x.ipynb").cells == [ANSWER]
    colab = json.loads(written([ANSWER]))  # each source one text, no cell with an identity
    colab |= {"nbformat_minor": 0, "metadata": {"colab": {"provenance": []}}}
    colab["cells"] = [{"cell_type": "code", "metadata": {}, "source": ANSWER}]
    assert read_notebook(json.dumps(colab).encode(), "x.ipynb").cells == [ANSWER]
    older = nbformat.v3.new_notebook(
        worksheets=[nbformat.v3.new_worksheet(cells=[nbformat.v3.new_code_cell(ANSWER)])]
    )
    assert read_notebook(nbformat.v3.writes_json(older).encode(), "x").cells == [ANSWER]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"PK\x03\x04", "no notebook"),
        (b"[1, 2]", "no notebook"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "no notebook"),
        (b"\xff\xfe", "no notebook"),
        (b"[" * 100_000, "no notebook"),
        (written([]), "no code"),
        (written(["", " \n"]), "no code"),
        (written(["x = 1"]), "which chapter"),
    ],
    ids=["empty", "zip", "list", "no source", "bytes", "deep", "no cells", "blank", "unknown"],
)
def test_what_cannot_be_graded_says_why(content, why):
    with pytest.raises(NotRead, match=why):
        read_notebook(content, "anna.ipynb")

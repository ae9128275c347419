"""Each measured number in the text of a chapter rests on something that is run or recorded."""

import random
import re

import nbformat
import pytest

from build.directives.records import recorded
from tests.notebooks.numbers import Chapter, digits, read_chapter
from tests.paths import BOOK

CHAPTERS = sorted(BOOK.glob("[0-9]*.ipynb"))
POWER = 0.9  # the share of wrong numbers that are found; 0.93 when this was written


@pytest.fixture(scope="module")
def chapters():
    return {path.stem: read_chapter(path) for path in CHAPTERS}


@pytest.mark.parametrize("name", [path.stem for path in CHAPTERS])
def test_each_number_stands_in_an_output_in_code_or_in_the_list(chapters, name):
    assert chapters[name].problems() == []


@pytest.mark.parametrize("name", [path.stem for path in CHAPTERS])
def test_each_number_of_a_record_is_there(chapters, name):
    for cell in chapters[name].notebook.cells:
        for content in re.findall(r"\{rec\}`([^`]+)`", cell.source):
            assert re.fullmatch(r"[−\d.,]+( %)?", recorded(content)[0])


def test_every_table_belongs_to_a_chapter():
    names = {path.stem.partition("_")[2] for path in CHAPTERS}
    assert {path.parent.name for path in BOOK.glob("chapters/*/quoted.yml")} <= names


def another(number: str, draw: random.Random) -> str:
    """A number with other digits, of the same form: 0.072 may become 0.518."""
    start = "0" if number.startswith("0.") else ""
    while True:
        new = start + re.sub(r"\d", lambda _: str(draw.randrange(10)), number[len(start) :])
        if new != number and (start or new[0] != "0" or number[0] == "0"):
            return new


def test_a_wrong_number_is_found(chapters):
    """Each is changed ten times; that in `quoted.yml` is always found, since its words change."""
    draw, caught, tried = random.Random(0), 0, 0
    for chapter in chapters.values():
        for said in chapter.said:
            tried += 10
            if said.found["part"] or said in chapter.quoted_numbers:
                caught += 10
            else:
                new = (another(said.found["number"], draw) for _ in range(10))
                caught += sum(not chapter.is_shown(said, number) for number in new)
    assert tried > 4000
    assert caught / tried >= POWER


# --- the rules, on chapters of a few lines --------------------------------------------------------


def code(source: str, printed: str = "", name: str = "", **metadata) -> nbformat.NotebookNode:
    outputs = [nbformat.v4.new_output("stream", text=printed)] if printed else []
    cell = nbformat.v4.new_code_cell(source, outputs=outputs, metadata=nbformat.from_dict(metadata))
    cell.id = name or cell.id
    return cell


def chapter(*cells: str | nbformat.NotebookNode, **quoted: str) -> Chapter:
    made = [
        nbformat.v4.new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in cells
    ]
    return Chapter(nbformat.NotebookNode(cells=made), quoted)


def found(text: str) -> list[str]:
    return [said.found[0] for said in chapter(text).said]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It costs 0.072, or .98, of 1,496.5 parts.", ["0.072", ".98", "1,496.5"]),
        ("In 13 of the 24, 95 % of 7 heads, after 2 s.", ["13 of the 24", "95 %", "2 s"]),
        ("From 92 to 98 %.", ["92", "98 %"]),
        ("[Figure 5.1](#a) and section 3.2.2, tables 1.2 and 3.4, e1.1.", []),
        ("Maths $x = 0.5$ and `0.25` and {rec}`a: b | .2f` say nothing.", []),
        ("A formula that is $0.98$ or $\\approx 0.97$.", ["0.98", "0.97"]),
        ("```{predict} pr-a-b\nOf 1,500?\n\n- 0.3\n- 0.4\n```", ["1,500"]),
        ("```{outcome} pr-a-b\n:right: 0.25\n:within: 0.1\n\nIt is 0.26.\n```", ["0.25", "0.26"]),
        ("```{seen}\n1. Then 0.3.\n```", ["0.3"]),
        ("````{solution} ex\n```python\nx = 0.1\n```\nIt is 0.2.\n````", ["0.2"]),
        ("```{exercise} One\n:label: ex\n\nTake 0.5.\n```\n```{hint}\n0.7\n```", []),
        ("```{figure} a.svg\n:alt: A bar of 0.4.\n\nA bar of 0.6.\n```", ["0.4", "0.6"]),
        ("| a | b |\n| --- | --- |\n| 1 | 2.5 |", ["2.5"]),
    ],
)
def test_what_may_be_measured_is_read_and_nothing_else_is(text, numbers):
    assert found(text) == numbers


def test_lines_captions_and_alternative_texts_are_read():
    about = {
        "code_prompt_show": "Tested: above 0.5.",
        "figure": {"caption": "Fractions above 0.6."},
        "image": {"alt": "Bars of 0.7."},
    }
    cell = code("plot()", mystnb=about)
    assert [said.found[0] for said in chapter(cell).said] == ["0.5", "0.6", "0.7"]


@pytest.mark.parametrize(
    ("said", "printed", "source"),
    [
        ("0.072", "loss 0.0724", ""),
        ("1,496", "1496 of 1500", ""),
        ("95 %", "0.9467", ""),
        ("95 %", "95% right", ""),
        ("13 of the 24", "in 13 of 24 heads", ""),
        ("97 of 100", "", "assert right >= 0.97"),
        ("0.98", "", "assert right > 0.98"),
        ("20 times", "", "steps = 20"),
        ("0.3", "0.3", ""),
    ],
)
def test_a_number_is_found_as_it_was_rounded(said, printed, source):
    assert chapter(f"It is {said}.", code(source, printed)).problems() == []


@pytest.mark.parametrize(
    ("said", "printed", "source"),
    [
        ("0.072", "0.0735", ""),
        ("0.98", "", "assert right > 0.982"),  # what the code has is not rounded
        ("0.3", "0.28", ""),  # a single digit is not rounded either
        ("0.5", "5", ""),
        ("95 %", "0.96", ""),
        ("95 %", "9500", ""),
        ("13 of 24", "12 of 24", ""),
        ("1,496", "1497", ""),
    ],
)
def test_another_number_is_not_found(said, printed, source):
    (problem,) = chapter(f"It is {said}.", code(source, printed, "table")).problems()
    assert repr(said) in problem
    assert "quoted.yml" in problem


def test_two_digits_are_looked_for_beside_the_text_and_three_in_the_chapter():
    far, near = code("", "0.25 and 0.333"), code("", "0.75")
    assert chapter(far, near, "It is 0.75 and 0.333.", near).problems() == []
    (problem,) = chapter(far, near, "It is 0.25.", near).problems()
    assert "'0.25'" in problem


def test_the_line_of_a_proof_speaks_of_its_own_cell():
    line = {"mystnb": {"code_prompt_show": "Tested: above 0.97."}, "tags": ["proof"]}
    near = code("", "0.97")
    assert chapter(near, code("assert x > 0.97", **line)).problems() == []
    assert len(chapter(near, code("assert x > 0.9", **line)).problems()) == 1


@pytest.mark.parametrize(
    ("words", "source", "message"),
    [
        ("about 0.25 here", "the paper, table 3", ""),
        ("about 0.25 here", "cell far", ""),
        ("about 0.25 here", "= 3 * 2 / 24", ""),
        ("about 0.25 here", "head_ablation = whole.exact / 4", ""),
        ("about 0.25 here", "cell near", "cell near does not have 0.25"),
        ("about 0.25 here", "cell none", "the chapter has no cell none"),
        ("about 0.25 here", "= 0.26", "0.26 is not 0.25"),
        ("about 0.25 here", "= 1; 2", "expected 1 calculations, got 2"),
        ("about 0.25 here", "somewhere", "expected where it is from, got 'somewhere'"),
        ("about 0.35 here", "the paper, table 3", "no such words with a number"),
        ("and 0.75", "the paper, table 3", "needless: a cell beside the text has it"),
    ],
)
def test_a_line_of_the_list_says_where_its_words_are_from(words, source, message):
    far, near = code("", "0.25", "far"), code("", "0.75", "near")
    made = chapter(far, near, "It is about 0.25 here, and 0.75.", near, **{words: source})
    found = [problem for problem in made.problems() if problem.startswith("quoted.yml")]
    assert len(found) == bool(message)
    assert all(message in problem for problem in found)


def test_digits_that_say_something():
    assert [digits(number) for number in ("0.072", "1,496", ".5", "1.0")] == [2, 4, 1, 2]

"""Printed text, checks of exercises and solutions, as the pages show them."""

import pytest
from docutils import nodes
from sphinx_exercise.nodes import solution_node

from build.doctree.outputs import NARROW, fit_lines, is_cell, on_resolved


def output(kind: str, text: str, added: str = "", style: str = "") -> str:
    return (
        f'<div class="output {kind}{added} highlight-none notranslate"{style}>'
        f'<div class="highlight"><pre>{text}</pre></div></div>'
    )


@pytest.mark.parametrize(
    ("kind", "text", "added", "style"),
    [
        ("stream", "short", " printed", ' style="--letters: 5"'),
        ("stream", "&lt;<b>eos</b>&gt;\nab", " printed", ' style="--letters: 5"'),
        ("text_plain", "x" * (NARROW + 1), " printed", ""),
        ("stream", "a   1   2\nb   3   4", " printed aligned", ' style="--letters: 9"'),
        ("stream", "  ok  one\n  ok  two", " printed", ' style="--letters: 9"'),
        ("text_plain", "tensor([[1, 2],\n", " printed aligned", ' style="--letters: 15"'),
        ("traceback", "a   1   2\nb   3   4", " printed", ' style="--letters: 9"'),
    ],
)
def test_printed_text_is_marked_once(kind, text, added, style):
    page = fit_lines(output(kind, text))
    assert page == output(kind, text, added, style)
    assert fit_lines(page) == page


def test_a_listing_is_no_printed_text():
    page = (
        '<div class="output text_markdown"><div class="highlight-python"><pre>x</pre></div></div>'
    )
    assert fit_lines(page) == page


def cell(*classes: str) -> nodes.container:
    error = nodes.literal_block("", "CheckFailed", classes=["output", "traceback"])
    printed = nodes.literal_block("", "before", classes=["output", "stream"])
    box = nodes.container("", printed, error, classes=["cell_output"])
    return nodes.container("", box, classes=["cell", *classes])


@pytest.fixture
def page():
    link = nodes.reference("", " Exercise 1", refid="exercise")
    title = nodes.title("", "Solution to", link)
    solution = solution_node("", title, nodes.section("", ids=["solution-content"]))
    parts = nodes.section("", ids=["exercise-content"]), nodes.section("", ids=["own"])
    check = "tag_raises-exception"
    document = nodes.document(None, None)
    document += [*parts, solution, cell("tag_exercise"), cell(check), cell(check)]
    document += [nodes.paragraph("", "between"), cell(check)]
    on_resolved(None, document, "page")
    return document


def test_only_an_exercise_and_its_checks_lose_their_errors(page):
    stub, check, second, other = (
        [node.astext() for node in one.findall(nodes.TextElement)] for one in page.findall(is_cell)
    )
    assert stub == check == second == ["before"]
    assert other == ["before", "CheckFailed"]


def test_an_output_that_held_the_error_alone_is_gone():
    error = nodes.literal_block("", "x", classes=["output", "traceback"])
    box = nodes.container("", error, classes=["cell_output"])
    stub = nodes.container("", box, classes=["cell", "tag_exercise"])
    document = nodes.document(None, None)
    document += stub
    on_resolved(None, document, "page")
    assert stub.children == []


def test_parts_have_no_identifier_in_common_and_a_title_leads_nowhere(page):
    assert [section["ids"] for section in page.findall(nodes.section)] == [[], ["own"], []]
    (title,) = page.findall(nodes.title)
    assert title.astext() == "Solution to Exercise 1"
    assert list(page.findall(nodes.reference)) == []

"""What answers a prediction: which part of a page is hidden until it is made."""

import nbformat
import pytest

from tests.build.test_gathered import page_of, text
from tests.build.test_questions import OUTCOME, PREDICT
from tests.question_book import code

OTHER = PREDICT.replace("a-b", "c-d")
OTHER_OUTCOME = OUTCOME.replace("a-b", "c-d")


def laboratory(name: str = "laboratory") -> nbformat.NotebookNode:
    cell = code(f"{name}()", [])
    data = {"text/html": f'<div class="book-widget" data-module="{name}"></div>', "text/plain": "x"}
    cell.outputs = [nbformat.v4.new_output("display_data", data=data)]
    return cell


CASES = {
    "code and text": (
        [PREDICT, code("one", []), "Read this.", OUTCOME],
        [["one", "Read this.", "So"]],
    ),
    "the outcome alone": ([PREDICT + OUTCOME], [["So"]]),
    "a laboratory": ([PREDICT, "Try it.", laboratory(), "After.", OUTCOME], [["After.", "So"]]),
    "another laboratory": (
        [PREDICT, "Try it.", laboratory("take_out"), "After.", OUTCOME],
        [["After.", "So"]],
    ),
    "another widget": (
        [PREDICT, "Try it.", laboratory("map"), OUTCOME],
        [["Try it.", "map", "So"]],
    ),
    "a heading between": (
        [PREDICT, code("one", []), code("two", []), "Read this.", "## Part", OUTCOME],
        [["one", "two"], ["So"]],
    ),
    "two at once": (
        [PREDICT, code("one", []), "Read this.", OTHER, code("two", []), OUTCOME, OTHER_OUTCOME],
        [["one"], ["two"], ["So"], ["So"]],
    ),
    "one within another": (
        [PREDICT, "Read this.", OTHER, code("two", []), OTHER_OUTCOME, OUTCOME],
        [["two", "So"], ["So"]],
    ),
}


@pytest.mark.parametrize(("parts", "hidden"), CASES.values(), ids=CASES)
def test_what_is_hidden(parts, hidden, tmp_path):
    cells = [text(part) if isinstance(part, str) else part for part in parts]
    page = page_of(tmp_path / "book", *cells)
    kept = page.select(".evidence")
    assert len(kept) == len(hidden)
    for block, wanted in zip(kept, hidden, strict=True):
        shown = block.find_all(recursive=False)
        assert len(shown) == len(wanted)
        for child, start in zip(shown, wanted, strict=True):
            assert start in child.text or start in str(child)
    if "## Part" in parts or OTHER in parts:
        assert not any("Read this." in block.text for block in kept)
    names = [block["data-name"] for block in kept]
    assert {*names} == {node["data-name"] for node in page.select(".predict")}

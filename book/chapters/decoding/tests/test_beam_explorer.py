"""The beam explorer's data: checked, small, and complete for every beam that can be chosen."""

import math

import pytest

from chapters.decoding.beam_explorer import BeamExplorer
from chapters.decoding.prefix_table import PrefixTable
from chapters.decoding.tests.samples import ROWS
from tests.helpers import unchecked


def test_tree_lists_the_likeliest_first():
    tree = BeamExplorer({"sample": ROWS}).examples[0]
    assert tree["tokens"][:7] == ["no", "yes", "<b>", "<eos>", "no", "yes", "<eos>"]
    assert tree["parents"][:7] == [-1, -1, -1, 0, 0, 0, 1]
    assert tree["log_p"][0] == pytest.approx(math.log(0.45), abs=1e-4)
    assert len(tree["tokens"]) == sum(map(len, ROWS.values()))


def test_found_is_the_search_on_the_table():
    widget = BeamExplorer({"sample": ROWS})
    assert widget.found(0, 1, 0.0)[0] == ["no", "<eos>"]
    words, score = widget.found(0, 2, 0.0)
    assert words == ["yes", "<eos>"]
    assert score == pytest.approx(math.log(0.24), abs=1e-3)
    assert widget.found(0, 5, 2.0)[0] == ["yes", "yes", "no", "<eos>"]


def test_text_for_readers_without_scripts():
    widget = BeamExplorer({"a <b>": ROWS}, beam=3, alpha=0)
    assert repr(widget) == "BeamExplorer: 1 table, beam 3, alpha 0"
    html = widget.static_html()
    assert "a &lt;b&gt;" in html
    assert "<td>no &lt;eos&gt;</td><td>-1.49</td>" in html
    assert html.count("<tr>") == 1 + 5


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        ({}, "at least one table"),
        ([ROWS], "expected a mapping"),
        ({"a": [1]}, r"examples\['a'\]: expected a name and rows, got list"),
        ({"a": {(): {"x": 0.5}}}, r"examples\['a'\]: expected probabilities .* got the sum 0.5"),
        ({"a": {(): {"x": 0.9, "y": 0.1}, ("x",): {"<eos>": 1.0}}}, "one that goes on with 'y'"),
    ],
)
def test_tables_that_cannot_be_searched(examples, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        BeamExplorer(examples)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"beam": 0}, "beam: expected a whole number from 1 to 5, got 0"),
        ({"beam": 6}, "beam: expected"),
        ({"beam": True}, "beam: expected"),
        ({"alpha": 2.5}, "alpha: expected a number from 0 to 2, got 2.5"),
        ({"alpha": float("nan")}, "alpha: expected"),
        ({"example": 1}, "example: expected a whole number from 0 to 0, got 1"),
        ({"step": 0}, "step: expected a whole number from 1 to 60"),
        ({"max_length": 61}, "max_length: expected"),
    ],
)
def test_starts_that_cannot_be_reached(start, message):
    with pytest.raises(ValueError, match=message):
        BeamExplorer({"sample": ROWS}, **start)


def test_table_and_tree_hold_the_same():
    table = PrefixTable(ROWS)
    widget = BeamExplorer({"sample": ROWS})
    assert len(table.rows) == 1 + sum(
        1 for i in range(len(widget.examples[0]["tokens"])) if i in widget.examples[0]["parents"]
    )

"""The mask builder's start, and what it leaves for readers without scripts."""

import re

import pytest

from chapters.masking.mask_builder import MOST, MaskBuilder
from lib.masks import causal_mask


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"n_queries": 0}, "n_queries: expected a whole number from 1 to 64, got 0"),
        ({"n_queries": 65}, "n_queries: expected a whole number from 1 to 64, got 65"),
        ({"n_keys": 0}, "n_keys: expected a whole number from 1 to 64, got 0"),
        ({"n_keys": 5, "causal": True}, "expected neither causal nor radius in cross-attention"),
        ({"n_keys": 5, "radius": 0}, "got n_keys=5, causal=False, radius=0; both compare"),
        ({"lengths": 8}, "lengths: expected a whole number from 0 to 7, got 8"),
        ({"n_keys": 5, "lengths": [6] * 7}, "lengths: expected a whole number from 0 to 5, got 6"),
        ({"lengths": [1, 2, 3]}, r"one number, or one for each of 7 queries, got \[1, 2, 3\]"),
        ({"lengths": []}, r"one number, or one for each of 7 queries, got \[\]"),
        ({"radius": -1}, "radius: expected a whole number from 0 to 6, got -1"),
        ({"radius": 7}, "radius: expected a whole number from 0 to 6, got 7"),
        ({"by_hand": {(7, 0): True}}, r"by_hand, row of \(7, 0\): expected a whole number from 0"),
        (
            {"n_keys": 2, "by_hand": {(0, 2): True}},
            r"column of \(0, 2\): .* 0 to 1, got 2",
        ),
        ({"n_layers": 0}, "n_layers: expected a whole number from 1 to 12, got 0"),
        ({"query_tokens": ["a"]}, "query_tokens: expected 2 to 64 tokens, got 1"),
        ({"key_tokens": ["a"] * 65}, "key_tokens: expected 2 to 64 tokens, got 65"),
    ],
)
def test_start_that_cannot_be_says_why(start, message):
    with pytest.raises(ValueError, match=message):
        MaskBuilder(**start)


def test_positions_beyond_the_labels_show_their_number():
    assert MaskBuilder(MOST).mask().shape == (MOST, MOST)
    assert MaskBuilder(2, MOST).mask().shape == (2, MOST)
    html = MaskBuilder(4, causal=True, query_tokens=["<a>", "b"]).static_html()
    assert re.findall('<th scope="row">(.*?)</th>', html) == ["&lt;a&gt;", "b", "2", "3"]


def test_mask_holds_every_rule_and_then_the_cells():
    widget = MaskBuilder(5, lengths=3, causal=True, radius=1, by_hand={(0, 4): True, (2, 1): False})
    assert widget.mask().int().tolist() == [
        [1, 0, 0, 0, 1],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    each = MaskBuilder(2, 3, lengths=[0, 2], by_hand={(0, 1): True}).mask()
    assert each.int().tolist() == [[0, 1, 0], [1, 1, 0]]


def test_one_length_for_one_query_stays_a_list():
    widget = MaskBuilder(1, 5, lengths=[2])
    assert (widget.padding, widget.lengths) == ("queries", "2")
    assert widget.mask().int().tolist() == [[1, 1, 0, 0, 0]]


def test_static_table_shows_the_mask():
    widget = MaskBuilder(3, causal=True, query_tokens=["<a>", "b", "c"])
    html = widget.static_html()
    assert re.findall('<th scope="col">(.*?)</th>', html) == ["query", "&lt;a&gt;", "b", "c"]
    rows = re.findall('<tr><th scope="row">.*?</tr>', html)
    found = [[cell == "True" for cell in re.findall("<td>(.*?)</td>", row)] for row in rows]
    assert found == causal_mask(3).tolist()


def test_summary_counts_the_pairs():
    widget = MaskBuilder(3, 5, lengths=[0, 2, 5])
    assert repr(widget) == "MaskBuilder: cross-attention, 3 queries, 5 keys, 7 of 15 pairs allowed"

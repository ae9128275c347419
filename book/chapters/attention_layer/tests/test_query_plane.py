"""The query plane's start, what it refuses, and what it leaves for readers without scripts."""

import re

import pytest
import torch

from chapters.attention_layer.query_plane import KEYS, STARTS, VALUES, QueryPlane
from lib.attention import attention_weights


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"query": [1.0]}, "query: expected 2 numbers from -3 to 3, got"),
        ({"query": [1.0, 3.01]}, r"query: expected 2 numbers from -3 to 3, got \[1.0, 3.01\]"),
        ({"query": [1.0, float("nan")]}, r"query: expected 2 numbers .* got \[1.0, nan\]"),
        ({"key": [[1, 1]], "value": [[1, 1]]}, "key: expected 2 to 5 vectors, got 1"),
        ({"key": [[1, 1]] * 6}, "key: expected 2 to 5 vectors, got 6"),
        ({"value": [[1, 1]] * 2}, "value: expected one for each of 3 keys, got 2"),
        ({"key": [[1, 1], [1, 1], [1]]}, "key: expected 5 vectors of 2 numbers"),
        ({"value": [[1, 1], [1, 1], [-4, 1]]}, "value: expected 5 vectors .* from -3 to 3"),
        ({"axes": ["clue", "living"]}, "axes: expected no names, or four, got 2"),
        ({"scaled": 1}, "scaled: expected True or False, got 1"),
        ({"temperature": 0.4}, "temperature: expected one of 0.1, .*, 10.0, got 0.4"),
    ],
)
def test_start_is_one_that_the_controls_can_reach(start, message):
    with pytest.raises(ValueError, match=message):
        QueryPlane(**start)


def test_keys_that_the_reader_can_add_stand_ready():
    widget = QueryPlane([1, 0], [[1, 1], [0, 1]], [[2, 2], [0, 2]])
    assert widget.n_keys == 2
    assert widget.key == [[1.0, 1.0], [0.0, 1.0], *map(list, KEYS[2:])]
    assert widget.value == [[2.0, 2.0], [0.0, 2.0], *map(list, VALUES[2:])]


@pytest.mark.parametrize("n_keys", [2, 3, 5])
@pytest.mark.parametrize(("scaled", "temperature"), [(False, 1.0), (True, 1.0), (True, 0.1)])
def test_static_table_agrees_with_the_library(n_keys, scaled, temperature):
    torch.manual_seed(n_keys)
    query, key, value = (
        (6 * torch.rand(rows, 2, dtype=torch.float64) - 3).round(decimals=2)
        for rows in (1, n_keys, n_keys)
    )
    widget = QueryPlane(
        query[0].tolist(), key.tolist(), value.tolist(), scaled=scaled, temperature=temperature
    )
    divided = query / temperature * (1 if scaled else 2**0.5)  # the library divides by sqrt(2)
    weights = attention_weights(divided, key)
    output = weights @ value
    html = widget.static_html()
    rows = [re.findall("<td>(.*?)</td>", row) for row in html.split("<tbody>")[1].split("</tr>")]
    shown = torch.tensor([[float(row[i]) for i in (1, 3)] for row in rows[:-1]]).double()
    wanted = torch.stack([key @ query[0], weights[0]], dim=1)
    torch.testing.assert_close(shown, wanted, atol=0.00501, rtol=0.0)
    said = re.search("output (.*?), (.*?)<", html).groups()
    torch.testing.assert_close(
        torch.tensor([float(x) for x in said]).double(), output[0], atol=0.00501, rtol=0.0
    )


def test_entries_have_their_names_in_the_static_table():
    html = QueryPlane(axes=["clue", "living", "animal", "equipment"]).static_html()
    assert "vector (clue, living)" in html
    assert "value (animal, equipment)" in html
    assert "(" not in QueryPlane().static_html().split("<thead>")[1].split("</thead>")[0]


def test_starts_are_what_their_names_say():
    scores = {}
    for name, query, keys in STARTS:
        QueryPlane(query, keys, VALUES[: len(keys)])
        scores[name] = torch.tensor(keys) @ torch.tensor(query)
    assert scores["A clear winner"].softmax(0).max() > 0.98
    first, second = scores["A tie"].topk(2).values
    assert first == second
    assert not scores["Right angles"].any()
    keys = torch.tensor(STARTS[3][2])
    nearness = scores["A long key"] / keys.norm(dim=1)
    assert scores["A long key"].argmax() != nearness.argmax()


def test_summary_says_the_start():
    assert repr(QueryPlane([0.5, -2])) == "QueryPlane: a query at (0.5, -2) among 3 keys"

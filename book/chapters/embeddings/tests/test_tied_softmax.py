"""The tied softmax explorer's start, and what it leaves for readers without scripts."""

import re

import pytest
import torch
from torch.nn import functional as F

from chapters.embeddings.tied_softmax import TEMPERATURES, TiedSoftmaxExplorer

VECTORS = {"un": [1.0, 0.5], "deux": [-0.25, 1.5], "trois": [0.0, -1.0]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vectors": {"un": [1.0, 0.5]}}, "vectors: expected 2 to 8 tokens, got 1"),
        ({"vectors": {str(i): [0, 0] for i in range(9)}}, "expected 2 to 8 tokens, got 9"),
        ({"vectors": {"un": [1.0, 0.5], "d": [1.0]}}, "expected 2 rows of 2 numbers"),
        ({"vectors": {"un": [1.0, 0.5], "a=b": [1.0, 0.0]}}, r"without spaces.* got \['a=b'\]"),
        ({"vectors": {"un": [1.0, 3.5], "d": [1.0, 0.0]}}, "numbers from -3 to 3"),
        ({"state": [0.0, -3.5]}, "state_2: expected a number from -3 to 3, got -3.5"),
        ({"state": [0.0, 1.0, 2.0]}, "state: expected 2 numbers, got 3"),
        ({"target": "cinq"}, "target: expected one of un, deux, trois, got 'cinq'"),
        ({"token": "cinq"}, "token: expected one of un, deux, trois, got 'cinq'"),
        ({"temperature": 0}, "temperature: expected one of 0.1, .*, 10.0, got 0"),
        ({"temperature": True}, "temperature: expected .*, got True"),
        ({"smoothing": 0.6}, "smoothing: expected a number from 0 to 0.5, got 0.6"),
        ({"smoothing": -0.1}, "smoothing: expected a number from 0 to 0.5, got -0.1"),
    ],
)
def test_a_start_that_the_controls_cannot_reach_is_refused(changes, message):
    given = {"vectors": VECTORS, "state": [1.0, 0.0], "target": "un"} | changes
    with pytest.raises(ValueError, match=message):
        TiedSoftmaxExplorer(**given)


@pytest.mark.parametrize(("temperature", "smoothing"), [(1.0, 0.0), (0.5, 0.1), (10, 0.5)])
def test_static_table_agrees_with_torch(temperature, smoothing):
    widget = TiedSoftmaxExplorer(
        VECTORS, [1.5, -0.75], "deux", temperature=temperature, smoothing=smoothing
    )
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th>(.*?)</tr>", widget.static_html())
    assert [name for name, _ in rows] == list(VECTORS)
    shown = torch.tensor(
        [[float(x) for x in re.findall(r"<td>([-.\d]+)</td>", c)] for _, c in rows]
    )
    logits = torch.tensor(list(VECTORS.values())) @ torch.tensor([1.5, -0.75])
    wanted = (1 - smoothing) * F.one_hot(torch.tensor(1), 3) + smoothing / 3
    expected = torch.stack([logits, (logits / temperature).softmax(-1), wanted], dim=1)
    torch.testing.assert_close(shown, expected, atol=6e-4, rtol=0.0)


def test_the_sliders_start_at_the_target_unless_told_otherwise():
    assert TiedSoftmaxExplorer(VECTORS, [1.0, 0.0], "trois").token == "trois"
    assert TiedSoftmaxExplorer(VECTORS, [1.0, 0.0], "trois", token="un").token == "un"
    for temperature in TEMPERATURES:
        widget = TiedSoftmaxExplorer(VECTORS, [1.0, 0.0], "un", temperature=temperature)
        assert widget.data()["temperature"] == temperature


def test_summary_says_the_start():
    widget = TiedSoftmaxExplorer(VECTORS, [1.0, 0.0], "trois")
    assert repr(widget) == "TiedSoftmaxExplorer: 3 tokens, target 'trois'"

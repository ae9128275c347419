"""The laboratory "Bottleneck": what it may be set to, and what it shows without scripts."""

import json

import pytest

from engine.bottleneck import COUNTS, LONGEST, STATES, Bottleneck


def test_a_chapter_says_which_models_train():
    alone, both = Bottleneck(), Bottleneck(True, state=8, longest=4, count="digits", seed=7)
    assert alone.summary() == "Bottleneck: one vector, state 16, lists of 2 to 12 digits, seed 0"
    assert both.summary() == (
        "Bottleneck: one vector and attention, state 8, lists of 2 to 4 digits, seed 7"
    )
    data = json.loads(both.data_json())
    assert (data["attention"], data["state"], data["longest"]) == (True, 8, 4)
    assert data["lead"] != json.loads(alone.data_json())["lead"]
    assert "attention" not in both.declared(), "no control changes it"


def test_what_it_may_not_be_is_said():
    for name, value in (("state", 9), ("longest", 5), ("count", "words"), ("seed", -1)):
        with pytest.raises(ValueError, match=f"{name}: expected"):
            Bottleneck(**{name: value})


def test_without_scripts_stands_what_a_reader_can_set():
    html = Bottleneck(True, state=32).static_html()
    options = ", ".join(map(str, STATES))
    assert f'<th scope="row">State dimension</th><td>32</td><td>{options}</td>' in html
    assert ", ".join(map(str, LONGEST)) in html
    assert ", ".join(COUNTS.values()) in html
    assert html.count("<tr>") == 5

"""The bug hunt: what it keeps of findings and symptoms, and what it refuses."""

import math
import re

import pytest

from chapters.mistakes.bug_hunt import CAUGHT, HELD, STOPS, BugHunt
from chapters.mistakes.catalogue import find_mistake
from chapters.mistakes.tests.samples import hunted
from checks.framework import Finding


def test_findings_are_packed_with_each_message_once():
    widget = BugHunt(*hunted())
    rows = {entry["name"]: row for entry, row in zip(widget.mistakes, widget.findings, strict=True)}
    assert [held for held, *_ in rows["NoTargetMask"]] == [CAUGHT, HELD, CAUGHT]
    assert [held for held, *_ in rows["MinusBillion"]] == [HELD] * 3
    assert [row[:2] for row in rows["UsedBeforeAssigned"]] == [[STOPS, None]] * 3
    assert rows["NoTargetMask"][0][1] == 0.31
    assert len(set(widget.messages)) == len(widget.messages) == 6
    shared = {row[1][2] for row in (rows["NoTargetMask"], rows["MinusBillion"])}
    assert [widget.messages[k] for k in shared] == ["no logit moved"]


def test_an_infinite_number_is_left_out():
    matrix, cases, right = hunted()
    matrix["NoTargetMask"]["future"] = Finding("future", False, math.inf, "not finite")
    assert BugHunt(matrix, cases, right).findings[0][0][:2] == [CAUGHT, None]


def test_each_mistake_comes_with_its_code_and_explanation():
    widget = BugHunt(*hunted())
    for entry in widget.mistakes:
        mistake = find_mistake(entry["name"])
        assert entry["code"] == mistake.code()
        assert (entry["title"], entry["why"]) == (mistake.title, mistake.why)
    assert {entry["name"]: entry["question"] for entry in widget.properties}["future"].endswith("?")


def test_summary_and_table_without_scripts():
    widget = BugHunt(*hunted())
    assert repr(widget) == "BugHunt: 2 unnamed models; 3 mistakes, 3 properties"
    rows = re.findall(r"<tr>.*?</tr>", widget.static_html())
    assert len(rows) == 4
    assert rows[1].endswith("<td>future, copied</td></tr>")
    assert rows[2].endswith("<td>none of them</td></tr>")
    assert BugHunt(*hunted()).data_json() == widget.data_json()


def test_bad_states_are_refused():
    with pytest.raises(ValueError, match="mode: expected one of hunt, matrix"):
        BugHunt(*hunted(), mode="table")
    with pytest.raises(ValueError, match="case: expected a whole number from 0 to 1"):
        BugHunt(*hunted(), case=2)

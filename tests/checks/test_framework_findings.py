"""Findings: how they read and insist, what an error becomes, and the gap between two outputs."""

import math

import pytest
import torch

from checks.framework import CheckFailed, Finding, Findings, Property, asks, gap


def test_findings_read_as_lines_and_insist():
    right, wrong = Finding("a", True, 1e-7, "fine"), Finding("b", False, 0.314159, "not fine")
    stopped = Finding("c", False, None, "it stops")
    found = Findings([right, wrong, stopped])
    lines = repr(found).splitlines()
    assert [line.split()[:2] for line in lines] == [["ok", "a"], ["FAIL", "b"], ["FAIL", "c"]]
    assert "< 1e-5" in lines[0]
    assert "0.31" in lines[1]
    assert "stops" in lines[2]
    assert found.caught == ["b", "c"]
    with pytest.raises(CheckFailed, match=r"(?s)2 of 3 properties fail.*not fine.*it stops"):
        found.insist()
    kept = Findings([right])
    assert kept.insist() is kept


def test_an_error_is_a_finding_and_keeps_the_random_numbers():
    @asks("breaks", "Does it break?")
    def breaks(subject):
        torch.manual_seed(5)
        raise RuntimeError("x" * 300)

    assert isinstance(breaks, Property)
    torch.manual_seed(1)
    found = breaks(None)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1))
    assert (found.held, found.number) == (False, None)
    assert found.message.startswith("it stops: RuntimeError: xxx")
    assert len(found.message) < 160


def test_gap_is_relative_above_one_and_infinite_where_it_must_be():
    one = torch.tensor([1.0, 200.0])
    assert gap(one, one) == 0
    assert gap(one, one + torch.tensor([0.0, 2.0])) == pytest.approx(2 / 202)
    assert gap(one / 1000, one / 1000 + 0.5) == pytest.approx(0.5)
    assert math.isinf(gap(one, one[:1]))
    assert math.isinf(gap(one, torch.tensor([math.nan, 0.0])))

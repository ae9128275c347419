"""The laboratory "Take a part out": what it may be set to, and what it shows without scripts."""

import json

import pytest

from chapters.transformer.take_out import PARTS, TakeOut
from engine.without import LEFT_OUT, SETTINGS


def test_a_chapter_names_the_parts_that_are_out_at_the_start():
    widget = TakeOut("positions", "norms", seed=7)
    data = json.loads(widget.data_json())
    assert [name for name in PARTS if not data[name]] == ["positions", "norms"]
    assert [name for name, *_ in data["parts"]] == list(PARTS)
    assert widget.summary() == "TakeOut: without positions, the norms, seed 7"
    assert TakeOut().summary() == "TakeOut: without nothing, seed 0"
    html = widget.static_html()
    assert html.count("<tr>") == 1 + len(PARTS)
    assert '<th scope="row">all heads but one</th><td>one head of the whole d_model</td>' in html


def test_what_it_may_not_be_is_said():
    with pytest.raises(ValueError, match=r"without: expected names out of cross_.*got 'heds'"):
        TakeOut("heds")
    with pytest.raises(ValueError, match=r"seed: expected a whole number from 0 to 9999, got -1"):
        TakeOut(seed=-1)
    widget = TakeOut()
    with pytest.raises(ValueError, match=r"norms: expected True or False, got 0"):
        widget.norms = 0


def test_every_part_has_its_switch_and_torch_leaves_out_the_same():
    widget = TakeOut()
    switches = [name for name, found in widget.declared().items() if found == [False, True]]
    assert sorted(switches) == sorted(PARTS) == sorted([*LEFT_OUT, *SETTINGS])

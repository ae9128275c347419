"""The complexity explorer's start, and what it leaves for readers without scripts."""

import re

import pytest

from chapters.complexity.complexity_explorer import (
    DIMENSIONS,
    LAYERS,
    LENGTHS,
    MEASURES,
    RADII,
    ComplexityExplorer,
)
from tests.helpers import unchecked


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"n": 100}, "n: expected one of 8, 12, 16, .*, 65536, got 100"),
        ({"n": True}, "n: expected one of 8, .*, got True"),
        ({"d": 500}, "d: expected one of 16, 24, .*, 4096, got 500"),
        ({"k": 1}, "k: expected one of 2, 3, .*, 15, got 1"),
        ({"radius": 0}, "radius: expected one of 1, 2, .*, 1024, got 0"),
        ({"dilated": 1}, "dilated: expected True or False, got 1"),
        ({"projections": None}, "projections: expected True or False, got None"),
        ({"measure": "time"}, "measure: expected one of work, memory, path, got 'time'"),
        ({"pick": "lstm"}, "pick: expected one of none, attention, .*, got 'lstm'"),
    ],
)
def test_start_is_one_that_the_controls_can_reach(start, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        ComplexityExplorer(**start)


def test_every_choice_will_do():
    assert [ComplexityExplorer(n=n).n for n in LENGTHS] == list(LENGTHS)
    assert [ComplexityExplorer(d=d).d for d in DIMENSIONS] == list(DIMENSIONS)
    assert [ComplexityExplorer(radius=r).radius for r in RADII] == list(RADII)
    assert [ComplexityExplorer(measure=m).measure for m in MEASURES] == list(MEASURES)
    assert [ComplexityExplorer(pick=p).pick for p in LAYERS] == list(LAYERS)


def test_static_table_holds_the_costs():
    widget = ComplexityExplorer(96, 64, k=5, radius=4, dilated=True, projections=True)
    html = widget.static_html()
    assert "n = 96 vectors of dimension d = 64, projections counted, convolution dilated" in html
    cells = [int(text.replace(",", "")) for text in re.findall(r"<td>([\d,]+)</td>", html)]
    wanted = [(c.flops, c.memory, c.sequential, c.path) for c in widget.costs().values()]
    assert cells == [number for row in wanted for number in row]
    assert list(widget.costs()) == list(LAYERS)


def test_summary_says_the_start():
    assert repr(ComplexityExplorer(96, 64, k=5, radius=4, measure="path")) == (
        "ComplexityExplorer: n 96, d 64, k 5, r 9, path"
    )

"""The position explorer's start and its text for readers without scripts."""

import pytest

from chapters.positions.position_explorer import PositionExplorer


def test_wavelengths_without_scripts():
    text = PositionExplorer("sinusoidal", 8, base=100, position=3, pair=0).static_html()
    assert "<td>6.283</td><td>0.1411</td><td>-0.99</td>" in text  # pair 0: 2 pi, sin 3, cos 3
    assert "<td>198.7</td>" in text  # pair 3: 2 pi 100^(6/8)


def test_summary_names_what_is_shown():
    widget = PositionExplorer("rotary", 16, length=19, base=100, pair=0)
    assert repr(widget) == "PositionExplorer: rotary, d_model 16, 19 positions, base 100"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"scheme": "rope"}, "scheme"),
        ({"d_model": 50}, "d_model"),
        ({"base": 9}, "base"),
        ({"length": 1}, "length"),
        ({"length": 65}, "length"),
        ({"position": 64}, "position"),
        ({"shift": -1}, "shift"),
        ({"pair": 32}, "pair"),
        ({"head": 0}, "head"),
        ({"head": True}, "head"),
    ],
)
def test_bad_start_is_refused(arguments, name):
    with pytest.raises(ValueError, match=f"{name}: expected"):
        PositionExplorer(**arguments)

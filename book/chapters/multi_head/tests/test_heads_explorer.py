"""The heads explorer's start and its text for readers without scripts."""

import pytest

from chapters.multi_head.heads_explorer import HeadsExplorer


def test_shapes_without_scripts():
    text = HeadsExplorer(48, 3, time=11).static_html()
    for shape in ("11 x 48", "3 x 11 x 16", "3 x 11 x 11"):
        assert shape in text


def test_own_width_of_a_head():
    assert "11 x 24" in HeadsExplorer(48, 3, d_k=8, time=11).static_html()


def test_impossible_start_is_explained():
    assert "48 / 5 is not whole" in HeadsExplorer(48, 5).static_html()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"d_model": 50}, "d_model"),
        ({"n_heads": 0}, "n_heads"),
        ({"n_heads": 17}, "n_heads"),
        ({"d_k": 5}, "d_k"),
        ({"time": 65}, "time"),
        ({"time": True}, "time"),
    ],
)
def test_bad_start_is_refused(arguments, name):
    with pytest.raises(ValueError, match=f"{name}: expected"):
        HeadsExplorer(**arguments)

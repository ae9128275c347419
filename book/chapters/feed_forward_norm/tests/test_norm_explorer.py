"""The norm explorer's start and its text for readers without scripts."""

import math

import pytest

from chapters.feed_forward_norm.norm_explorer import NormExplorer, typical_sizes
from tests.helpers import unchecked


def test_typical_sizes_by_hand():
    """At scale 1 a sub-layer doubles the mean square beside a residual path, and else keeps it."""
    assert typical_sizes(6, "none", True, 1.0) == pytest.approx((8.0, 8.0))
    assert typical_sizes(6, "none", False, 1.0) == (1.0, 1.0)
    assert typical_sizes(3, "none", False, 0.5) == pytest.approx((1 / 64, 1 / 64))
    assert typical_sizes(8, "pre", True, 1.0) == pytest.approx((3.0, 3.0))
    assert typical_sizes(8, "post", True, 2.0) == pytest.approx((1.0, 1.0))
    assert typical_sizes(5, "pre", False, 0.5)[0] == pytest.approx(1 / 4)
    assert typical_sizes(2, "pre", True, 0.5)[0] == pytest.approx(math.sqrt(1 + 2 / 16))


def test_table_without_scripts():
    text = NormExplorer(3, scale=0.5).static_html()
    assert "stack of 3 feed-forward sub-layers, scale 0.5" in text
    for row in ("none, with residual", "post, without residual", "0.016"):
        assert row in text
    assert repr(NormExplorer(3, norm="pre", residual=True)) == (
        "NormExplorer: 3 layers, pre-norm, with residual connections"
    )


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"n_layers": 0}, "n_layers"),
        ({"n_layers": 25}, "n_layers"),
        ({"n_layers": True}, "n_layers"),
        ({"norm": "before"}, "norm"),
        ({"residual": 1}, "residual"),
        ({"scale": 0.8}, "scale"),
        ({"scale": True}, "scale"),
        ({"d_model": 512}, "d_model"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_start_is_refused(arguments, name):
    with unchecked(), pytest.raises(ValueError, match=f"{name}: expected"):
        NormExplorer(**arguments)

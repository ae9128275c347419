"""The softmax and scale explorer's start, and what it leaves for readers without scripts."""

import math
import re
from statistics import NormalDist

import pytest
import torch

from chapters.attention_layer.softmax_scale import TEMPERATURES, WIDTHS, SoftmaxScaleExplorer


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"d_k": 48}, "d_k: expected one of 1, 2, 4, 8, 16, .*, 1024, got 48"),
        ({"d_k": True}, "d_k: expected one of 1, .*, got True"),
        ({"temperature": 0}, "temperature: expected one of 0.05, .*, 10.0, got 0"),
        ({"n_keys": 1}, "n_keys: expected a whole number from 2 to 64, got 1"),
        ({"n_keys": 65}, "n_keys: expected a whole number from 2 to 64, got 65"),
        ({"n_keys": True}, "n_keys: expected a whole number from 2 to 64, got True"),
        ({"seed": -1}, "seed: expected a whole number from 0 to 9999, got -1"),
        ({"curve": "norm"}, "curve: expected one of sensitivity, entropy, got 'norm'"),
    ],
)
def test_start_is_one_that_the_controls_can_reach(start, message):
    with pytest.raises(ValueError, match=message):
        SoftmaxScaleExplorer(**start)


def test_every_width_and_temperature_will_do():
    for width in WIDTHS:
        assert SoftmaxScaleExplorer(width).data()["d_k"] == width
    for temperature in TEMPERATURES:
        assert SoftmaxScaleExplorer(temperature=temperature).data()["temperature"] == temperature
    for name in SoftmaxScaleExplorer.curve.values:
        assert SoftmaxScaleExplorer(curve=name).curve == name


@pytest.mark.parametrize(("n_keys", "temperature"), [(8, 1), (3, 0.5), (64, 2)])
def test_static_table_agrees_with_torch(n_keys, temperature):
    widget = SoftmaxScaleExplorer(n_keys=n_keys, temperature=temperature)
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th>(.*?)</tr>", widget.static_html())
    assert [name for name, _ in rows][1:] == [f"d_k = {d}, not divided" for d in WIDTHS[::2]]
    places = [NormalDist().inv_cdf((i + 0.5) / n_keys) for i in range(n_keys)]
    deviations = [1, *(math.sqrt(d) for d in WIDTHS[::2])]
    for (_, cells), deviation in zip(rows, deviations, strict=True):
        scores = torch.tensor(places, dtype=torch.float64) * deviation / temperature
        weights = scores.softmax(-1)
        jacobian = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), scores)
        assert re.findall("<td>(.*?)</td>", cells) == [
            f"{deviation:g}",
            f"{100 * weights.max():.0f} %",
            f"{torch.special.entr(weights).sum():.2f}",
            f"{jacobian.trace():.3f}",
        ]


def test_summary_says_the_start():
    widget = SoftmaxScaleExplorer(256, scaled=True, n_keys=5)
    assert repr(widget) == "SoftmaxScaleExplorer: 5 keys, d_k = 256, with the scale"

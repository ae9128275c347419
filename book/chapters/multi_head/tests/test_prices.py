"""Two offers from sixteen, which one head cannot name: recorded runs, and why it cannot."""

import itertools
import math

import pytest
import torch

from chapters.multi_head.two_answers import (
    Setting,
    TwoAnswers,
    by_name,
    extremes,
    measured,
    trained,
    twin_prices,
)
from lib.notebook import seed_everything
from measure.records import read_results

RUNS = by_name(read_results("head_cost"))


def test_one_head_names_one_shop_and_guesses_the_other():
    for name in ("extremes: 1 head, network", "extremes: 1 head, network, wide"):
        assert min(RUNS[name]["better"]) > 0.99
        assert max(RUNS[name]["worse"]) < 0.12


def test_more_heads_or_the_square_of_the_price_help():
    two, square = RUNS["extremes: 2 heads, linear"], RUNS["extremes: 1 head, network, square"]
    assert two["parameters"] < 0.5 * RUNS["extremes: 1 head, network"]["parameters"]
    assert sum(both > 0.95 for both in two["both"]) == 4
    assert sum(both > 0.5 for both in square["both"]) == 2
    assert min(RUNS["extremes: 4 heads, linear"]["both"]) > 0.95


@pytest.mark.slow
def test_a_recorded_run_can_be_made_again_and_leans_steeply_to_one_end():
    setting, recorded = Setting("extremes", 1, True), RUNS["extremes: 1 head, network"]
    model = trained(setting, seed=0)
    live = measured(model, setting)
    assert live["both"] == pytest.approx(recorded["both"][0], abs=0.05)
    assert max(live["each"]) == pytest.approx(recorded["better"][0], abs=0.05)
    assert live["parameters"] == recorded["parameters"]
    assert abs(model.price_slope()) > 20


@pytest.mark.parametrize(("seed", "d_head"), [*itertools.product(range(3), (None, 128))])
def test_whole_models_answer_the_same_to_lists_with_different_cheapest_shops(seed, d_head):
    some = torch.tensor([-1.0, -0.2, 0.9], dtype=torch.float64)
    digits = torch.tensor([[3] * 3 + [7] * 3])  # the shops: three offers of 3 and three of 7
    seed_everything(seed)
    model = TwoAnswers(Setting("extremes", 1, True, d_head)).double()
    slope = model.price_slope()
    one = math.copysign(1, slope) * some
    two = math.copysign(1, slope) * twin_prices(some, abs(slope), lowest=-0.95)
    lists = [torch.cat(pair)[None] for pair in ((one, two), (two, one))]
    end = torch.argmin if slope > 0 else torch.argmax
    assert [digits[0, end(each)].item() for each in lists] == [3, 7]
    same, swapped = (model(digits, each) for each in lists)
    torch.testing.assert_close(same, swapped, rtol=0, atol=1e-12)


def test_evenly_spaced_prices_leave_a_way_out_that_training_does_not_find():
    """Each weight is twice the one below: as binary numbers, the shops' weights name both ends."""
    digits, numbers, wanted = extremes(500)
    weights = (7.5 * math.log(2) * numbers.double()).softmax(dim=1)
    of_shops = torch.zeros(500, 10, dtype=torch.float64).scatter_add(1, digits, weights)
    binary = (of_shops * (2**16 - 1)).round().long()  # one binary digit for each offer
    ends = torch.stack([binary.argmax(dim=1), (binary % 2).argmax(dim=1)], dim=1)
    assert torch.equal(ends, wanted[:, 0])

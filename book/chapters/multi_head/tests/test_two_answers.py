"""The tasks ask for what they say, the models read it, and twin prices are twins."""

import torch

from chapters.multi_head.two_answers import (
    DIGITS,
    ITEMS,
    Setting,
    TwoAnswers,
    by_name,
    extremes,
    neighbours,
    twin_prices,
)


def test_extremes_are_the_digits_of_the_largest_and_the_smallest_number():
    digits, numbers, wanted = extremes(50)
    assert wanted.shape == (50, 1, 2)
    for row, prices, (high, low) in zip(digits, numbers, wanted[:, 0], strict=True):
        order = sorted(zip(prices.tolist(), row.tolist(), strict=True))
        assert (order[-1][1], order[0][1]) == (high, low)
        assert (order[0][0], order[-1][0]) == (-1, 1)
        assert len(set(prices.tolist())) == ITEMS


def test_neighbours_stand_beside_each_position():
    digits, _, wanted = neighbours(2)
    assert wanted[0, 5].tolist() == [digits[0, 4], digits[0, 6]]
    assert wanted[1, 0].tolist() == [digits[1, -1], digits[1, 1]]


def test_a_model_gives_two_answers_whatever_its_heads():
    for task, make, queries in (("extremes", extremes, 1), ("neighbours", neighbours, 12)):
        for setting in (Setting(task, 2, False), Setting(task, 1, True, d_head=48, square=True)):
            *inputs, wanted = make(3)
            logits = TwoAnswers(setting)(*inputs)
            assert logits.shape == (3, queries, 2, DIGITS)
            assert wanted.shape == (3, queries, 2)


def test_twin_prices_have_the_same_two_sums_and_another_minimum():
    prices = torch.tensor([-1.0, -0.2, 0.9]).double()
    for beta in (0.3, 1.0, 2.0):
        twin = twin_prices(prices, beta, lowest=-0.95)
        assert twin.min() == -0.95
        for power in (0, 1):
            sums = [(s**power * (beta * s).exp()).sum() for s in (prices, twin)]
            torch.testing.assert_close(*sums, rtol=1e-12, atol=0)


def test_recorded_rows_are_found_by_name():
    settings = [Setting("extremes", 1, True, d_head=128), Setting("neighbours", 2, False)]
    rows = [setting._asdict() | {"both": [0.5]} for setting in settings]
    found = by_name({"settings": rows})
    assert list(found) == ["extremes: 1 head, network, wide", "neighbours: 2 heads, linear"]
    assert found["neighbours: 2 heads, linear"] is rows[1]

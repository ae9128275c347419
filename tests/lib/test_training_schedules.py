"""Schedules against the formula, at the places where they turn, and their errors."""

import pytest

from lib.training import cosine, paper_schedule, warm_up


def test_cosine_rises_then_falls():
    factor = cosine(steps=103, warmup=3)
    assert [round(factor(i), 9) for i in range(4)] == [round(1 / 3, 9), round(2 / 3, 9), 1, 1]
    assert factor(53) == pytest.approx(0.5)
    assert 0 < factor(102) < 0.001
    assert factor(103) == factor(500) == 0
    values = [factor(i) for i in range(3, 103)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("steps", "warmup"), [(10, 10), (10, -1), (0, 0)])
def test_cosine_needs_room(steps, warmup):
    with pytest.raises(ValueError, match=r"expected 0 <= warmup < steps, got warmup"):
        cosine(steps, warmup)


def test_paper_schedule_is_the_formula_counted_from_one():
    rate = paper_schedule(512)
    for n in (1, 7, 3999, 4000, 4001, 100_000):
        assert rate(n - 1) == pytest.approx(512**-0.5 * min(n**-0.5, n * 4000**-1.5))


def test_paper_schedule_is_highest_at_the_end_of_the_warm_up():
    rate = paper_schedule(64, warmup=13)
    assert max(range(200), key=rate) == 12
    assert rate(12) == pytest.approx((64 * 13) ** -0.5)
    assert paper_schedule(512)(3999) == pytest.approx(6.99e-4, rel=1e-3)


@pytest.mark.parametrize("bad", [{"d_model": 0}, {"warmup": 0}])
def test_paper_schedule_needs_positive_numbers(bad):
    name = next(iter(bad))
    with pytest.raises(ValueError, match=rf"expected {name} of at least 1, got 0; the paper"):
        paper_schedule(**{"d_model": 5, "warmup": 7} | bad)


def test_warm_up_rises_and_stays():
    assert [warm_up(4)(i) for i in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert warm_up(0)(0) == 1.0


def test_a_negative_warm_up_is_none():
    assert [warm_up(-1)(step) for step in (0, 1, 100)] == [1.0, 1.0, 1.0]

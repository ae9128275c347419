"""Checks case by case: a mistake is told only if it explains every answer."""

import pytest
import torch

from checks.cases import require_cases
from checks.framework import CheckFailed

CASES = [(2, 3), (2, 2), (5, 1)]
MISTAKES = {"a product was asked for": lambda a, b: a + b, "b is left out": lambda a, b: a}


def product(a, b):
    return a * b


def told(answer, right=product, cases=CASES, **named):
    with pytest.raises(CheckFailed) as failed:
        require_cases(answer, right, cases, MISTAKES, **named)
    return str(failed.value)


def test_right_numbers_are_given_back_and_a_tensor_of_one_is_a_number():
    assert require_cases(product, product, CASES, MISTAKES) == [6, 4, 5]
    assert require_cases(lambda a, b: torch.tensor([a * b]), product, CASES, {}) == [6, 4, 5]


def test_a_mistake_that_explains_all_cases_is_told():
    assert told(lambda a, b: a + b) == "a=2, b=3: expected 6, got 5; a product was asked for"
    assert told(lambda a, b: a) == "a=2, b=3: expected 6, got 2; b is left out"


def test_a_mistake_that_explains_some_cases_is_not_told():
    assert told(lambda a, b: a + b if a == 2 else 5) == "a=2, b=3: expected 6, got 5"


def test_other_types_and_shapes_are_told():
    assert told(lambda a, b: float(a * b)) == "expected a whole number, got 6.0"
    assert told(lambda a, b: True) == "expected a whole number, got True"

    def row(a, b):
        return torch.tensor([a / b, a * b])

    cases = [(1, 3)]
    assert "got (1,)" in told(lambda a, b: row(a, b)[:1], row, cases)
    assert told(lambda a, b: row(b, a), row, cases) == (
        "a=1, b=3: expected [0.3333, 3], got [3, 3]"
    )
    nothing = torch.full((2,), torch.nan)
    with pytest.raises(CheckFailed, match=r"got \[nan, nan\]; divided by 0"):
        require_cases(lambda *_: nothing, row, cases, {"divided by 0": lambda *_: nothing})

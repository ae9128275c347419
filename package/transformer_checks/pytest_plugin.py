"""Fixtures for pytest, which it finds by itself: `check_model` and `check_attention_layer`.

Each is the function of that name, and fails the test with all findings that do not hold.
"""

from collections.abc import Callable
from functools import wraps

import pytest

from transformer_checks import properties
from transformer_checks.framework import Findings


def _insisting(check: Callable[..., Findings]) -> Callable[..., Findings]:
    @wraps(check)
    def insist(*arguments, **options) -> Findings:
        __tracebackhide__ = True
        return check(*arguments, **options).insist()

    return insist


@pytest.fixture(scope="session")
def check_model() -> Callable[..., Findings]:
    """Ask each property of a model; the test fails with those that do not hold."""
    return _insisting(properties.check_model)


@pytest.fixture(scope="session")
def check_attention_layer() -> Callable[..., Findings]:
    """Ask each property of an attention layer; the test fails with those that do not hold."""
    return _insisting(properties.check_attention_layer)

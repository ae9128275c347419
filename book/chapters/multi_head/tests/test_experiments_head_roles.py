"""Which tokens of a source belong to which of its items."""

import importlib.util

import pytest

from tests.paths import ROOT


@pytest.fixture(scope="module")
def head_roles():
    spec = importlib.util.spec_from_file_location("head_roles", ROOT / "experiments/head_roles.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "items"),
    [
        ("six days", "00"),
        ("six days and two euros", "00-11"),
        ("six days , two euros , and ten miles", "00-11--22"),
        ("thursday , may 3 , 2 0 0 7 and ten miles", "000000000-11"),
        ("two euros , tuesday , may 1 6 , 2 0 2 2 , and in ten years", "00-1111111111--222"),
    ],
)
def test_separators_are_told_from_the_commas_of_a_date(head_roles, source, items):
    found = head_roles.items_of(source.split())
    assert "".join("-" if item is None else str(item) for item in found) == items

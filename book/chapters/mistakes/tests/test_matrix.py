"""The table of chapter 15 with other random numbers, against the record of three seeds."""

import pytest
import torch

from chapters.mistakes.experiments.mistakes_matrix import conclude, other_numbers, smallest_cover
from chapters.mistakes.layer_properties import normal
from measure.records import read_results


def test_record_bears_what_the_chapter_says():
    record = read_results("mistakes_matrix")
    assert record["seeds"] == [0, 1, 2]
    assert len(record["by_seed"]) == 3
    conclude(record)


def test_other_numbers_are_others_and_come_again():
    def drawn():
        torch.manual_seed(0)
        return torch.cat((torch.rand(2), normal(2)))

    usual = drawn()
    with other_numbers(0):
        assert drawn().equal(usual)
    with other_numbers(1):
        first = drawn()
        assert drawn().equal(first)
    assert (first != usual).all()
    assert drawn().equal(usual)


@pytest.mark.parametrize(
    ("allowed", "covers"),
    [(["a", "b", "c"], [["a", "b"], ["a", "c"]]), (["b", "c"], [["b"], ["c"]]), (["d"], [[]])],
)
def test_smallest_covers(allowed, covers):
    assert smallest_cover({"x": ["a"], "y": ["b", "c"]}, allowed) == covers

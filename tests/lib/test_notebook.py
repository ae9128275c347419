"""The helpers that every chapter uses: shown sources, comparisons, seeds."""

import random

import numpy as np
import pytest
import torch
from torch import nn

from lib.layers import LayerNorm
from lib.notebook import assert_same, best_device, seed_everything, show_source


def double(x):
    return 2 * x


class Doubler:
    def twice(self, x):
        return 2 * x


def test_source_is_shown_as_text_and_as_code():
    shown = show_source(double)
    assert repr(shown) == "def double(x):\n    return 2 * x"
    assert shown._repr_markdown_().startswith("```python\ndef double")
    assert repr(show_source(LayerNorm)).startswith("class LayerNorm")
    assert repr(show_source(Doubler.twice)) == "def twice(self, x):\n    return 2 * x"  # no indent


def test_source_of_a_builtin_is_an_error():
    with pytest.raises(ValueError, match="expected a function or class"):
        show_source(len)


def test_seed_repeats_every_generator():
    def draw():
        return random.random(), np.random.rand(), torch.rand(1).item()  # noqa: NPY002

    seed_everything(7)
    first = draw()
    assert draw() != first
    seed_everything(7)
    assert draw() == first


def test_device_is_where_torch_can_compute():
    assert torch.ones(1, device=best_device()).item() == 1


def test_equal_functions_are_the_same():
    said = assert_same(double, lambda x: x + x, torch.randn(3, 5))
    assert said == "same values (3, 5) and 1 gradients, within 1e-10"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda x: 2 * x + 1e-6, "values: largest difference 1e-06"),
        (lambda x: 2 * x.detach(), "gradient 0 reaches only one"),
        (lambda x: 2 * x[:1], "shapes differ"),
        (lambda x: 2 * x / 0, "values: largest difference inf"),
        (lambda x: 2 * x * torch.nan, "values: largest difference nan"),
        (lambda x: (2 * x).detach() + 3 * x - 3 * x.detach(), "gradient 0: largest difference"),
    ],
)
def test_what_differs_is_named(other, message):
    with pytest.raises(AssertionError, match=message):
        assert_same(double, other, torch.randn(3, 5))


def test_parameters_are_compared():
    one, other = nn.Linear(3, 2).double(), nn.Linear(3, 2).double()
    other.load_state_dict(one.state_dict())
    pairs = list(zip(one.parameters(), other.parameters(), strict=True))
    x = torch.randn(5, 3)
    assert "3 gradients" in assert_same(one, other, x, parameters=pairs)
    with pytest.raises(AssertionError, match="gradient"):
        assert_same(one, lambda x: other(x).detach() + x.sum() * 0, x, parameters=pairs)


def test_masks_pass_unchanged():
    mask = torch.tensor([True, False])

    def masked(x, mask):
        return x.masked_fill(~mask, 0.0)

    assert assert_same(masked, masked, torch.randn(5, 2), mask)
    with pytest.raises(AssertionError, match="values: largest difference 0, allowed nan"):
        assert_same(masked, masked, torch.randn(5, 2), mask, atol=float("nan"))


def test_the_gpu_is_taken_where_torch_sees_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert best_device() == torch.device("cuda")


def test_an_input_that_neither_function_reads_hides_no_other():
    def other(x, y):  # the same value, three times the gradient
        return 2 * y.detach() + 6 * (y - y.detach())

    with pytest.raises(AssertionError, match="gradient 1: largest difference"):
        assert_same(lambda x, y: 2 * y, other, torch.randn(3), torch.randn(5))

"""The instruments of chapter 13 on things whose measure is known."""

import time

import pytest
import torch

from lib.attention import attention_weights, scaled_dot_product_attention
from lib.masks import causal_mask
from measure.observed import (
    count_elementwise,
    count_flops,
    fastest_seconds,
    fit_power,
    longest_chain,
    path_length,
    peak_bytes,
    reach,
)


def test_flops_of_a_product():
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    assert count_flops(torch.matmul, a, b) == 2 * 3 * 5 * 7


def test_elementwise_operations_are_counted_and_copies_and_products_are_not():
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    assert count_elementwise(torch.matmul, a, b) == 0
    assert count_elementwise(lambda x: (2 * x).exp(), a) == 2 * 3 * 5
    assert count_elementwise(lambda x: x.expand(9, 3, 5)[:, 0].clone() if len(x) else x, a) <= 9 * 5
    assert count_elementwise(lambda x: torch.cat((x, x.mT.reshape(3, 5)))[2:], a) == 0
    assert count_elementwise(lambda x: (x[:, None] * x).sum(-1), a) == 3 * 3 * 5
    assert count_elementwise(lambda n: torch.arange(n) * 2, 9) == 0, "no floating-point numbers"


def test_seconds_tell_a_long_function_from_a_short_one():
    calls = []

    def short() -> None:
        calls.append("short")

    def long() -> None:
        calls.append("long")
        time.sleep(0.02)

    taken = fastest_seconds({"short": short, "long": long}, repeats=3)
    assert calls == ["short", "long"] * 4, "in turn, and once to warm up"
    assert taken["long"] >= 0.02 > taken["short"]


def test_clock_can_be_that_of_the_process():
    taken = fastest_seconds({"idle": lambda: time.sleep(0.05)}, 3, clock=time.process_time)
    assert taken["idle"] < 0.04


def test_chain_is_the_longest_way_and_no_sum():
    x = torch.randn(3, 3, requires_grad=True)
    assert longest_chain(x + 1) == 0
    assert longest_chain(x @ x) == 1
    assert longest_chain((x @ x) + (x @ x).tanh()) == 1, "side by side"
    assert longest_chain((x @ x) @ (x @ x @ x)) == 3
    y = x
    for _ in range(2000):  # deeper than Python may call, and 2^2000 ways
        y = (y @ x) + y
    assert longest_chain(y) == 2000
    with pytest.raises(ValueError, match="autograd has recorded"):
        longest_chain(torch.zeros(3))


def test_power_law_is_found_with_its_bounds():
    x = [10, 20, 40, 80, 160]
    exact = fit_power(x, [3 * v**1.5 for v in x])
    assert exact.exponent == pytest.approx(1.5)
    assert exact.high - exact.low < 1e-6
    noisy = fit_power(x, [v**2 * f for v, f in zip(x, (1.1, 0.9, 1.1, 0.9, 1.1), strict=True)])
    assert noisy.low < 2 < noisy.high
    assert 0.05 < noisy.high - noisy.low < 1


def test_bounds_hold_the_truth_about_95_times_in_100():
    generator = torch.Generator().manual_seed(0)
    x = [2.0**i for i in range(3, 10)]
    held = 0
    for _ in range(200):
        noise = (0.1 * torch.randn(len(x), generator=generator)).exp().tolist()
        fit = fit_power(x, [v**1.3 * f for v, f in zip(x, noise, strict=True)])
        held += fit.low < 1.3 < fit.high
    assert 180 <= held <= 199


def test_peak_counts_what_is_alive_at_once():
    size = 64 * 64 * 4
    x = torch.randn(64, 64)
    assert peak_bytes(lambda x: x @ x, x) == size
    assert peak_bytes(lambda x: ((x @ x) @ x) @ x, x) == 2 * size, "the first product was freed"

    def all_kept(x: torch.Tensor) -> list[torch.Tensor]:
        return [x @ x for _ in range(5)]

    assert peak_bytes(all_kept, x) == 5 * size
    assert peak_bytes(lambda x: x[1:].T, x) == 0, "a view holds nothing of its own"


def test_peak_of_attention_with_and_without_the_weights():
    n, d, float32 = 512, 16, 4
    x = torch.randn(1, 1, n, d)  # the fused kernel wants four axes
    plain = peak_bytes(lambda x: attention_weights(x, x) @ x, x)
    fused = peak_bytes(lambda x: scaled_dot_product_attention(x, x, x), x)
    assert plain >= 2 * n * n * float32
    assert fused < 4 * n * d * float32


def test_reach_is_the_mask_that_made_it():
    n, d = 11, 3
    mask = causal_mask(n)
    seen = reach(lambda x: scaled_dot_product_attention(x, x, x, mask), n, d)
    assert torch.equal(seen, mask)


def test_path_that_never_arrives_ends_with_an_error():
    with pytest.raises(ValueError, match="arrive within 3 layers"):
        path_length(lambda layers: lambda x: x * 1.0, 5, 2, at_most=3)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [([1, 2], [1, 2], "three points"), ([1, 2, 3], [1, 0, 3], "numbers above 0")],
)
def test_points_that_cannot_be_fitted(x, y, message):
    with pytest.raises(ValueError, match=message):
        fit_power(x, y)


def test_no_repeat_is_refused():
    with pytest.raises(ValueError, match="one repeat or more, got 0"):
        fastest_seconds({}, repeats=0)

"""The checks of chapter 13: right answers pass, each mistake is named."""

import runpy

import pytest
import torch

from kit.complexity.checks import check_dilated_path, check_local_attention, check_multi_head_flops
from kit.complexity.costs import convolution_cost, self_attention_cost
from kit.complexity.layers import windowed_attention
from kit.shared.checks import CheckFailed
from lib.attention import scaled_dot_product_attention
from tests.paths import ROOT

WRONG = runpy.run_path(str(ROOT / "tests" / "notebooks" / "wrong_answers" / "13_complexity.py"))[
    "WRONG"
]
CHECKS = {
    "multi_head_flops": check_multi_head_flops,
    "dilated_path": check_dilated_path,
    "local_attention": check_local_attention,
}


def by_slices(query, key, value, radius):
    near = [slice(max(0, i - radius), i + radius + 1) for i in range(len(query))]
    return torch.cat(
        [
            scaled_dot_product_attention(query[i : i + 1], key[part], value[part])
            for i, part in enumerate(near)
        ]
    )


def test_right_answers_pass():
    report = check_multi_head_flops(
        lambda n, d, h: self_attention_cost(n, d, n_heads=h, projections=True).flops
    )
    assert len(report.held) == 2
    assert check_dilated_path(lambda n, k: convolution_cost(n, 1, k, dilated=True).path)
    assert check_local_attention(by_slices)


def test_the_blocks_of_the_library_pass_too():
    def local(query, key, value, radius):
        return windowed_attention(query, key, value, radius)

    assert check_local_attention(local)


@pytest.mark.parametrize(
    ("name", "number", "message"),
    [
        ("multi_head_flops", 0, "a multiplication and an addition are two"),
        ("multi_head_flops", 1, "one head is d_model / n_heads wide"),
        ("multi_head_flops", 2, "the four projections are missing"),
        ("multi_head_flops", 3, "joined by a fourth matrix"),
        ("multi_head_flops", 6, "expected a whole number, got 3192.0"),
        ("dilated_path", 0, "the steps grow by k"),
        ("dilated_path", 1, r"n=125, k=5: .* after 3 layers, got 4; n is a power of k"),
        ("local_attention", 0, "computed all the same"),
        ("local_attention", 1, "and no others"),
        ("local_attention", 8, r"radius=2: position \d+ must see"),
    ],
)
def test_mistakes_are_named(name, number, message):
    with pytest.raises(CheckFailed, match=message):
        CHECKS[name](WRONG[name][number])


@pytest.mark.parametrize(
    ("name", "number"), [(name, i) for name, answers in WRONG.items() for i in range(len(answers))]
)
def test_wrong_answers_fail(name, number):
    with pytest.raises(CheckFailed):
        CHECKS[name](WRONG[name][number])


@pytest.mark.parametrize("name", CHECKS)
def test_no_answer_fails(name):
    with pytest.raises(CheckFailed, match=r"expected a .*, got None"):
        CHECKS[name](lambda *_: None)

"""The checks of chapter 13: the library passes, and no answer does not.

Right and wrong answers with what each is told stand in book/chapters/complexity/answers.py."""

import pytest
import torch

from chapters.complexity.checks import (
    check_dilated_path,
    check_local_attention,
    check_multi_head_flops,
)
from chapters.complexity.layers import windowed_attention
from checks.framework import CheckFailed
from lib.attention import scaled_dot_product_attention
from measure.costs import convolution_cost, self_attention_cost

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


@pytest.mark.parametrize("name", CHECKS)
def test_no_answer_fails(name):
    with pytest.raises(CheckFailed, match=r"expected a .*, got None"):
        CHECKS[name](lambda *_: None)

"""The checks on families: right answers pass whatever is drawn, and no answer does not.

Right and wrong answers with what each is told stand in book/chapters/families/answers.py."""

import runpy

import pytest
import torch

from chapters.families.checks import check_bert_masking, check_shared_heads, check_split_c_attn
from checks.framework import CheckFailed
from tests.paths import BOOK

RIGHT = runpy.run_path(str(BOOK / "chapters" / "families" / "answers.py"))["RIGHT"]


@pytest.mark.parametrize("seed", range(5))
def test_right_answers_pass_with_other_random_numbers(seed):
    def drawn(rows, n_vocab):
        torch.rand(seed)  # from another place of the same stream
        return RIGHT["bert_masking"][-1](rows, n_vocab)

    assert "all 3 properties hold" in repr(check_bert_masking(drawn))


@pytest.mark.parametrize("check", [check_bert_masking, check_split_c_attn, check_shared_heads])
def test_an_empty_answer_fails(check):
    with pytest.raises(CheckFailed, match="expected"):
        check(lambda *arguments: None)

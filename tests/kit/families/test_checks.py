"""The checks on families: right answers pass, each mistake is named by its own message."""

import runpy

import pytest
import torch

from kit.families.checks import check_bert_masking, check_shared_heads, check_split_c_attn
from kit.shared.checks import CheckFailed
from tests.paths import ROOT

ANSWERS = runpy.run_path(str(ROOT / "tests" / "notebooks" / "wrong_answers" / "14_families.py"))


def split(weight, bias):
    return [(w.T, b) for w, b in zip(weight.chunk(3, dim=1), bias.chunk(3), strict=True)]


def share(weight, n_heads, n_groups):
    return weight.view(n_groups, n_heads // n_groups, -1, weight.shape[1]).mean(1).flatten(0, 1)


@pytest.mark.parametrize("seed", range(5))
def test_right_answers_pass(seed):
    torch.manual_seed(seed)
    report = check_bert_masking(ANSWERS["right_mixture"])
    assert "all 3 properties hold" in repr(report)
    check_split_c_attn(split)
    check_shared_heads(share)


@pytest.mark.parametrize(
    ("check", "name", "message"),
    [
        (check_bert_masking, "all_masked", "80 % become MASK; here it is 100"),
        (check_bert_masking, "ends_too", "PAD, BOS or EOS is asked for"),
        (check_bert_masking, "asked_everywhere", "PAD, BOS or EOS is asked for"),
        (check_bert_masking, "in_place", "argument 1 was changed"),
        (check_bert_masking, "drawn_three_times", "not asked for was changed"),
        (check_bert_masking, "only_what_is_masked", "to be asked for, got 12"),
        (check_bert_masking, "special_tokens_as_words", "words from all of the vocabulary"),
        (check_bert_masking, "fifteen_of_hundred_each", "15 % of the words .* got 4"),
        (check_bert_masking, "same_each_time", "draw anew"),
        (check_split_c_attn, "not_transposed", "q is not transposed"),
        (check_split_c_attn, "every_third", "every third column"),
        (check_split_c_attn, "keys_first", "q is not columns 0 to 5"),
        (check_split_c_attn, "no_bias", "q is not columns 0 to 5"),
        (check_shared_heads, "every_nth_head", "made of neighbours"),
        (check_shared_heads, "sum_of_heads", "a mean, not a sum"),
        (check_shared_heads, "features_mixed", "features of one head were averaged"),
        (check_shared_heads, "first_head", "expected the mean of each group"),
    ],
)
def test_mistakes_are_named(check, name, message):
    torch.manual_seed(0)
    with pytest.raises(CheckFailed, match=message):
        check(ANSWERS[name])


@pytest.mark.parametrize("check", [check_bert_masking, check_split_c_attn, check_shared_heads])
def test_an_empty_answer_fails(check):
    with pytest.raises(CheckFailed, match="expected"):
        check(lambda *arguments: None)

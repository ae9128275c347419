"""Each broken piece does what its record says, and is right where the record says it is."""

import math

import pytest
import torch
from torch.nn import functional as F

from chapters.mistakes.in_pieces import (
    bleu_swapped,
    rates_by_micro_batch,
    smoothed_by_products,
    top_k_tiny_filler,
)
from lib.decoding import keep_top_k
from lib.metrics import bleu
from tests.helpers import assert_close, normal


def test_schedule_moves_on_with_every_micro_batch():
    assert rates_by_micro_batch(float, updates=3, accumulate=4) == [3.0, 7.0, 11.0]
    assert rates_by_micro_batch(float, updates=3, accumulate=1) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_smoothed_loss_is_nan_from_one_token_that_may_not_be_said(smoothing):
    logits, target = normal(5, 7, dtype=torch.float32), torch.tensor([1, 2, 3, 4, 6])
    wanted = F.cross_entropy(logits, target, label_smoothing=smoothing)
    assert_close(smoothed_by_products(logits, target, smoothing), wanted, 1e-5)
    logits[2, 0] = -torch.inf  # no target, and no weight
    assert smoothed_by_products(logits, target, smoothing).isnan()


def test_what_top_k_cuts_keeps_a_logit_near_0():
    logits = torch.tensor([[-3.0, -1.0, -5.0, -2.0]])
    cut, right = top_k_tiny_filler(logits, 2), keep_top_k(logits, 2)
    kept = torch.tensor([[False, True, False, True]])
    assert torch.equal(cut[kept], right[kept])
    assert torch.equal(cut[~kept], torch.full((2,), 1e-10))
    chances = cut.softmax(-1)
    assert chances[0, 2] > chances[0, 1]  # the least likely comes before the most likely
    assert not right.softmax(-1)[~kept].any()


def test_bleu_with_its_arguments_swapped_scores_the_references():
    truth = [[f"w{i}" for i in range(12)], [f"v{i}" for i in range(9)]]
    said = [words[:6] for words in truth]
    assert bleu_swapped(said, truth) == bleu(truth, said).score
    assert abs(bleu_swapped(said, truth) - bleu(said, truth).score) > 1
    as_long = [[*words[:-1], "other"] for words in truth]
    assert bleu_swapped(as_long, truth) == pytest.approx(bleu(as_long, truth).score)


def test_bleu_swapped_punishes_the_length_of_long_answers_only():
    truth = [[f"w{i}" for i in range(20)]]
    half, double = [truth[0][:10]], [truth[0] + [f"v{i}" for i in range(20)]]
    only_short = 100 * math.exp(-1)  # all n-grams right, and half as long as it should be
    assert bleu(half, truth).score == pytest.approx(only_short)
    assert bleu_swapped(double, truth) == pytest.approx(only_short)
    precisions = [(11 - n) / (21 - n) for n in (1, 2, 3, 4)]  # of the reference, in the half
    wanted = 100 * math.prod(precisions) ** 0.25
    assert bleu_swapped(half, truth) == pytest.approx(wanted)
    assert wanted < 50

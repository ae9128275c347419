"""Label smoothing: by hand, over real tokens only, and its errors."""

import math

import pytest
import torch

from lib.data import PAD
from lib.training import label_smoothed_loss, token_loss
from tests.helpers import assert_close, normal, unchecked


def test_by_hand():
    """Two entries with p = 3/4 and 1/4; smoothing 0.2 asks for 0.9 and 0.1."""
    logits = torch.tensor([[[math.log(1.0), math.log(3.0)]]], dtype=torch.float64)
    wanted = -(0.9 * math.log(3 / 4) + 0.1 * math.log(1 / 4))
    loss = label_smoothed_loss(logits, torch.tensor([[1]]), smoothing=0.2)
    assert loss.item() == pytest.approx(wanted)


def test_without_smoothing_it_is_the_token_loss():
    logits, target = normal(3, 5, 7), torch.randint(1, 7, (3, 5))
    target[1, 2:] = PAD
    assert_close(label_smoothed_loss(logits, target, 0.0), token_loss(logits, target), 1e-12)


def test_padding_counts_neither_above_nor_below_the_line():
    logits = normal(1, 5, 7).requires_grad_()
    target = torch.tensor([[3, 1, 6, PAD, PAD]])
    loss = label_smoothed_loss(logits, target)
    assert_close(loss, label_smoothed_loss(logits[:, :3], target[:, :3]), 1e-12)
    loss.backward()
    assert not logits.grad[:, 3:].any()
    assert logits.grad[:, :3].any()


def test_certainty_is_punished():
    """The best p(target) is 1 - smoothing + smoothing / vocab; beyond it the loss rises again."""
    best = math.log((0.9 + 0.1 / 5) / (0.1 / 5))
    losses = []
    for gap in (best - 1, best, best + 1, best + 40):
        logits = torch.zeros(1, 1, 5, dtype=torch.float64)
        logits[..., 2] = gap
        losses.append(label_smoothed_loss(logits, torch.tensor([[2]])).item())
    assert min(losses) == losses[1]
    assert losses[3] > 3


def test_a_batch_of_padding_gives_zero():
    logits = normal(2, 3, 5).requires_grad_()
    loss = label_smoothed_loss(logits, torch.full((2, 3), PAD))
    loss.backward()
    assert loss.item() == 0.0
    assert not logits.grad.any()


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, 2.0])
def test_smoothing_out_of_range(smoothing):
    with pytest.raises(ValueError, match="expected 0 <= smoothing < 1"):
        label_smoothed_loss(normal(1, 1, 3), torch.ones(1, 1, dtype=torch.long), smoothing)


@pytest.mark.parametrize("loss", [token_loss, label_smoothed_loss])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (torch.ones(3, 1, dtype=torch.long), r"got \(3, 5, 7\) and \(3, 1\) of torch.int64"),
        (torch.ones(5, 3, dtype=torch.long), r"got \(3, 5, 7\) and \(5, 3\)"),
        (torch.ones(3, 5), "got .* of torch.float32"),
        (torch.full((3, 5), 7), "expected targets from 0 to 6, got 7 to 7"),
        (torch.full((3, 5), -1), "expected targets from 0 to 6, got -1 to -1"),
    ],
)
def test_targets_that_do_not_fit(loss, target, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        loss(normal(3, 5, 7), target)

"""The checks of masks: they pass what is right and reject each classic mistake."""

import pytest
import torch

from kit.masking.checks import (
    check_causal_mask,
    check_masked_softmax,
    check_nothing_leaks,
    check_packed_mask,
    check_padding_mask,
    check_prefix_mask,
)
from kit.shared.checks import CheckFailed
from kit.shared.measure import influence
from lib.attention import MultiHeadAttention
from lib.masks import additive_mask, causal_mask, padding_mask
from tests.helpers import normal


class Masked(torch.nn.Module):
    """Self-attention that applies `mask` always, or in one mode only."""

    def __init__(self, mask, modes=(True, False), dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.layer = MultiHeadAttention(6, 2, dropout=dropout).double()
        self.mask, self.modes = mask, modes

    def forward(self, x):
        mask = self.mask if self.training in self.modes else None
        return self.layer(x[None], mask=mask)[0]


def test_influence_is_the_pattern_of_the_jacobian():
    x = normal(4, 3)
    assert torch.equal(influence(lambda x: x.cumsum(0), x), causal_mask(4))
    assert torch.equal(influence(lambda x: x * 2, x), torch.eye(4, dtype=torch.bool))
    assert influence(lambda x: x.mean(0, keepdim=True).expand(4, 3), x).all()


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_nothing_leaks_through_a_causal_mask(dropout):
    model = Masked(causal_mask(5), dropout=dropout).eval()
    check_nothing_leaks(model, normal(5, 6), causal_mask(5))
    assert not model.training
    check_nothing_leaks(lambda x: x.cumsum(0), normal(5, 6), causal_mask(5))


def test_leaks_are_found_in_either_mode():
    x, causal = normal(5, 6), causal_mask(5)
    for modes, where in (((), "in training"), ((False,), "in training"), ((True,), "in use")):
        with pytest.raises(CheckFailed, match=where):
            check_nothing_leaks(Masked(causal, modes), x, causal)
    with pytest.raises(CheckFailed, match="may not see"):
        check_nothing_leaks(Masked(causal.T), x, causal)


def test_a_leak_without_a_gradient_is_found():
    with pytest.raises(CheckFailed, match="changed with inputs"):
        check_nothing_leaks(lambda x: x + x.detach().flip(0), normal(5, 6), causal_mask(5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda lengths, n: None, "expected a boolean tensor"),
        (lambda lengths, n: ~padding_mask(lengths, n), "polarity is swapped"),
        (lambda lengths, n: padding_mask(lengths, n).float(), "expected a boolean tensor"),
        (lambda lengths, n: padding_mask(lengths, n)[:, 0], r"expected \(batch, 1, key\)"),
        (lambda lengths, n: padding_mask(lengths + 1, n), "expected the row"),
    ],
)
def test_wrong_padding_masks_are_rejected(make, message):
    assert check_padding_mask(padding_mask)
    with pytest.raises(CheckFailed, match=message):
        check_padding_mask(make)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda n: None, "expected a boolean tensor"),
        (lambda n: torch.ones(n, n).tril(), "expected a boolean tensor"),
        (lambda n: causal_mask(n).T, "rows are queries"),
        (lambda n: torch.ones(n, n).tril(-1).bool(), "attend to itself"),
        (lambda n: torch.ones(n, n).bool(), "rows are queries"),
        (lambda n: causal_mask(n)[None], r"expected an output of shape \(1, 1\)"),
    ],
)
def test_wrong_causal_masks_are_rejected(make, message):
    assert check_causal_mask(causal_mask)
    with pytest.raises(CheckFailed, match=message):
        check_causal_mask(make)


def by_fill(scores, mask, low=None):
    """A softmax of filled scores, then zeros: right if `low` is the lowest number of the type."""
    low = torch.finfo(scores.dtype).min if low is None else low
    return scores.masked_fill(~mask, low).softmax(-1).masked_fill(~mask, 0)


def by_sum(scores, mask):
    """Where -inf is added and not filled in, the gradient goes through the NaN."""
    return (scores + additive_mask(mask, scores.dtype)).softmax(-1)


@pytest.mark.parametrize(
    ("softmax", "message"),
    [
        (lambda scores, mask: None, "expected a tensor of weights"),
        (lambda scores, mask: scores.softmax(-1)[:, :2], "expected"),
        (lambda scores, mask: scores.masked_fill(~mask, -1e9).softmax(-1), "expected zeros"),
        (lambda scores, mask: by_fill(scores, mask, -1e9), "no large finite number"),
        (lambda scores, mask: scores.masked_fill(~mask, -torch.inf).softmax(-1), "NaN in"),
        (lambda scores, mask: by_sum(scores, mask).nan_to_num(), "NaN in the gradient"),
        (lambda scores, mask: scores.softmax(-1) * mask, "row 0: expected"),
        (lambda scores, mask: by_fill(scores, mask, -100.0), "row 3: expected"),
        (lambda scores, mask: by_fill(scores, mask).detach(), "no gradient"),
        (lambda scores, mask: scores.softmax(-1), "expected zeros"),
        (lambda scores, mask: by_fill(scores, mask) + (~mask & mask.any(-1, True)) / 9, "masked"),
    ],
)
def test_wrong_masked_softmaxes_are_rejected(softmax, message):
    assert check_masked_softmax(by_fill)
    assert check_masked_softmax(lambda scores, mask: by_fill(scores, mask, -torch.inf))
    with pytest.raises(CheckFailed, match=message):
        check_masked_softmax(softmax)


def prefix(lengths, n):
    return causal_mask(n) | padding_mask(lengths, n)


def packed(document):
    return causal_mask(document.shape[1]) & (document[:, :, None] == document[:, None])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda lengths, n: None, "boolean"),
        (lambda lengths, n: causal_mask(n), r"expected an output of shape \(5, 7, 7\)"),
        (lambda lengths, n: prefix(lengths, n).mT, "query 0, key 3: expected False, got True"),
        (lambda lengths, n: causal_mask(n) & padding_mask(lengths, n), "expected True, got False"),
    ],
)
def test_wrong_prefix_masks_are_rejected(make, message):
    assert check_prefix_mask(prefix)
    with pytest.raises(CheckFailed, match=message):
        check_prefix_mask(make)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda document: None, "boolean"),
        (lambda document: packed(document)[0], r"expected an output of shape \(3, 7, 7\)"),
        (lambda document: packed(document).mT, "query 0, key 1: expected False, got True"),
        (lambda document: document[:, :, None] == document[:, None], "query 0, key 1"),
        (lambda document: causal_mask(7).expand(3, 7, 7), "query 3, key 0"),
    ],
)
def test_wrong_packed_masks_are_rejected(make, message):
    assert check_packed_mask(packed)
    with pytest.raises(CheckFailed, match=message):
        check_packed_mask(make)

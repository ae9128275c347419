"""The proof that nothing leaks; what the checks say of answers is in answers.py."""

import pytest
import torch

from chapters.masking.checks import check_masked_softmax, check_nothing_leaks
from checks.framework import CheckFailed
from lib.attention import MultiHeadAttention
from lib.masks import causal_mask
from measure.observed import influence
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
    for modes, where in (
        ((), "in training"),
        ((False,), "in training"),
        ((True,), "depends on input 1, which is masked for it in evaluation"),
    ):
        with pytest.raises(CheckFailed, match=where):
            check_nothing_leaks(Masked(causal, modes), x, causal)
    with pytest.raises(CheckFailed, match="masked for it"):
        check_nothing_leaks(Masked(causal.T), x, causal)


def test_a_leak_without_a_gradient_is_found():
    with pytest.raises(CheckFailed, match="changed with inputs"):
        check_nothing_leaks(lambda x: x + x.detach().flip(0), normal(5, 6), causal_mask(5))


@pytest.mark.parametrize(("said", "hinted"), [("no such type", False), ("overflow", True)])
def test_finite_fills_are_spoken_of_where_a_number_overflows(said, hinted):
    def softmax(scores, mask):
        if scores.dtype == torch.bfloat16:
            raise RuntimeError(said)
        return scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num()

    with pytest.raises(CheckFailed, match=f"in torch.bfloat16: .*{said}") as failed:
        check_masked_softmax(softmax)
    assert ("no large finite number fits every type" in str(failed.value)) == hinted

"""The checks of embeddings and label smoothing: what they show, and answers that are not listed.

What they say of answers stands in answers.py.
"""

import pytest
from torch import nn

from chapters.embeddings.checks import (
    check_lookup_gradient,
    check_shared_matrix,
    check_smoothed_loss,
)
from checks.framework import CheckFailed
from lib.layers import Embedding, TiedProjection
from lib.training import label_smoothed_loss


class Tied(nn.Module):
    """The library's own two layers; `std` as in `Embedding`."""

    def __init__(self, vocab, d_model, std=0.5):
        super().__init__()
        self.embed = Embedding(vocab, d_model, std=std)
        self.score = TiedProjection(self.embed)


@pytest.mark.parametrize("std", [0.5, 1.0])
def test_the_layers_of_the_library_pass(std):
    report = check_shared_matrix(lambda vocab, d_model: Tied(vocab, d_model, std=std))
    assert len(report.held) == 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda vocab, d_model: None, "expected a module of torch, got None"),
        (lambda vocab, d_model: nn.Linear(d_model, vocab, bias=False), "no attribute 'embed'"),
        (lambda vocab, d_model: Tied(vocab, d_model, std=8.0), "standard deviation of [78]"),
        (lambda vocab, d_model: Tied(17, 4), "expected one parameter of the shape"),
    ],
)
def test_a_matrix_that_is_not_shared_rightly_is_named(make, message):
    with pytest.raises(CheckFailed, match=message):
        check_shared_matrix(make)


def test_no_number_is_no_loss():
    with pytest.raises(CheckFailed, match="expected a tensor with one number, got None"):
        check_smoothed_loss(lambda *given: None)
    with pytest.raises(CheckFailed, match=r"of shape \(\), got \(3,\)"):
        check_smoothed_loss(lambda *given: label_smoothed_loss(*given).expand(3))
    with pytest.raises(CheckFailed, match=r"of the shape \(11, 3\), got None"):
        check_lookup_gradient(lambda *given: None)

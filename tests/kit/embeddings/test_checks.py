"""The checks of embeddings and label smoothing: they pass what is right and name what is wrong."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from kit.embeddings.checks import check_lookup_gradient, check_shared_matrix, check_smoothed_loss
from kit.shared.checks import CheckFailed
from lib.data import PAD
from lib.layers import Embedding, TiedProjection
from lib.training import label_smoothed_loss


class Tied(nn.Module):
    """The library's own two layers; `std` as in `Embedding`."""

    def __init__(self, vocab, d_model, std=0.5):
        super().__init__()
        self.embed = Embedding(vocab, d_model, std=std)
        self.score = TiedProjection(self.embed)


class Plain(nn.Module):
    """Without sqrt(d_model)."""

    def __init__(self, vocab, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab, d_model) / math.sqrt(d_model))

    def embed(self, tokens):
        return F.embedding(tokens, self.weight)

    def score(self, x):
        return F.linear(x, self.weight)


def by_sparse_rows(tokens, upstream, vocab):
    layer = Embedding(vocab, upstream.shape[-1]).double()
    layer(tokens).backward(upstream)
    return layer.weight.grad


def over_the_open(logits, target_out, smoothing):
    """Each real position by itself, in plain Python."""
    losses = []
    for row, target in zip(logits.flatten(0, 1), target_out.flatten().tolist(), strict=True):
        if target != PAD:
            open_ = [i for i in range(len(row)) if row[i] > -math.inf]
            total = sum(row[i].exp() for i in open_)
            logs = {i: (row[i].exp() / total).log() for i in open_}
            even = sum(logs.values()) / len(open_)
            losses.append(-(1 - smoothing) * logs[target] - smoothing * even)
    return sum(losses) / len(losses)


def test_what_is_right_passes():
    assert "add up" in repr(check_lookup_gradient(by_sparse_rows))
    assert "one parameter" in repr(check_shared_matrix(Tied))
    check_shared_matrix(lambda vocab, d_model: Tied(vocab, d_model, std=1.0))
    assert "no NaN" in repr(check_smoothed_loss(over_the_open))


def test_the_missing_factor_is_named():
    with pytest.raises(CheckFailed, match=r"too small by sqrt\(d_model\) = 1.73"):
        check_lookup_gradient(lambda *given: by_sparse_rows(*given) / math.sqrt(given[1].shape[-1]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda vocab, d_model: None, "expected a module of torch, got None"),
        (lambda vocab, d_model: nn.Linear(3, 5), "expected a method embed"),
        (Plain, "got the row"),
        (lambda vocab, d_model: Tied(vocab, d_model, std=8.0), "standard deviation of [78]"),
        (lambda vocab, d_model: Tied(d_model, vocab), "expected one parameter of the shape"),
    ],
)
def test_a_matrix_that_is_not_shared_rightly_is_named(make, message):
    with pytest.raises(CheckFailed, match=message):
        check_shared_matrix(make)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda *given: None, "expected a tensor with one number, got None"),
        (label_smoothed_loss, "0 times infinity is NaN"),
        (lambda *given: label_smoothed_loss(*given).expand(3), r"of shape \(\), got \(3,\)"),
        (lambda x, t, s: label_smoothed_loss(x, t, s / 2), "smoothing 0.1: expected"),
        (lambda x, t, s: F.cross_entropy(x.mT, t, label_smoothing=s), "padding is counted"),
    ],
)
def test_a_wrong_loss_is_named(loss, message):
    with pytest.raises(CheckFailed, match=message):
        check_smoothed_loss(loss)

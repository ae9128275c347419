"""The properties of single pieces: the library's have them, and a number tells of others."""

import math
import re

import pytest
import torch
from torch.nn import functional as F

from chapters.mistakes.in_pieces import (
    bleu_swapped,
    rates_by_micro_batch,
    smoothed_by_products,
    top_k_tiny_filler,
)
from chapters.mistakes.properties import check_piece
from lib.decoding import keep_top_k
from lib.metrics import bleu
from lib.positions import sinusoidal_table
from lib.training import label_smoothed_loss


def rates(schedule, updates, accumulate):
    return [schedule(step) for step in range(updates)]


@pytest.mark.parametrize("layout", ["pairs", "halves"])
def test_shift_takes_any_layout_of_sines_and_cosines(layout):
    table = sinusoidal_table(64, 24)
    if layout == "halves":
        table = torch.cat((table[:, 0::2], table[:, 1::2]), dim=1)
    assert check_piece(table, "shift").held
    at_random = torch.rand(64, 24, generator=torch.Generator().manual_seed(0))
    assert not check_piece(at_random, "shift").held


def test_the_librarys_pieces_have_their_properties():
    def smoothed(logits, target):
        return label_smoothed_loss(logits[None, :, 1:], target[None] - 1)

    pieces = {"updates": rates, "forbidden": smoothed, "removed": keep_top_k}
    pieces["brevity"] = lambda said, truth: bleu(said, truth).score
    for name, piece in pieces.items():
        finding = check_piece(piece, name)
        assert finding.held, finding


@pytest.mark.parametrize(
    ("piece", "wrong"),
    [
        (rates_by_micro_batch, 7),  # all of the run with ten micro-batches
        (lambda *a: [0.0, *rates(*a)[:-1]], 12),  # late, but for the first: 6 of 7, twice
        (lambda *a: rates(*a)[:-2], 4),  # two are missing, twice
        (lambda schedule, updates, accumulate: rates(schedule, updates * accumulate, 1), 63),
    ],
)
def test_updates_counts_the_rates_that_are_wrong_missing_or_too_many(piece, wrong):
    found = check_piece(piece, "updates")
    assert (found.held, found.number) == (False, wrong)
    assert found.message == "the schedule counts micro-batches"


def hidden_too_late(logits, target):
    """What is 0 times -inf is cut from the loss, and comes back in its gradient."""
    return torch.where(logits > -torch.inf, logits * logits.softmax(-1), 0.0).sum()


@pytest.mark.parametrize(
    ("piece", "number", "message"),
    [
        (smoothed_by_products, 1, "the loss is nan"),
        (lambda z, t: F.cross_entropy(z, t, label_smoothing=0.1), 1, "the loss is inf"),
        (hidden_too_late, 1, r"the loss is -?\d"),
        (lambda z, t: (z * z.softmax(-1)).sum(), 2, "the loss is nan"),
    ],
)
def test_forbidden_counts_the_loss_and_its_gradient(piece, number, message):
    found = check_piece(piece, "forbidden")
    assert not found.held
    assert found.number == number
    assert re.search(message, found.message)


def test_cut_gives_the_chance_of_what_was_cut():
    assert check_piece(lambda logits, k: logits, "removed").number > 0.1
    tiny = check_piece(top_k_tiny_filler, "removed")
    assert not tiny.held
    assert tiny.number > check_piece(lambda logits, k: logits, "removed").number
    one_too_many = check_piece(lambda logits, k: keep_top_k(logits, k + 1), "removed")
    assert not one_too_many.held
    assert check_piece(lambda logits, k: keep_top_k(logits, k - 1), "removed").held


def test_brevity_gives_the_score():
    right = check_piece(lambda said, truth: bleu(said, truth).score, "brevity")
    assert right.number == pytest.approx(100 * math.exp(-1), abs=0.01)
    turned = check_piece(bleu_swapped, "brevity")
    assert (turned.held, turned.message) == (False, "expected 36.8: swapped?")
    assert turned.number > 37
    assert not check_piece(lambda said, truth: 100.0, "brevity").held

"""The task is what it says, and its record is read as it was written."""

import pytest
import torch

from chapters.attention_layer.rotated_lookup import (
    BIG_START,
    DIMENSIONS,
    EQUAL_WEIGHTS,
    SOLVED,
    VARIANTS,
    best_rate,
    by_rate,
    first_gradient,
    rotated_lookup_batch,
    train_rotated_lookup,
    updates_until_solved,
)
from measure.records import read_results


def test_the_query_is_the_first_key_rotated():
    rotation = torch.linalg.qr(torch.randn(5, 5))[0]
    query, key, value = rotated_lookup_batch(rotation, torch.Generator().manual_seed(0))
    assert (query.shape, key.shape, value.shape) == ((64, 1, 5), (64, 16, 5), (64, 16, 8))
    torch.testing.assert_close(query @ rotation.T, key[:, :1])


def test_the_error_of_equal_weights():
    _, _, value = rotated_lookup_batch(torch.eye(3), torch.Generator().manual_seed(0))
    error = (value.mean(dim=1) - value[:, 0]).square().mean().item()
    assert error == pytest.approx(EQUAL_WEIGHTS, abs=0.1)


def test_each_control_begins_where_the_other_layer_does():
    variants = (*VARIANTS, BIG_START)
    first = {variant: train_rotated_lookup(64, variant, seed=3, steps=1)[0] for variant in variants}
    assert first["raw, small start"] == pytest.approx(first["scaled"], rel=1e-5)
    assert first["scaled, big start"] == pytest.approx(first["raw"], rel=1e-5)
    assert first["raw"] > 1.3 * first["scaled"]


def test_other_steps_of_w_q_make_a_control_the_other_layer():
    def losses(variant, rate=1.0):
        return train_rotated_lookup(16, variant, seed=1, lr=0.02, steps=30, w_q_rate=rate)

    assert losses("raw, small start", 1 / 4) == pytest.approx(losses("scaled"), rel=1e-3)
    assert losses("scaled, big start", 4.0) == pytest.approx(losses("raw"), rel=1e-3)
    assert losses("raw, small start") != pytest.approx(losses("scaled"), rel=0.1)


def test_a_batch_has_as_many_problems_as_asked_for():
    _, _, value = rotated_lookup_batch(torch.eye(3), torch.Generator().manual_seed(0), batch=5)
    assert value.shape == (5, 16, 8)


@pytest.mark.parametrize("seed", range(3))
def test_raw_scores_have_a_larger_but_noisier_first_gradient(seed):
    scaled, raw = (first_gradient(64, variant, seed) for variant in ("scaled", "raw"))
    assert raw.norm > 6 * scaled.norm
    assert raw.signal_to_noise < 0.4 * scaled.signal_to_noise
    assert raw.error > 1.5 > 1.1 > scaled.error


def test_raw_scores_leave_most_problems_little_and_a_few_much():
    scaled, raw = (first_gradient(256, variant, 0).by_problem for variant in ("scaled", "raw"))
    assert len(raw) == 32 * 64
    assert raw.median() < 0.7 * scaled.median()
    assert raw.mean() > 4 * scaled.mean()


def test_each_problem_has_its_own_gradient_of_w_q():
    """Independent problems: the squares of theirs are those of the noise, but for the batch."""
    first = first_gradient(64, "raw", seed=0)
    alone = (first.by_problem.square().mean() / 64).sqrt().item()
    assert alone == pytest.approx(first.norm, rel=0.1)
    assert first.gap.min() >= 0
    assert first.gap.median() == pytest.approx(2.9, abs=0.3)


def test_the_first_gradient_is_that_of_training():
    first = first_gradient(16, "raw", seed=4, batches=2)
    losses = train_rotated_lookup(16, "raw", seed=4, lr=0.0, steps=2)
    assert first.error == pytest.approx(sum(losses) / 2, rel=1e-5)


def test_with_more_problems_for_each_update_raw_scores_learn_as_fast():
    few, many = (
        updates_until_solved(train_rotated_lookup(64, "raw", 0, 0.015, steps=40, batch=batch))
        for batch in (64, 1024)
    )
    assert many <= 7 < 14 < few


def test_the_layer_learns():
    losses = train_rotated_lookup(16, "scaled", seed=0, lr=1e-2)
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize(
    ("losses", "updates"),
    [
        ([0.0] * 9, 0),
        ([1.0] * 9, 9),  # never
        ([1.0] * 4 + [0.0] * 9, 4),
        ([1.0] * 4 + [0.0] * 9 + [1.0] + [0.0] * 9, 14),  # one large error, and it begins again
        ([0.0] * 8 + [1.0], 9),
        ([5 * SOLVED] + [0.0] * 8, 1),  # a mean of exactly SOLVED is not below it
        ([4.9 * SOLVED] + [0.0] * 8, 0),
    ],
)
def test_solved_is_below_for_good(losses, updates):
    assert updates_until_solved(losses) == updates


def test_the_record_has_five_seeds_at_each_rate():
    record = read_results("attention_scale")
    for d_k in DIMENSIONS:
        for variant in VARIANTS:
            for what in ("end", "solved"):
                found = by_rate(record, d_k, variant, what)
                assert len(found) == 14
                assert all(len(each) == 5 and each == sorted(each) for each in found.values())
                assert best_rate(record, d_k, variant, what) in list(found)[1:-1]


def test_the_record_has_three_seeds_of_the_control():
    record = read_results("attention_scale")
    for d_k in (64, 256):
        found = by_rate(record, d_k, BIG_START)
        assert len(found) == 14
        assert all(len(each) == 3 for each in found.values())
        assert best_rate(record, d_k, BIG_START) in list(found)[1:-1]

"""The task is what it says, and its record is read as it was written."""

import pytest
import torch

from chapters.attention_layer.plots import plot_rates
from chapters.attention_layer.rotated_lookup import (
    DIMENSIONS,
    EQUAL_WEIGHTS,
    VARIANTS,
    ends,
    rotated_lookup_batch,
    train_rotated_lookup,
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


def test_a_small_start_begins_where_the_scaled_layer_does():
    first = {variant: train_rotated_lookup(64, variant, seed=3, steps=1)[0] for variant in VARIANTS}
    assert first["raw, small start"] == pytest.approx(first["scaled"], rel=1e-5)
    assert first["raw"] > 1.3 * first["scaled"]


def test_the_layer_learns():
    losses = train_rotated_lookup(16, "scaled", seed=0, lr=1e-2)
    assert losses[-1] < 0.1 * losses[0]


def test_the_record_has_five_seeds_at_each_rate():
    record = read_results("attention_scale")
    for d_k in DIMENSIONS:
        for variant in VARIANTS:
            found = ends(record, d_k, variant)
            assert len(found) == 5
            assert all(len(errors) == 5 and errors == sorted(errors) for errors in found.values())
    first = plot_rates(record).figure.axes[0]
    assert [text.get_text() for text in first.get_legend().get_texts()] == list(VARIANTS)

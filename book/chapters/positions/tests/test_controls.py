"""The controls of the experiments on positions do what their names say."""

import pytest
import torch

from chapters.positions.controls import (
    SIMILAR,
    TABLES,
    StartsAnywhere,
    clipped_offsets,
    freeze_slow_pairs,
    make_table,
)
from lib.attention import MultiHeadAttention
from lib.masks import causal_mask
from lib.positions import Rotary


def _shift_error(table):
    """How far the best matrix for one step misses, over more rows than columns."""
    best = torch.linalg.lstsq(table[:-1], table[1:]).solution
    return (table[:-1] @ best - table[1:]).abs().max().item()


def _neighbours(table):
    return torch.cosine_similarity(table[:-1], table[1:], dim=1).mean().item()


@pytest.mark.parametrize(
    ("name", "shifts", "similar"),
    [
        ("sinusoidal", True, True),
        ("wrong exponent", False, True),
        ("random walk", False, True),
        ("equal steps", True, False),
        ("random rows", False, False),
        ("shuffled", False, False),
    ],
)
def test_tables(name, shifts, similar):
    torch.manual_seed(0)
    table = make_table(name, 61, 14, trained=17).double()
    assert table.shape == (61, 14)
    assert (_shift_error(table) < 1e-4) == shifts
    assert (_neighbours(table) > 0.7) == similar


@pytest.mark.parametrize(("name", "similar"), [("random walk", SIMILAR), ("random rows", 0.0)])
def test_random_rows_are_as_long_as_the_sinusoids(name, similar):
    torch.manual_seed(0)
    table = make_table(name, 400, 64, trained=17).double()
    cosine = torch.cosine_similarity(table[:-1], table[1:], dim=1)
    assert torch.allclose(table.norm(dim=1), torch.tensor(32**0.5).double(), atol=1e-4)
    assert cosine.mean() == pytest.approx(similar, abs=0.02)
    far = torch.cosine_similarity(table[:-200], table[200:], dim=1)
    assert far.mean().abs() < 0.1
    if name == "random walk":
        assert cosine.std() < 1e-5


def test_every_table_is_listed():
    with pytest.raises(ValueError, match="expected a table out of sinusoidal"):
        make_table("another", 5, 4, trained=3)
    for name in TABLES:
        make_table(name, 5, 4, trained=3)


def _layer():
    torch.manual_seed(0)
    return MultiHeadAttention(12, 2, positions=Rotary(6)), torch.randn(3, 11, 12)


def test_clipping_nothing_changes_nothing():
    layer, x = _layer()
    plain = layer(x, mask=causal_mask(11))
    for limit, pairs in ((10, torch.ones(3)), (2, torch.zeros(3))):
        with clipped_offsets(limit, pairs.bool()):
            assert torch.allclose(layer(x, mask=causal_mask(11)), plain, atol=1e-5)
    assert torch.equal(layer(x, mask=causal_mask(11)), plain)  # and afterwards all is as before


def test_clipped_offsets_are_turns_by_the_limit():
    layer, x = _layer()
    with clipped_offsets(2, torch.ones(3).bool()):
        got = layer(x, mask=causal_mask(11))
    q, k, v = (layer._split_heads(p, x) for p in (layer.w_q, layer.w_k, layer.w_v))
    rotary, rows = Rotary(6), []
    for i in range(11):
        turned = [rotary.rotate(q[:, :, i : i + 1], min(i - j, 2)) for j in range(i + 1)]
        scores = [(t * k[:, :, j : j + 1]).sum(-1) / 6**0.5 for j, t in enumerate(turned)]
        weights = torch.cat(scores, -1).softmax(-1)
        rows.append(torch.einsum("bhj,bhjd->bhd", weights, v[:, :, : i + 1]))
    wanted = layer.w_o(torch.stack(rows, 2).transpose(1, 2).flatten(2))
    assert torch.allclose(got, wanted, atol=1e-5)
    assert not torch.allclose(got, layer(x, mask=causal_mask(11)), atol=1e-3)


def test_frozen_pairs_never_turn():
    rotary, x = Rotary(16), torch.randn(1, 9, 16)
    slow = freeze_slow_pairs(rotary, 64)
    turned = (rotary.rotate(x) - x).unflatten(-1, (-1, 2))[0, 1:].abs().sum((0, 2))
    assert slow.tolist() == [False] * 3 + [True] * 5
    assert torch.equal(turned == 0, slow)


def test_training_sequences_start_anywhere_and_others_at_the_offset():
    torch.manual_seed(0)
    positions, zeros = StartsAnywhere(6, max_length=12), torch.zeros(300, 5, 6)
    table = positions.table
    given = positions.add(zeros)
    starts = [int((table - row).abs().sum(1).argmin()) for row in given[:, 0]]
    assert set(starts) == set(range(8))  # the last sequence ends with the table
    for rows, start in zip(given, starts, strict=True):
        assert torch.equal(rows, table[start : start + 5])
    positions.eval()
    assert torch.equal(positions.add(zeros, 3), table[3:8].expand(300, 5, 6))

"""The matrix that shifts a sinusoidal encoding."""

import pytest
import torch

from checks.shifts import shift_matrix
from lib.positions import sinusoidal_table
from tests.helpers import assert_close


@pytest.mark.parametrize("k", [0, 1, 5, 40, -3, -40])
@pytest.mark.parametrize("d_model", [2, 6, 64])
def test_shift_matrix_moves_every_position_alike(k, d_model):
    table = sinusoidal_table(100, d_model, base=31.0, dtype=torch.float64)
    matrix = shift_matrix(k, d_model, base=31.0)
    start, stop = max(0, -k), min(100, 100 - k)
    assert_close(table[start:stop] @ matrix.T, table[start + k : stop + k], 1e-12)


def test_shift_matrices_are_rotations_that_add_up():
    eye = torch.eye(6, dtype=torch.float64)
    assert_close(shift_matrix(5, 6) @ shift_matrix(5, 6).T, eye, 1e-12)
    assert torch.linalg.det(shift_matrix(5, 6)).item() == pytest.approx(1.0)
    assert_close(shift_matrix(5, 6) @ shift_matrix(7, 6), shift_matrix(12, 6), 1e-12)
    assert_close(shift_matrix(-5, 6), shift_matrix(5, 6).T, 1e-12)
    assert not torch.allclose(shift_matrix(5, 6), eye)


@pytest.mark.parametrize("base", [0.0, -1.0, float("nan")])
def test_a_base_that_is_not_above_zero(base):
    with pytest.raises(ValueError, match="base above 0, got"):
        shift_matrix(1, 6, base=base)


@pytest.mark.parametrize("d_model", [7, 0, -2])
def test_only_pairs_can_be_rotated(d_model):
    with pytest.raises(ValueError, match=f"even d_model .*, got {d_model} and"):
        shift_matrix(1, d_model)

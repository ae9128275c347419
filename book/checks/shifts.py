"""The matrix that moves a sinusoidal encoding by k positions."""

import torch
from jaxtyping import Float
from torch import Tensor


def shift_matrix(
    k: int, d_model: int, *, base: float = 10_000.0
) -> Float[Tensor, "{d_model} {d_model}"]:
    """M_k, with M_k PE(pos) = PE(pos + k) for every pos: the shift does not depend on pos.

    It rotates each pair (sin, cos) by k times the pair's frequency w:
        sin w(pos + k) =  cos(wk) sin(w pos) + sin(wk) cos(w pos)
        cos w(pos + k) = -sin(wk) sin(w pos) + cos(wk) cos(w pos)

    Shapes: returns (d_model, d_model) in float64; for rows of a table, `table @ M_k.T`.
    Errors: ValueError for an odd d_model, whose last sine has no cosine to rotate with, for one
        below 2, or a base not above 0.
    Source: Attention Is All You Need, section 3.5.
    """
    if d_model % 2 or d_model < 2 or not base > 0:
        got = f"{d_model} and {base}: M_k rotates pairs of entries"
        raise ValueError(f"expected an even d_model and a base above 0, got {got}")
    angle = k / base ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)  # (pairs,)
    sin, cos = angle.sin(), angle.cos()
    blocks = torch.stack((cos, sin, -sin, cos), dim=-1).view(-1, 2, 2)
    return torch.block_diag(*blocks)

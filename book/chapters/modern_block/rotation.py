"""Rotary positions slowed, so that a model trained on short texts can read longer ones."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lib.positions import Rotary


@dataclass(frozen=True)
class Scaling:
    """By how much rotations are slowed: w becomes w / factor, for all pairs or the slow ones alone.

    With the other fields, Llama 3.1's rule: a pair that turns more than `high` times in `length`
    positions keeps its w, one that turns less than `low` times has w / factor, and between the two
    w passes from one to the other linearly in the number of turns.

    Errors: ValueError for a factor that is not above 0, and for a rule that is given in part or
        whose `low` is not below its `high`.
    Source: Chen et al. 2023 (position interpolation, all pairs); the rule is that of Llama 3.1's
        published code.
    """

    factor: float
    low: float | None = None
    high: float | None = None
    length: int | None = None  # that the model was first trained on

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"expected a factor above 0, got {self.factor!r}")
        low, high, length = self.low, self.high, self.length
        if low is None and high is None and length is None:
            return
        if low is None or high is None or length is None or not (0 < low < high and length > 0):
            raise ValueError(
                "expected low below high and a length, all above 0, or none of them, "
                f"got {low!r}, {high!r} and {length!r}"
            )

    def scaled(self, w: Float[Tensor, " pairs"]) -> Float[Tensor, " pairs"]:
        """The slowed angles, for one step, of pairs with angles w."""
        if self.low is None or self.high is None or self.length is None:
            return w / self.factor
        turns = self.length * w / (2 * math.pi)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return kept * w + (1 - kept) * w / self.factor


class ScaledRotary(Rotary):
    """`Rotary` with the angles that a `Scaling` gives.

    Errors: ValueError for an odd d_k.
    Source: Su et al. 2021 (RoFormer); see `Scaling`.
    """

    def __init__(self, d_k: int, scaling: Scaling, *, base: float, max_length: int = 512):
        self.scaling = scaling
        super().__init__(d_k, base=base, max_length=max_length)

    def _make_table(self, n_positions: int) -> Float[Tensor, "time pairs 2"]:
        even = torch.arange(0, self.width, 2, dtype=torch.float64)
        w = self.scaling.scaled(self.base ** -(even / self.width))
        angle = torch.arange(n_positions, dtype=torch.float64)[:, None] * w  # (time, pairs)
        return torch.stack((angle.cos(), angle.sin()), dim=-1)

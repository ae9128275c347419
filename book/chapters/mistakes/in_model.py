"""Models with one mistake each: masks, modules, positions, and what training starts from."""

import torch
from torch import Tensor, nn

from chapters.mistakes.specimen import TABLE, Specimen, SpecimenState
from lib.data import PAD
from lib.layers import LayerNorm
from lib.masks import causal_mask


class AndForOr(Specimen):
    """Combines two masks of True = masked by "and"."""

    def target_mask(self, target_in: Tensor) -> Tensor:
        later = ~causal_mask(target_in.shape[1], device=target_in.device)  # True = masked
        padding = (target_in == PAD)[:, None]  # True = masked
        return ~(later & padding)


class NoTargetMask(Specimen):
    """Calls the decoder without its mask."""

    def target_mask(self, target_in: Tensor) -> None:
        return None


class MaskInTrainingOnly(Specimen):
    """Hides the future in training mode alone."""

    def target_mask(self, target_in: Tensor) -> Tensor | None:
        return super().target_mask(target_in) if self.training else None


class QueriesMasked(Specimen):
    """Hides padded queries instead of padded keys."""

    def encoder_mask(self, mask: Tensor) -> Tensor:
        return mask.transpose(1, 2)  # (batch, query, 1)


class TableAsAttribute(Specimen):
    """Keeps the table of positions as a plain attribute."""

    def keep_table(self, table: Tensor) -> None:
        self.table = table


class LayersInAList(Specimen):
    """Keeps the layers in a plain Python list."""

    def stack(self, *names: str) -> dict[str, list]:
        return {
            "layers": [
                {name: self.residual(name) for name in names} for _ in range(self.config.n_layers)
            ]
        }


class UsedBeforeAssigned(Specimen):
    """Adds the positions to a name that is set a line later."""

    def embed(self, tokens: Tensor, embedding: nn.Module, start: int = 0) -> Tensor:
        marked = embedded + self.table[start : start + tokens.shape[1]]  # type: ignore[has-type, used-before-def]  # the mistake
        embedded = embedding(tokens)  # noqa: F841
        return marked


class PositionsDropped(Specimen):
    """Computes the sum with the positions and drops it."""

    def embed(self, tokens: Tensor, embedding: nn.Module, start: int = 0) -> Tensor:
        x = embedding(tokens)
        x.add(self.table[start : start + tokens.shape[1]])  # not in place: the sum is lost
        return x


class CosineExponent(Specimen):
    """Gives the cosine of a pair an exponent of its own."""

    def make_table(self) -> Tensor:
        d_model = self.config.d_model
        column = torch.arange(d_model)  # 2i for a sine, 2i + 1 for a cosine
        angle = torch.arange(TABLE)[:, None] / 10_000 ** (column / d_model)
        return torch.where(column % 2 == 0, angle.sin(), angle.cos())


class AlwaysPositionZero(Specimen):
    """Decodes step by step with each token at position 0."""

    def next_position(self, state: SpecimenState) -> int:
        return 0


class LoudTying(Specimen):
    """Ties the output to an embedding drawn from N(0, 1)."""

    tied = True

    def __init__(self, *args, **sizes):
        super().__init__(*args, **sizes)
        nn.init.normal_(self.target_embedding.weight)


class ScaledLogits(Specimen):
    """Applies the embedding's sqrt(d_model) at the tied output too."""

    tied = True

    def project(self, x: Tensor) -> Tensor:
        return super().project(x) * self.target_embedding.scale


class UnbiasedNorm(Specimen):
    """Normalises by the unbiased standard deviation."""

    class norm(LayerNorm):
        def forward(self, x: Tensor) -> Tensor:
            std = x.std(dim=-1, keepdim=True)  # divides by d_model - 1
            return (x - x.mean(dim=-1, keepdim=True)) / (std + self.eps) * self.gain + self.bias

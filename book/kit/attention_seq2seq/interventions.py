"""Interventions: a trained model with attention, in which one thing is changed."""

from collections.abc import Callable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.seq2seq import AttentionSeq2Seq, AttentionState

Mask = Bool[Tensor, "batch key"]
Source = Int[Tensor, "batch source_time"]


class WithMask(nn.Module):
    """A trained model, its parameters as they are, that decodes with another mask.

    Args: model; change(mask, source), which returns the mask to use, or None for no mask at all.
    The result has `start` and `step`, so that `greedy` and `translate` take it.
    """

    def __init__(
        self, model: AttentionSeq2Seq, change: Callable[[Mask, Source], Mask | None]
    ) -> None:
        super().__init__()
        self.model = model
        self.change = change
        self.eval()

    def start(self, source: Source, source_lengths: Int[Tensor, " batch"]) -> AttentionState:
        state = AttentionState(*self.model.start(source, source_lengths))
        assert state.mask is not None  # the model makes one of the lengths
        return state._replace(mask=self.change(state.mask, source))

    def step(
        self, token: Int[Tensor, " batch"], state: AttentionState
    ) -> tuple[Float[Tensor, "batch vocab"], Float[Tensor, "batch key"] | None, AttentionState]:
        logits, weights, after = self.model.step(token, state)
        return logits, weights, AttentionState(*after)

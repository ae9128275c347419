"""Interventions: a trained model with attention, in which one thing is changed."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.seq2seq import AttentionSeq2Seq, AttentionState

Mask = Bool[Tensor, "batch key"]
Source = Int[Tensor, "batch source_time"]
Lengths = Int[Tensor, " batch"]


class Intervention(nn.Module):
    """A trained model with attention, its parameters as they are; a subclass changes its start.

    It has `start` and `step`, so that `greedy` and `translate` take it.
    """

    def __init__(self, model: AttentionSeq2Seq) -> None:
        super().__init__()
        self.model = model
        self.eval()

    def start(self, source: Source, source_lengths: Lengths) -> AttentionState:
        return AttentionState(*self.model.start(source, source_lengths))

    def step(
        self, token: Int[Tensor, " batch"], state: AttentionState
    ) -> tuple[Float[Tensor, "batch vocab"], Float[Tensor, "batch key"] | None, AttentionState]:
        logits, weights, after = self.model.step(token, state)
        return logits, weights, AttentionState(*after)


class WithMask(Intervention):
    """It decodes with another mask.

    Args: model; change(mask, source), which returns the mask to use, or None for no mask at all.
    """

    def __init__(
        self, model: AttentionSeq2Seq, change: Callable[[Mask, Source], Mask | None]
    ) -> None:
        super().__init__(model)
        self.change = change

    def start(self, source: Source, source_lengths: Lengths) -> AttentionState:
        state = super().start(source, source_lengths)
        assert state.mask is not None  # the model makes one of the lengths
        return state._replace(mask=self.change(state.mask, source))


class WithStates(Intervention):
    """At some positions the decoder gets the encoder's states of another source.

    Args: model; other(source), the other source, of the same lengths; taken(source), True at the
    positions whose states are from it. s_0 goes with the state at the last token.
    """

    def __init__(
        self,
        model: AttentionSeq2Seq,
        other: Callable[[Source], Source],
        taken: Callable[[Source], Mask],
    ) -> None:
        super().__init__(model)
        self.other = other
        self.taken = taken

    def start(self, source: Source, source_lengths: Lengths) -> AttentionState:
        own = super().start(source, source_lengths)
        other = super().start(self.other(source), source_lengths)
        taken = self.taken(source)
        last = taken.gather(1, source_lengths.unsqueeze(1) - 1)
        s, keys, projected = (
            torch.where(where, theirs, ours)
            for where, theirs, ours in (
                (last, other.s, own.s),
                (taken.unsqueeze(-1), other.keys, own.keys),
                (taken.unsqueeze(-1), other.projected, own.projected),
            )
        )
        return AttentionState(s, keys, projected, own.mask)


class WithFirstState(Intervention):
    """The decoder begins with the s_0 of another source; all its keys are those of its own.

    Args: model; other(source), the other source, of the same lengths.
    """

    def __init__(self, model: AttentionSeq2Seq, other: Callable[[Source], Source]) -> None:
        super().__init__(model)
        self.other = other

    def start(self, source: Source, source_lengths: Lengths) -> AttentionState:
        own = super().start(source, source_lengths)
        return own._replace(s=super().start(self.other(source), source_lengths).s)

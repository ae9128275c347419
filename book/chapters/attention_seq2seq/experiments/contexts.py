"""What helps: all states, a choice among them, or a choice for each word? Rivals of attention.

    python experiments/contexts.py [--only ...] [--seeds 0 1 2]

Trains the translator of chapter 1, whose decoder reads the encoder's last state at every step, and
beside it three whose decoders get all states, but do not choose among them anew for each word: one
reads their plain mean; one reads their weighted mean, with the weights that s_0 asks for; one reads
state 1 at its first step, state 2 at its second, and so on. Data, steps and rate are those of
chapter 1. Each run is added to results/contexts.json, and a run that is already there is skipped.
Of the first seed of the translator of chapter 1 the losses are kept too, and what it writes for the
held-out sentences: chapter 2 compares its own translations with them.
"""

import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.attention_seq2seq.by_length import ABOUT, D_HIDDEN, SETTINGS, train_and_evaluate
from lib.decoding import translate
from lib.seq2seq import AdditiveAttention, Decoder, DecoderState, Seq2Seq, real_positions
from measure.experiments import command_line, grid
from tasks.lists import D_EMBED, Sets

STEPS = (750, 1250)  # at which a run is evaluated: as long as chapter 2 trains, and chapter 1
LAST_STATE = "last state"
KEPT = {
    "losses": "of every step, first seed of the last state",
    "said": "the translations of the held-out sentences, first seed of the last state",
}


class MeanSeq2Seq(Seq2Seq):
    """The context is the mean of all states, the same at every step; s_0 is still the last state.

    So it is the model with attention, its weights held equal.
    """

    def start(self, source: Tensor, source_lengths: Tensor) -> DecoderState:
        states, last = self.encoder(source, source_lengths)  # states are zero at padding
        return DecoderState(s=last, context=states.sum(dim=1) / source_lengths.unsqueeze(1))


class FirstQuerySeq2Seq(Seq2Seq):
    """Attention whose query is s_0 at every step: it chooses among the states, but only once.

    It has all parameters of the model with attention.
    """

    def __init__(
        self, source_vocab: int, target_vocab: int, d_embed: int = D_EMBED, d_hidden: int = D_HIDDEN
    ):
        super().__init__(source_vocab, target_vocab, d_embed, d_hidden)
        self.attention = AdditiveAttention(d_hidden, d_hidden)

    def start(self, source: Tensor, source_lengths: Tensor) -> DecoderState:
        states, last = self.encoder(source, source_lengths)
        mask = real_positions(source_lengths, source.shape[1])
        return DecoderState(s=last, context=self.attention(last, states, mask)[0])


class InStepDecoder(Decoder):
    """At step t it reads the encoder's state number t; behind the last one, the last one again.

    The context of its `DecoderState` is (batch, time, d_hidden): one for each step to come.
    """

    def forward(self, target_in: Tensor, state: DecoderState) -> tuple[Tensor, None, DecoderState]:
        s, contexts = state
        steps = target_in.shape[1]
        at = torch.arange(steps, device=target_in.device).clamp(max=contexts.shape[1] - 1)
        projected = self.cell.input_map(self.embedding(target_in))
        projected = projected + self.context_map(contexts[:, at])
        states = []
        for y in projected.unbind(dim=1):
            s = self.cell.advance(y, s)
            states.append(s)
        left = contexts[:, min(steps, contexts.shape[1] - 1) :]
        return self.output(torch.stack(states, dim=1)), None, DecoderState(s, left)


class InStepSeq2Seq(Seq2Seq):
    """Another state at each step, but nobody chooses it: number t for word t; s_0 as ever."""

    def __init__(
        self, source_vocab: int, target_vocab: int, d_embed: int = D_EMBED, d_hidden: int = D_HIDDEN
    ):
        super().__init__(source_vocab, target_vocab, d_embed, d_hidden)
        self.decoder = InStepDecoder(target_vocab, d_embed, d_hidden)

    def start(self, source: Tensor, source_lengths: Tensor) -> DecoderState:
        states, last = self.encoder(source, source_lengths)
        real = real_positions(source_lengths, source.shape[1]).unsqueeze(-1)
        return DecoderState(s=last, context=torch.where(real, states, last.unsqueeze(1)))


MODELS = {
    LAST_STATE: Seq2Seq,
    "mean of all states": MeanSeq2Seq,
    "weights of the first query": FirstQuerySeq2Seq,
    "state t at step t": InStepSeq2Seq,
}


@cache
def sets() -> Sets:
    return Sets()


def run(model: str, seed: int) -> dict[str, Any]:
    """Train one model and evaluate it at STEPS."""
    data = sets()
    net, losses, found = train_and_evaluate(MODELS[model], seed, data, STEPS)
    if (model, seed) == (LAST_STATE, 0):
        found["losses"] = [round(loss, 4) for loss in losses]
        said = translate(net, data.test, *data.vocabularies)
        found["said"] = [" ".join(words) for words in said]
    return found


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"model": MODELS, "seed": (0, 1, 2)}, arguments)
    about = {"about": ABOUT | KEPT, "settings": SETTINGS}
    grid(run, given, lambda runs: {**about, "runs": runs}, keeps_runs=True)


if __name__ == "__main__":
    main()

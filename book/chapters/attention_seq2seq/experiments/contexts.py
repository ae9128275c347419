"""What helps, all states or their weights? Translators whose context is the same at every step.

    python experiments/contexts.py [--only ...] [--seeds 0 1 2]

Trains the translator of chapter 1, whose decoder reads the encoder's last state, and beside it one
whose decoder reads the plain mean of all states: attention with equal weights. Data, steps and rate
are those of chapter 1. Each run is added to results/contexts.json, and a run that is already there
is skipped. Of the first seed the losses are kept too, and what the translator of chapter 1 writes
for the held-out sentences: chapter 2 compares its own translations with them.
"""

import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.attention_seq2seq.experiments.attention_seeds import D_HIDDEN, LR, evaluate
from lib.data import endless
from lib.decoding import translate
from lib.notebook import seed_everything
from lib.seq2seq import DecoderState, Seq2Seq
from lib.training import train
from measure.experiments import command_line, grid
from tasks.lists import BATCH_SIZE, D_EMBED, EDGES, Sets

STEPS = (750, 1250)  # at which a run is evaluated: as long as chapter 2 trains, and chapter 1
ABOUT = {
    "exact": "share of sentences translated exactly, by tokens in the source",
    "long": "the same, of held-out sentences of 11 tokens and more",
    "losses": "of every step, first seed",
    "said": "the translations of the held-out sentences, first seed of the last state",
    "seconds": "of the processor, training alone",
}


class MeanSeq2Seq(Seq2Seq):
    """The context is the mean of all states, the same at every step; s_0 is still the last state.

    So it is the model with attention, its weights held equal.
    """

    def start(self, source: Tensor, source_lengths: Tensor) -> DecoderState:
        states, last = self.encoder(source, source_lengths)  # states are zero at padding
        return DecoderState(s=last, context=states.sum(dim=1) / source_lengths.unsqueeze(1))


MODELS = {"last state": Seq2Seq, "mean of all states": MeanSeq2Seq}


@cache
def sets() -> Sets:
    return Sets()


def run(model: str, seed: int) -> dict[str, Any]:
    """Train one model and evaluate it at STEPS."""
    data = sets()
    seed_everything(seed)
    net = MODELS[model](*map(len, data.vocabularies), D_EMBED, D_HIDDEN)
    stream = endless(data.training, *data.vocabularies, BATCH_SIZE, seed=seed)
    checkpoints = []
    spent = 0.0
    begun = time.process_time()

    def look(step: int, loss: Tensor) -> None:
        nonlocal begun, spent
        if step in STEPS:
            spent += time.process_time() - begun
            net.eval()
            with torch.no_grad():
                checkpoints.append({"step": step} | evaluate(net, data))
            net.train()
            begun = time.process_time()

    losses = train(net, stream, STEPS[-1], LR, after_update=look)
    parameters = sum(p.numel() for p in net.parameters())
    found = {"parameters": parameters, "seconds": round(spent, 1), "checkpoints": checkpoints}
    if seed == 0:
        found["losses"] = [round(loss, 4) for loss in losses]
        if model == "last state":
            said = translate(net, data.test, *data.vocabularies)
            found["said"] = [" ".join(words) for words in said]
    return found


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, {"model": MODELS, "seed": (0, 1, 2)}, arguments)
    settings = {"d_hidden": D_HIDDEN, "d_embed": D_EMBED, "lr": LR, "batch_size": BATCH_SIZE}
    about = {"about": ABOUT, "settings": {**settings, "edges": EDGES}}
    grid(run, given, lambda runs: {**about, "runs": runs}, keeps_runs=True)


if __name__ == "__main__":
    main()

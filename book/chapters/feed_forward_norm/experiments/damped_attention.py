"""Why damping its self-attention rescues a post-norm Transformer: what must be small, and where.

    python experiments/damped_attention.py [--seeds 0 1 2] [--steps 600]

The model, the task and the training are those of `norm_depth_seeds.py`, without warm-up, up to the
middle of its 1,200 steps: by then its losses show which models learn. All settings but the first
change the self-attention of a post-norm model, and each one thing: its output is multiplied by .3,
in both stacks or in one; its queries and keys are, which makes its scores .09 times as large; or
its parameters are moved by .3 of the learning rate. It writes results/damped_attention.json, which
the chapter loads: by setting, for each seed, the mean loss of the last 50 steps, and how alike the
vectors of a sentence's first three positions are on top of each stack (mean cosine similarity),
before training, after the updates of "watched at", and at the end. A quarter of a minute of one
core for each run.
"""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.feed_forward_norm.experiments.norm_depth_seeds import (
    BATCH_SIZE,
    LR,
    WINDOW,
    build,
    data,
    vocabularies_of,
)
from lib.attention import MultiHeadAttention
from lib.data import Batch, endless, make_batch
from lib.training import cosine, train
from lib.transformer import Transformer
from measure.experiments import Run, by_setting, command_line, grid

FACTOR = 0.3
WHOLE = 1200  # steps of the schedule
WATCHED = (25, 50, 100, 200, 400)


class TwoSpeeds(torch.optim.Adam):
    """Adam, which moves some parameters by FACTOR of the learning rate."""

    def __init__(self, slow: Iterable[nn.Parameter], others: Iterable[nn.Parameter]):
        groups = [{"params": list(slow), "speed": FACTOR}, {"params": list(others), "speed": 1.0}]
        super().__init__(groups, fused=True)

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        for group in self.param_groups:
            group["lr"] *= group["speed"]  # the training sets it before each step
        return super().step(closure)


def self_attentions(*stacks: nn.Module) -> list[MultiHeadAttention]:
    return [layer.self_attention.sublayer for stack in stacks for layer in stack.layers]


def damp(part: nn.Module) -> None:
    """Multiply what a part returns by FACTOR."""
    part.register_forward_hook(lambda part, inputs, output: FACTOR * output)


def nothing(model: Transformer) -> None:
    pass


def outputs(model: Transformer) -> None:
    for attention in self_attentions(model.encoder, model.decoder):
        damp(attention)


def outputs_of_encoder(model: Transformer) -> None:
    for attention in self_attentions(model.encoder):
        damp(attention)


def outputs_of_decoder(model: Transformer) -> None:
    for attention in self_attentions(model.decoder):
        damp(attention)


def queries_and_keys(model: Transformer) -> None:
    for attention in self_attentions(model.encoder, model.decoder):
        damp(attention.w_q)
        damp(attention.w_k)


SLOWER = "learning rate"
SETTINGS: dict[str, Callable[[Transformer], None]] = {  # what is multiplied by FACTOR
    "nothing": nothing,
    "output": outputs,
    "output, encoder": outputs_of_encoder,
    "output, decoder": outputs_of_decoder,
    "queries and keys": queries_and_keys,
    SLOWER: nothing,
}


@torch.no_grad()
def alike(model: Transformer, batch: Batch) -> dict[str, float]:
    """The mean cosine similarity of the first three positions of a sentence, by stack."""
    memory, mask = model.encode(batch.source, batch.source_lengths)
    written = model.decoder(model.target_embedding(batch.target_in), memory, mask)
    found = {}
    for stack, vectors in (("encoder", memory), ("decoder", written)):
        unit = F.normalize(vectors[:, :3], dim=-1)
        found[stack] = ((unit @ unit.mT).sum((1, 2)) - 3).mean().item() / 6
    return found


def run(setting: str, seed: int, steps: int) -> dict[str, Any]:
    """Train one model and say how it went."""
    training, _ = data()
    vocabularies = vocabularies_of(training)
    model = build(vocabularies, "post", 6, None, seed)
    SETTINGS[setting](model)
    fixed = make_batch(training[:64], *vocabularies)
    similar = [alike(model, fixed)]

    def watch(step: int, loss: Tensor) -> None:
        if step in (*WATCHED, steps):
            similar.append(alike(model, fixed))

    optimizer = None
    if setting == SLOWER:
        slow = nn.ModuleList(self_attentions(model.encoder, model.decoder))
        moved = {id(p) for p in slow.parameters()}
        others = [p for p in model.parameters() if id(p) not in moved]
        optimizer = TwoSpeeds(slow.parameters(), others)
    losses = train(
        model,
        endless(training, *vocabularies, BATCH_SIZE, seed=seed),
        steps,
        LR,
        schedule=cosine(WHOLE),
        optimizer=optimizer,
        after_update=watch,
    )
    by_stack = {stack: [round(x[stack], 4) for x in similar] for stack in similar[0]}
    return {"loss": round(sum(losses[-WINDOW:]) / WINDOW, 4), **by_stack}


def record(runs: list[Run], steps: int) -> dict[str, Any]:
    facts = {"steps": steps, "rate": LR, "factor": FACTOR, "watched at": WATCHED}
    return {**facts, "settings": by_setting(runs)}


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": SETTINGS, "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, steps=600)
    options = vars(given.options)
    grid(partial(run, **options), given, partial(record, **options))


if __name__ == "__main__":
    main()

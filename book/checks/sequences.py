"""Properties of every model that reads a source and writes a target."""

from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from checks.framework import Steps, check, expect_tensor, require
from lib.data import EOS, PAD
from lib.layers import in_mode

LENGTHS = (3, 7, 1, 5, 2)  # of sources in a padded batch; 7 is the longest


@check("sequence model")
@torch.no_grad()
def check_sequence_model(
    model: Any, source_vocab: int, target_vocab: int, *, atol: float = 1e-5
) -> Steps:
    """Check any model with forward(source, source_lengths, target_in), start and step.

    The model is checked in evaluation mode and put back into its own.
    """
    with in_mode(model, training=False):
        device = next(model.parameters()).device
        generator = torch.Generator().manual_seed(0)
        lengths = torch.tensor(LENGTHS, device=device)
        real = torch.arange(7, device=device) < lengths[:, None]
        source = torch.randint(EOS + 1, source_vocab, (5, 7), generator=generator).to(device)
        source = source.masked_fill(~real, PAD)
        target_in = torch.randint(EOS + 1, target_vocab, (5, 4), generator=generator).to(device)
        logits = expect_tensor(model(source, lengths, target_in), (5, 4, target_vocab))
        same = partial(torch.allclose, rtol=0, atol=atol)
        noisy = torch.where(real, source, EOS + 1)
        require(same(model(noisy, lengths, target_in), logits), "padding in the source is read")
        yield "padding is not read"

        for row, length in enumerate(LENGTHS):
            alone = model(source[row, None, :length], lengths[row, None], target_in[row, None])
            require(
                same(alone[0], logits[row]),
                f"a source of length {length} gets other logits alone than in a batch padded to 7",
            )
        yield "a sentence gets the same logits alone and in a batch"

        other = model(another(source, source_vocab), lengths, target_in)
        yield {"the source was changed and the logits were not": same(other, logits)}
        for t in range(4):
            changed = target_in.clone()
            changed[:, t] = another(changed[:, t], target_vocab)
            moved = ~torch.isclose(model(source, lengths, changed), logits, 0, atol).all(-1).all(0)
            yield {
                f"a step before {t} depends on token {t}": moved[:t].any(),
                f"step {t} does not depend on its token": not moved[t],
            }
        yield "no step depends on a later token, and each depends on its own and the source"

        state, steps = model.start(source, lengths), []
        for token in target_in.unbind(1):
            step, _, state = model.step(token, state)
            steps.append(step)
        require(same(torch.stack(steps, dim=1), logits), "step by step gives other logits")
        yield "step by step gives the same logits as all at once"


def another(ids: Int[Tensor, "..."], vocab: int) -> Int[Tensor, "..."]:
    """Another word at each position, none of them special."""
    return EOS + 1 + (ids - EOS).clamp(min=0) % (vocab - EOS - 1)

"""Training: the loss over real tokens, a learning-rate schedule, and one loop for every model.

The loop knows nothing of GRUs or Transformers: it needs a model with
`model(source, source_lengths, target_in) -> logits` and a stream of batches.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import count

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from lib.data import PAD, Batch, Pair, Vocabulary, batches

REPORT_EVERY = 20  # reading a loss makes the processor wait for the GPU: not at every step


def token_loss(
    logits: Float[Tensor, "batch target_time vocab"],
    target_out: Int[Tensor, "batch target_time"],
) -> Float[Tensor, ""]:
    """Cross-entropy, averaged over real tokens: padding counts neither above nor below the line.

    loss = -sum over real positions of log softmax(logits)[target] / number of real positions

    A batch without a real token gives 0. Source: ours. Chapter: 1 (Sequence to sequence).
    """
    total = F.cross_entropy(
        logits.flatten(0, 1), target_out.flatten(), ignore_index=PAD, reduction="sum"
    )
    return total / (target_out != PAD).sum().clamp(min=1)


def cosine(steps: int, warmup: int = 0) -> Callable[[int], float]:
    """A schedule: the factor on the learning rate rises over `warmup` steps, then falls to 0.

    factor(step) = (step + 1) / warmup                                 for step < warmup
                   (1 + cos(pi (step - warmup) / (steps - warmup))) / 2   after it
    Errors: ValueError unless 0 <= warmup < steps. Source: ours. Chapter: 11 (Training).
    """
    if not 0 <= warmup < steps:
        raise ValueError(
            f"expected 0 <= warmup < steps, got warmup={warmup} and steps={steps}: "
            "leave steps in which the rate can fall"
        )

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / (steps - warmup))))

    return factor


def endless(
    pairs: list[Pair],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    batch_size: int,
    *,
    seed: int = 0,
) -> Iterator[Batch]:
    """Batches without end: one epoch after another, each in a new order.

    Source: ours. Chapter: 1 (Sequence to sequence).
    """
    for epoch in count():
        yield from batches(pairs, source_vocab, target_vocab, batch_size, seed=seed * 1000 + epoch)


def train(
    model: nn.Module,
    batch_stream: Iterable[Batch],
    steps: int,
    lr: float,
    *,
    schedule: Callable[[int], float] | None = None,
    clip: float = 1.0,
    loss_function: Callable[[Tensor, Tensor], Tensor] = token_loss,
    optimizer: torch.optim.Optimizer | None = None,
) -> list[float]:
    """Take `steps` steps of Adam, one batch each, on the device that holds the model.

    The gradient is scaled down to norm `clip` when it is longer. `schedule(step)` multiplies `lr`;
    `optimizer` replaces the plain Adam. The model is left in evaluation mode.
    Returns: the loss of every step.
    Errors: ValueError for a bad number, or a stream that ends before the last step;
    FloatingPointError when the loss is no longer finite.
    Source: Pascanu et al. 2013 (clipping); Kingma and Ba 2015 (Adam).
    Chapter: 1 (Sequence to sequence), 11 (Training).
    """
    for name, value in (("steps", steps), ("lr", lr), ("clip", clip)):
        if not value > 0:
            raise ValueError(f"expected {name} above 0, got {value}")
    if optimizer is None:
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
    device = next(model.parameters()).device
    model.train()
    losses: list[Tensor] = []
    stream = iter(batch_stream)
    bar = tqdm(range(steps), unit="step")
    for step in bar:
        batch = next(stream, None)
        if batch is None:
            raise ValueError(
                f"expected {steps} batches, got {step}: give a longer stream, e.g. endless(...)"
            )
        batch = batch.to(device)
        for group in optimizer.param_groups:
            group["lr"] = lr * (schedule(step) if schedule else 1.0)
        logits = model(batch.source, batch.source_lengths, batch.target_in)
        loss = loss_function(logits, batch.target_out)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.detach())
        if step % REPORT_EVERY == REPORT_EVERY - 1 or step == steps - 1:
            shown = loss.item()
            if not math.isfinite(shown):
                raise FloatingPointError(
                    f"expected a finite loss, got {shown} by step {step + 1}: lower lr, or warm up"
                )
            bar.set_postfix(loss=f"{shown:.3f}")
    model.eval()
    return torch.stack(losses).tolist()

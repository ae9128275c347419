"""Mistakes beside the model: in the schedule, the loss, sampling and scoring."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lib.metrics import bleu


def rates_by_micro_batch(
    schedule: Callable[[int], float], updates: int, accumulate: int
) -> list[float]:
    """Advances the schedule with every micro-batch."""
    rates, step = [], 0
    for _ in range(updates):
        for _ in range(accumulate):
            rate = schedule(step)
            step += 1
        rates.append(rate)
    return rates


def smoothed_by_products(logits: Tensor, target: Tensor, smoothing: float = 0.1) -> Tensor:
    """Multiplies ln p by a target of 0 where p is 0 too."""
    log_p = logits.log_softmax(-1)
    allowed = logits > -torch.inf  # a token that may not be said is not asked for
    wanted = smoothing * allowed / allowed.sum(-1, keepdim=True)
    wanted = wanted.scatter_add(-1, target[:, None], torch.full(wanted.shape, 1 - smoothing))
    return -(wanted * log_p).sum(-1).mean()


def top_k_tiny_filler(logits: Tensor, k: int) -> Tensor:
    """Sets what top-k removes to 1e-10, a logit."""
    smallest = logits.topk(k, dim=-1).values[..., -1:]
    return torch.where(logits < smallest, 1e-10, logits)


def bleu_swapped(predictions: Sequence, references: Sequence) -> float:
    """Gives BLEU its arguments in the wrong order."""
    return bleu(references, predictions).score

"""What a right table of positions, a schedule, a loss, a filter and a score do.

`chapters.mistakes.properties` asks these without gradients, each of its own kind of piece."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from chapters.mistakes.layer_properties import Found, normal
from checks.framework import asks, decide


@asks("shift", "Is there one matrix that shifts all positions alike?")
def shift_is_linear(table: Tensor) -> Found:
    """Fit M with PE(pos) M = PE(pos + 5) to all positions; the number is what is left over."""
    table = table.double()
    matrix = torch.linalg.lstsq(table[:-5], table[5:], driver="gelsd").solution
    residual = (table[:-5] @ matrix - table[5:]).abs().max().item()
    bad = "no single matrix shifts all positions: sine and cosine of a pair need one frequency"
    return decide(residual, 1e-3, "one matrix shifts them all", bad)


@asks("updates", "Does the schedule move on once an update?")
def rate_follows_updates(rates: Callable[..., Sequence[float]]) -> Found:
    """rates(schedule, updates, accumulate) -> the rate of each update; the number is how many are
    wrong.
    """
    wrong = 0
    for accumulate in (1, 10):
        got = list(rates(lambda step: step / 100, 7, accumulate))
        wrong += sum(a != step / 100 for step, a in enumerate(got)) + abs(len(got) - 7)
    return decide(wrong, 0, "one step an update", "the schedule counts micro-batches")


@asks("forbidden", "Is the loss finite where a token has probability 0?")
@torch.enable_grad()
def forbidden_is_free(loss: Callable[[Tensor, Tensor], Tensor]) -> Found:
    """loss(logits (rows, vocab), target (rows,)) with one logit at -inf that is no target."""
    logits = normal(4, 6).index_fill(1, torch.tensor([0]), -torch.inf).requires_grad_()
    value = loss(logits, torch.tensor([1, 2, 3, 5]))
    (gradient,) = torch.autograd.grad(value, logits)
    wrong = [x for x in (value, gradient) if not x.isfinite().all()]
    return decide(len(wrong), 0, "loss and gradient are finite", f"the loss is {value.item()}")


@asks("removed", "Has a token that was filtered out probability 0?")
def cut_is_zero(cut: Callable[[Tensor, int], Tensor]) -> Found:
    """cut(logits, k) leaves k tokens; the number is the chance of all others together."""
    logits = normal(5, 11) - 1
    chance = cut(logits, 3).softmax(-1)
    rest = chance.scatter(-1, logits.topk(3).indices, 0.0).sum(-1).max().item()
    return decide(
        rest, 0, "exactly 0", "what was filtered out can still be sampled: is the filler -inf?"
    )


@asks("brevity", "Is an answer that stops half-way penalised for its length alone?")
def brevity_is_punished(score: Callable[[Sequence, Sequence], float]) -> Found:
    """score(predictions, references), where the predictions are the first half: 100 / e."""
    references = [[f"w{i}" for i in range(20)], [f"v{i}" for i in range(12)]]
    found = float(score([words[: len(words) // 2] for words in references], references))
    wanted = 100 * math.exp(-1)
    held = abs(found - wanted) < 0.01
    return held, found, "100 / e, as it must be" if held else f"expected {wanted:.1f}: swapped?"

"""Training: schedules, the loss over real tokens, Adam as in the paper, one loop for every model.

The loop knows nothing of GRUs, Transformers or sentences. It asks for a model, batches with a
method `to(device)`, and `loss(model, batch)`, which gives the sum of the losses over the real
tokens of the batch, and their number: `teacher_forcing`, for every model that translates.
"""

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm.auto import tqdm

from lib.data import PAD, Batch
from lib.layers import in_mode

Schedule = Callable[[int], float]
Loss = Callable[[nn.Module, Any], tuple[Tensor, Tensor | int]]  # the sum over tokens, their number
REPORT_EVERY = 20  # reading a loss makes the processor wait for the GPU: not at every step


def cosine(steps: int, warmup: int = 0) -> Schedule:
    """A schedule: the factor on the learning rate rises over `warmup` steps, then falls to 0.

    factor(step) = (step + 1) / warmup                                 for step < warmup
                   (1 + cos(pi (step - warmup) / (steps - warmup))) / 2   after it
    Errors: ValueError unless 0 <= warmup < steps.
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


def warm_up(warmup: int) -> Schedule:
    """A schedule: the factor rises to 1 over `warmup` steps and stays there.

    factor(step) = min(1, (step + 1) / warmup)

    With a warmup of 0 or less it is 1 from the first step on.
    """
    return lambda step: min(1.0, (step + 1) / warmup) if warmup > 0 else 1.0


def paper_schedule(d_model: int, warmup: int = 4000) -> Schedule:
    """The paper's schedule: the rate itself, so it is used with lr=1.

    rate(step) = d_model^-0.5 min(n^-0.5, n warmup^-1.5)   with n = step + 1

    It rises in a straight line to (d_model warmup)^-0.5 at n = warmup, then falls as 1 / sqrt(n).

    Errors: ValueError for d_model or warmup below 1.
    Source: Attention Is All You Need, section 5.3, equation 3.
    """
    for name, value in (("d_model", d_model), ("warmup", warmup)):
        if value < 1:
            raise ValueError(f"expected {name} of at least 1, got {value}; the paper has 512, 4000")
    return lambda step: d_model**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)


@contextmanager
def low_precision(device: torch.device, dtype: torch.dtype | None) -> Iterator[None]:
    """Compute the large matrix multiplications in `dtype`; with None, change nothing.

    On a processor attention takes its plain kernel meanwhile: at the length of a sentence the
    fused one's backward pass takes several times longer in 16 bits than in 32.

    Source: torch.autocast; ours.
    """
    on_processor = dtype is not None and device.type == "cpu"
    kernel = sdpa_kernel(SDPBackend.MATH) if on_processor else nullcontext()
    with torch.autocast(device.type, dtype, enabled=dtype is not None), kernel:
        yield


def token_loss(
    logits: Float[Tensor, "batch target_time vocab"],
    target_out: Int[Tensor, "batch target_time"],
    *,
    reduction: str = "mean",
) -> Float[Tensor, ""]:
    """Cross-entropy, averaged over real tokens: padding counts neither above nor below the line.

    loss = -sum over real positions of log softmax(logits)[target] / number of real positions

    A batch without a real token gives 0. With reduction "sum" nothing is divided.

    Errors: ValueError for targets of another shape or outside the vocabulary.
    """
    _require_targets(logits, target_out)
    total = F.cross_entropy(
        logits.flatten(0, 1), target_out.flatten(), ignore_index=PAD, reduction="sum"
    )
    return _reduced(total, target_out, reduction)


def label_smoothed_loss(
    logits: Float[Tensor, "batch target_time vocab"],
    target_out: Int[Tensor, "batch target_time"],
    smoothing: float = 0.1,
    *,
    reduction: str = "mean",
) -> Float[Tensor, ""]:
    """Cross-entropy against (1 - smoothing) one-hot + smoothing uniform, mean over real tokens.

    loss = (1 - smoothing) * (-log p(target)) + smoothing * (mean over the vocabulary of -log p)

    With smoothing 0 it is `token_loss`. A batch without a real token gives 0.

    Errors: ValueError for a smoothing outside 0 to 1, and as `token_loss`.
    Source: Szegedy et al. 2016, section 7; Attention Is All You Need, section 5.4.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"expected 0 <= smoothing < 1, got {smoothing}; the paper has 0.1")
    _require_targets(logits, target_out)
    log_p = logits.log_softmax(dim=-1)  # (batch, target_time, vocab)
    on_target = -log_p.gather(-1, target_out.unsqueeze(-1)).squeeze(-1)  # (batch, target_time)
    everywhere = -log_p.mean(dim=-1)  # (batch, target_time)
    loss = (1 - smoothing) * on_target + smoothing * everywhere
    return _reduced(loss.masked_fill(target_out == PAD, 0.0).sum(), target_out, reduction)


def _require_targets(logits: Tensor, target_out: Tensor) -> None:
    if logits.shape[:-1] != target_out.shape or target_out.dtype != torch.int64:
        raise ValueError(
            "expected logits (batch, target_time, vocab) and targets (batch, target_time) of "
            f"torch.int64, got {tuple(logits.shape)} and {tuple(target_out.shape)} of "
            f"{target_out.dtype}; the target is what comes one step later than target_in"
        )
    if target_out.device.type == "cpu" and target_out.numel():  # on a GPU looking takes long
        least, most = target_out.min().item(), target_out.max().item()
        if least < 0 or most >= logits.shape[-1]:
            raise ValueError(
                f"expected targets from 0 to {logits.shape[-1] - 1}, got {least} to {most}; "
                "encode them with the vocabulary that the model was made for"
            )


def _reduced(total: Tensor, target_out: Tensor, reduction: str) -> Tensor:
    if reduction not in ("mean", "sum"):
        raise ValueError(f'expected reduction "mean" or "sum", got {reduction!r}')
    return total / (target_out != PAD).sum().clamp(min=1) if reduction == "mean" else total


def _measured(loss: Loss, model: Any, batch: Any) -> tuple[Tensor, Tensor | int]:
    """Call a loss: the sum of the losses over the batch's tokens, and their number.

    Errors: ValueError for a loss that gives something else, such as a mean: means of batches with
        different numbers of tokens cannot be added up.
    """
    if loss in (token_loss, label_smoothed_loss):
        raise ValueError(
            f"expected a loss of (model, batch), got {loss.__name__}, which compares logits with "
            f"targets; give loss=partial(teacher_forcing, criterion={loss.__name__})"
        )
    measured = loss(model, batch)
    if not isinstance(measured, tuple) or len(measured) != 2:
        raise ValueError(
            "expected loss(model, batch) to return two things, the sum of the losses over the "
            f"tokens and the number of tokens, got {type(measured).__name__}; token_loss gives a "
            'mean unless it is called with reduction="sum": return that sum, and '
            "(target_out != PAD).sum()"
        )
    return measured


def teacher_forcing(
    model: Any,
    batch: Any,
    *,
    criterion: Callable[..., Tensor] = token_loss,
    autocast: torch.dtype | None = None,
    real_only: bool = False,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """The loss of a model that reads the right target up to each token and predicts the next one.

    Args:
        model: model(source, source_lengths, target_in) gives the logits.
        batch: what has the fields of `lib.data.Batch`.
        criterion: such as `token_loss`, called with (logits, target_out, reduction="sum").
        autocast: torch.bfloat16 computes the large matrix multiplications in that type; parameters
            and loss stay as they are.
        real_only: leave padding out of the work, with a model that has `real_logits`; the criterion
            then gets all real tokens as one sequence, (1, tokens, vocab) and (1, tokens).
    Returns: the sum of the losses over the real tokens of target_out, and their number.
    """
    inputs, target = (batch.source, batch.source_lengths, batch.target_in), batch.target_out
    real = target != PAD
    with low_precision(target.device, autocast):
        if real_only:
            logits, target = model.real_logits(*inputs, real.sum(dim=1))[None], target[real][None]
        else:
            logits = model(*inputs)
    if autocast is not None:
        logits = logits.float()  # 8 bits are too few for a sum of logs
    return criterion(logits, target, reduction="sum"), real.sum()


def count_tokens(batch: Batch) -> int:
    """How many tokens the model must predict: the targets and their EOS, without padding."""
    return int((batch.target_out != PAD).sum())


def paper_adam(model: nn.Module) -> torch.optim.Adam:
    """Adam as in the paper: beta_1 0.9, beta_2 0.98, epsilon 1e-9. The rate is set by `train`.

    It forgets squared gradients after about 50 updates, where Adam's usual 0.999 takes 1,000.
    Source: Attention Is All You Need, section 5.3.
    """
    return torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)


def update(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    parts: Sequence[Any],
    loss: Loss = teacher_forcing,
    *,
    clip: float = 1.0,
) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
    """Take one step of the optimiser on several batches, as if they were one big batch.

    loss = sum over micro-batches of the losses of their tokens / number of tokens in all of them

    Gradients add up over the micro-batches, `parts`, so each may be as big as the memory holds.
    They count by their tokens: a mean of means would give the tokens of a short one more weight.

    Args:
        model: what is trained.
        optimizer: over the model's parameters.
        parts: the micro-batches.
        loss: the sum over a batch's tokens, and their number.
        clip: the norm down to which a longer gradient is scaled.
    Returns: the loss before the step, without a gradient, and the number of tokens.
    Errors: ValueError for a loss that gives a mean.
    Source: Pascanu et al. 2013 (clipping).
    """
    device = next(model.parameters()).device
    optimizer.zero_grad(set_to_none=True)
    sums, counts = [], []
    for part in parts:
        total, n_tokens = _measured(loss, model, part.to(device))
        sums.append(total.detach())
        counts.append(torch.as_tensor(n_tokens, device=device).clamp(min=1))
        # How many tokens all parts have is known after the last one, and only the loss can count
        # them. So the gradients of several sums are added up, and divided below; the sum over a
        # single batch is divided at once.
        (total / counts[0] if len(parts) == 1 else total).backward()
    tokens = torch.stack(counts).sum()
    if len(parts) > 1:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(tokens)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return torch.stack(sums).sum() / tokens, tokens


def train(
    model: nn.Module,
    batch_stream: Iterable[Any],
    steps: int,
    lr: float,
    *,
    loss: Loss = teacher_forcing,
    schedule: Schedule | None = None,
    clip: float = 1.0,
    optimizer: torch.optim.Optimizer | None = None,
    accumulate: int = 1,
    start: int = 0,
    after_update: Callable[[int, Tensor], None] | None = None,
) -> list[float]:
    """Take `steps` steps of Adam, one batch each, on the device that holds the model.

    The model is left in evaluation mode; after an error, in the mode that it came in.

    Args:
        model: what is trained.
        batch_stream: gives the batches.
        steps: the number of updates of the whole run.
        lr: the learning rate.
        loss: loss(model, batch), the sum of the losses over the batch's tokens, and their number.
        schedule: schedule(step), a factor on `lr`.
        clip: the norm down to which a longer gradient is scaled.
        optimizer: in place of Adam with torch's own defaults.
        accumulate: batches that make one step, see `update`.
        start: the step at which a run that goes on begins.
        after_update: after_update(steps so far, loss), called after each step, to validate or save.
    Returns: the loss of every step.
    Errors: ValueError for a bad number, a loss that gives a mean, or a stream that ends before the
        last step; FloatingPointError when the loss is no longer finite.
    Source: Pascanu et al. 2013 (clipping); Kingma and Ba 2015 (Adam).
    """
    for name, value in (("steps", steps), ("lr", lr), ("clip", clip), ("accumulate", accumulate)):
        if not value > 0:
            raise ValueError(f"expected {name} above 0, got {value}")
    if not 0 <= start < steps:
        raise ValueError(f"expected a start from 0 to {steps - 1}, got {start}: a step is left")
    if optimizer is None:
        optimizer = torch.optim.Adam(model.parameters(), fused=True)
    losses: list[Tensor] = []
    stream = iter(batch_stream)
    tokens, since = torch.zeros(()), time.perf_counter()
    hidden = "TQDM_DISABLE" in os.environ  # the bar of a notebook does not read it by itself
    bar = tqdm(range(start, steps), initial=start, total=steps, unit="step", disable=hidden)
    with in_mode(model, training=True):
        for step in bar:
            parts = list(islice(stream, accumulate))
            if len(parts) < accumulate:
                raise ValueError(
                    f"expected {(steps - start) * accumulate} batches, got "
                    f"{(step - start) * accumulate + len(parts)}: give a longer stream, e.g. "
                    "endless(...)"
                )
            for group in optimizer.param_groups:
                group["lr"] = lr * (schedule(step) if schedule else 1.0)
            mean, read = update(model, optimizer, parts, loss, clip=clip)
            losses.append(mean)
            tokens = tokens.to(read.device) + read
            if step % REPORT_EVERY == REPORT_EVERY - 1 or step == steps - 1:
                shown = mean.item()
                if not math.isfinite(shown):
                    raise FloatingPointError(
                        f"expected a finite loss, got {shown} by step {step + 1}: "
                        "lower lr, or warm up"
                    )
                rate = tokens.item() / (time.perf_counter() - since)
                bar.set_postfix_str(f"loss {shown:.3f}, {rate:,.0f} tokens/s")
            if after_update:
                after_update(step + 1, mean)
    model.eval()
    return torch.stack(losses).tolist()


@torch.no_grad()
def validation_loss(
    model: nn.Module, batches: Iterable[Any], *, loss: Loss = teacher_forcing
) -> float:
    """The loss over all real tokens of the batches, without dropout and without learning.

    Its exponential is the perplexity: among how many equally likely tokens the model hesitates.
    Batches may differ in size; each token counts once. The model is left in the mode it was in.

    Errors: ValueError for batches without a real token, and for a loss that gives a mean.
    """
    device = next(model.parameters()).device
    with in_mode(model, training=False):
        measured = [_measured(loss, model, batch.to(device)) for batch in batches]
    tokens = sum(int(number) for _, number in measured)
    if not tokens:
        raise ValueError("expected batches with at least one token, got none to validate on")
    return torch.stack([total for total, _ in measured]).sum().item() / tokens

"""A task for one attention layer: find the key that a hidden rotation turned into the query."""

import math
from statistics import median
from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from lib.attention import scaled_dot_product_attention

BATCH, N_KEYS, D_V = 64, 16, 8
EQUAL_WEIGHTS = 1 - 1 / N_KEYS  # the squared error of a layer that knows nothing
DIMENSIONS = (16, 32, 64, 128, 256)
SOLVED = 0.1  # the squared error below which the layer finds nearly every value
Variant = Literal["scaled", "raw", "raw, small start", "scaled, big start"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)[:3]  # those of the figures
BIG_START: Variant = get_args(Variant)[3]  # a control


def rotated_lookup_batch(
    rotation: Float[Tensor, "d_k d_k"], generator: torch.Generator, batch: int = BATCH
) -> tuple[
    Float[Tensor, "batch 1 d_k"], Float[Tensor, "batch key d_k"], Float[Tensor, "batch key d_v"]
]:
    """Draw problems: 16 random keys with values, and a query, the first key after the rotation.

    The right output is the first value. Returns query, key and value.
    """
    key = torch.randn(batch, N_KEYS, len(rotation), generator=generator)
    value = torch.randn(batch, N_KEYS, D_V, generator=generator)
    return key[:, :1] @ rotation, key, value


def _start(
    d_k: int, variant: Variant, generator: torch.Generator
) -> tuple[Float[Tensor, "d_k d_k"], Float[Tensor, "d_k d_k"], Float[Tensor, "d_k d_k"]]:
    """The hidden rotation, and W_Q and W_K before the first step."""
    rotation = torch.linalg.qr(torch.randn(d_k, d_k, generator=generator))[0]
    start = (torch.rand(2, d_k, d_k, generator=generator) * 2 - 1) * math.sqrt(3 / d_k)
    if variant == "raw, small start":
        start[0] /= math.sqrt(d_k)
    if variant == "scaled, big start":
        start[0] *= math.sqrt(d_k)
    w_q, w_k = (w.clone().requires_grad_() for w in start)  # the others keep the variance at 1
    return rotation, w_q, w_k


def _errors(
    variant: Variant,
    query: Float[Tensor, "batch 1 d_k"],
    key: Float[Tensor, "batch key d_k"],
    value: Float[Tensor, "batch key d_v"],
) -> Float[Tensor, " batch"]:
    """The squared error of each problem, with query and key already multiplied by W_Q and W_K."""
    undo = math.sqrt(query.shape[-1]) if variant.startswith("raw") else 1  # the library divides
    output = scaled_dot_product_attention(undo * query, key, value)
    return (output - value[:, :1]).square().mean(dim=(1, 2))


def train_rotated_lookup(
    d_k: int,
    variant: Variant,
    seed: int,
    lr: float = 1e-3,
    steps: int = 250,
    w_q_rate: float = 1.0,
    batch: int = BATCH,
) -> list[float]:
    """Train W_Q and W_K with Adam to undo the rotation; return the squared error at each step.

    Args: variant, what is done to the scores: "scaled" divides them by sqrt(d_k), "raw" does not.
        "raw, small start" does not either, but starts W_Q smaller by sqrt(d_k), so that the layer
        computes the same as the scaled one before the first step. "scaled, big start" divides, but
        starts W_Q larger by sqrt(d_k), and begins as the raw one. w_q_rate, what the learning rate
        of W_Q is multiplied by; batch, the problems of an update.
    """
    generator = torch.Generator().manual_seed(seed)
    rotation, w_q, w_k = _start(d_k, variant, generator)
    groups: list[dict[str, Any]] = [{"params": [w_q], "lr": w_q_rate * lr}, {"params": [w_k]}]
    optimiser = torch.optim.Adam(groups, lr=lr)
    losses = []
    for _ in range(steps):
        query, key, value = rotated_lookup_batch(rotation, generator, batch)
        loss = _errors(variant, query @ w_q, key @ w_k, value).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


class FirstGradient(NamedTuple):
    """What the layer meets before its first step: see `first_gradient`."""

    error: float
    norm: float
    signal_to_noise: float
    by_problem: Float[Tensor, " problem"]
    gap: Float[Tensor, " problem"]


def first_gradient(d_k: int, variant: Variant, seed: int, batches: int = 32) -> FirstGradient:
    """The gradient of W_Q before the first step, in several batches.

    Returns the mean squared error; the mean norm of the gradient in a batch; the norm of what the
    batches agree on (their mean, its own chance taken off) over the size of what one batch adds by
    chance; and, for every problem, the norm of its own gradient and the gap of its best two scores,
    before they are divided.
    """
    generator = torch.Generator().manual_seed(seed)
    rotation, w_q, w_k = _start(d_k, variant, generator)
    errors, gradients, by_problem, gaps = [], [], [], []
    for _ in range(batches):
        query, key, value = rotated_lookup_batch(rotation, generator)
        projected, keys = query @ w_q, key @ w_k
        error = _errors(variant, projected, keys, value)
        of_w_q, of_query = torch.autograd.grad(error.mean(), (w_q, projected))
        errors.append(error.mean().item())
        gradients.append(of_w_q)
        # That of W_Q is the outer product of the query and this one.
        by_problem.append(BATCH * (query.norm(dim=-1) * of_query.norm(dim=-1))[:, 0])
        first, second = (projected @ keys.mT)[:, 0].detach().topk(2).values.T
        gaps.append(first - second)
    stacked = torch.stack(gradients)
    noise = stacked.var(dim=0).sum().item()
    signal = max(0.0, stacked.mean(dim=0).square().sum().item() - noise / batches)
    norm = stacked.norm(dim=(1, 2)).mean().item()
    ratio = math.sqrt(signal / noise)
    return FirstGradient(sum(errors) / batches, norm, ratio, torch.cat(by_problem), torch.cat(gaps))


def updates_until_solved(losses: list[float], window: int = 5) -> int:
    """After how many updates a mean of errors stays below `SOLVED`; the number of all if never."""
    means = [sum(losses[i : i + window]) / window for i in range(len(losses) - window + 1)]
    above = [i for i, mean in enumerate(means) if mean >= SOLVED]
    if not above:
        return 0
    return len(losses) if above[-1] == len(means) - 1 else above[-1] + 1


def by_rate(
    record: dict[str, Any], d_k: int, variant: Variant, what: Literal["end", "solved"] = "end"
) -> dict[float, list[float]]:
    """What recorded runs found, by learning rate: that of all seeds, sorted.

    Args: record, what `experiments/attention_scale.py` has written; what, the error at the end, or
        after how many updates the error stayed below `SOLVED`.
    """
    found: dict[float, list[float]] = {}
    for run in record["runs"]:
        if (run["d_k"], run["variant"]) == (d_k, variant):
            found.setdefault(run["rate"], []).append(float(run[what]))
    return {rate: sorted(each) for rate, each in sorted(found.items())}


def best_rate(
    record: dict[str, Any], d_k: int, variant: Variant, what: Literal["end", "solved"] = "end"
) -> float:
    """The learning rate with the lowest median."""
    found = by_rate(record, d_k, variant, what)
    return min(found, key=lambda rate: median(found[rate]))

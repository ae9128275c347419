"""Sampling: draw each token from the model's distribution, changed to be bolder or more careful."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lib.data import BOS, EOS, PAD


def with_temperature(
    logits: Float[Tensor, "*batch vocab"], temperature: float
) -> Float[Tensor, "*batch vocab"]:
    """Divide the logits by the temperature, so that p_i becomes proportional to p_i^(1/T).

    Below 1 the likely tokens gain; towards 0 the likeliest takes all, as in greedy decoding. Above
    1 the distribution becomes flatter.

    Errors: ValueError for a temperature that is not above 0.
    Source: Ackley, Hinton and Sejnowski 1985. Chapter: 12 (Decoding).
    """
    if not temperature > 0:
        raise ValueError(
            f"expected a temperature above 0, got {temperature}; greedy decoding is its limit at 0"
        )
    return logits / temperature


def keep_top_k(logits: Float[Tensor, "*batch vocab"], k: int) -> Float[Tensor, "*batch vocab"]:
    """Leave the k largest logits of each row as they are and set all others to -inf.

    Exactly k are left even where some are equal; all of them if k is not below vocab.

    Errors: ValueError for k below 1.
    Source: Fan et al. 2018. Chapter: 12 (Decoding).
    """
    if k < 1:
        raise ValueError(f"expected k of at least 1, got {k}; k = 1 is greedy decoding")
    top = logits.topk(min(k, logits.shape[-1]), dim=-1)
    return torch.full_like(logits, -torch.inf).scatter(-1, top.indices, top.values)


def keep_top_p(logits: Float[Tensor, "*batch vocab"], p: float) -> Float[Tensor, "*batch vocab"]:
    """Leave the smallest set of likeliest tokens that have together at least p, the nucleus.

    A token stays if those before it, from the likeliest down, have together less than p: so the
    token that crosses p stays, and with it at least one. All others are set to -inf.

    Errors: ValueError for p not above 0 or above 1.
    Source: Holtzman et al. 2020, section 3.1. Chapter: 12 (Decoding).
    """
    if not 0 < p <= 1:
        raise ValueError(f"expected p above 0 and at most 1, got {p}; p = 1 leaves every token")
    ordered, order = logits.sort(dim=-1, descending=True)
    chance = ordered.softmax(dim=-1)
    before = chance.cumsum(dim=-1) - chance
    kept = (before < p) if p < 1 else torch.ones_like(before, dtype=torch.bool)
    kept[..., 0] = True  # whatever was rounded
    return torch.full_like(logits, -torch.inf).scatter(
        -1, order, ordered.masked_fill(~kept, -torch.inf)
    )


@torch.no_grad()
def sample(
    model: nn.Module,
    source: Int[Tensor, "batch source_time"],
    source_lengths: Int[Tensor, " batch"],
    max_length: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "batch time"]:
    """Draw each token at random and feed it back, until every sentence has ended.

    y_t ~ p(y | y_1 .. y_{t-1}, source), first changed by `with_temperature`, then cut down by
    `keep_top_k`, then by `keep_top_p`, as far as they are given.

    Args: generator, on the model's device; the same seed in it gives the same tokens.
    Returns: the tokens, EOS included and PAD after it, at most `max_length` of them.
    Errors: ValueError for max_length below 1, and as the three functions above.
    Source: Holtzman et al. 2020. Chapter: 12 (Decoding).
    """
    if max_length < 1:
        raise ValueError(f"expected max_length of at least 1, got {max_length}")
    was_training = model.training
    model.eval()
    state = model.start(source, source_lengths)
    token = source.new_full((len(source),), BOS)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(max_length):
        logits, _, state = model.step(token, state)
        logits = with_temperature(logits, temperature)
        if top_k is not None:
            logits = keep_top_k(logits, top_k)
        if top_p is not None:
            logits = keep_top_p(logits, top_p)
        drawn = torch.multinomial(logits.softmax(dim=-1), 1, generator=generator).squeeze(1)
        token = drawn.masked_fill(ended, PAD)
        tokens.append(token)
        ended |= token == EOS
        if ended.all():
            break
    model.train(was_training)
    return torch.stack(tokens, dim=1)

"""Beam search: keep the few likeliest beginnings of a sentence instead of one.

A hypothesis is a beginning that the search keeps, with the sum of its log-probabilities. It is
open until it says EOS; then it has ended, and its score is final.

    open hypotheses -> one step of the model -> every continuation -> the likeliest `beam` of them
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lib.data import BOS, EOS, PAD


def length_penalty(length: int, alpha: float) -> float:
    """What a log-probability is divided by, so that short sentences have no unfair lead.

    lp(length) = ((5 + length) / 6) ^ alpha

    Args: length in tokens, EOS included; alpha, 0 for no penalty, 0.6 in the paper.
    Errors: ValueError for a length below 1 or an alpha below 0.
    Source: Wu et al. 2016, equation 14. Chapter: 12 (Decoding).
    """
    if length < 1 or not alpha >= 0:
        raise ValueError(
            f"expected length of at least 1 and alpha of at least 0, got {length} and {alpha}"
        )
    return ((5 + length) / 6) ** alpha


def select_rows(state: Any, rows: Int[Tensor, " rows"]) -> Any:
    """Return a model's state with these rows of the batch, in this order, each any number of times.

    The state may have its own `select`, or be a tensor, None, or a tuple of such.
    Errors: ValueError for anything else.
    Source: ours. Chapter: 12 (Decoding).
    """
    if hasattr(state, "select") and not isinstance(state, Tensor):
        return state.select(rows)
    if state is None:
        return None
    if isinstance(state, Tensor):
        return state[rows]
    if isinstance(state, tuple):
        parts = [select_rows(part, rows) for part in state]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    raise ValueError(
        f"expected a state made of tensors and tuples, got {type(state).__name__}; give it a "
        "method select(rows), which keeps these sequences of the batch"
    )


@torch.no_grad()
def beam_search(
    model: nn.Module,
    source: Int[Tensor, "batch source_time"],
    source_lengths: Int[Tensor, " batch"],
    max_length: int,
    *,
    beam: int = 4,
    alpha: float = 0.6,
) -> tuple[Int[Tensor, "batch time"], Float[Tensor, " batch"]]:
    """Keep the `beam` likeliest beginnings at each step; return the best sentence that ended.

    score(y) = log p(y | source) / lp(length of y), with lp from `length_penalty`

    A hypothesis that ends keeps its place, so with `beam` places the search stops after `beam`
    ends at the latest. It stops earlier if no open hypothesis can overtake the best that ended.
    That changes no result: log p only falls, so an open one reaches log p / lp(max_length) at most.
    Only where nothing has ended after `max_length` tokens is the likeliest open one returned.

    Returns: the tokens, EOS included and PAD after it; and the score of each sentence.
    Errors: ValueError for a beam or max_length below 1, an alpha below 0, a model whose state
        `select_rows` cannot read, or one that leaves no token to say.
    Source: Sutskever et al. 2014, section 3.2; Wu et al. 2016, section 7.
    Chapter: 12 (Decoding).
    """
    if beam < 1 or max_length < 1:
        got = f"beam={beam} and max_length={max_length}"
        raise ValueError(f"expected a beam and a max_length of at least 1, got {got}")
    highest_penalty = length_penalty(max_length, alpha)
    was_training = model.training
    model.eval()
    batch, device = len(source), source.device
    state = model.start(source, source_lengths)
    token = source.new_full((batch,), BOS)  # one for each open hypothesis, as the state has rows
    # log p of each hypothesis; -inf where there is none. At first there is one for each sentence.
    total = torch.full((batch, beam), -torch.inf, dtype=torch.float64, device=device)
    total[:, 0] = 0.0
    tokens = source.new_full((batch, beam, max_length), PAD)
    places = torch.full((batch, 1), beam, device=device)  # that no ended hypothesis holds
    best = source.new_full((batch, max_length), PAD)
    best_score = torch.full_like(total[:, 0], -torch.inf)
    best_length = source.new_full((batch,), max_length)

    for length in range(1, max_length + 1):
        logits, _, state = model.step(token, state)
        was_open = total.isfinite()
        total, parent, word = _continue(total, logits.double())
        total[torch.arange(beam, device=device) >= places] = -torch.inf  # pruned
        tokens = tokens.gather(1, parent.unsqueeze(-1).expand_as(tokens))
        tokens[:, :, length - 1] = word

        ended = (word == EOS) & total.isfinite()
        scores = (total / length_penalty(length, alpha)).masked_fill(~ended, -torch.inf)
        score, which = scores.max(dim=1)
        better = score > best_score
        best[better], best_score[better] = tokens[better, which[better]], score[better]
        best_length[better] = length
        places = places - ended.sum(dim=1, keepdim=True)
        total[ended] = -torch.inf

        bound, likeliest = (total / highest_penalty).max(dim=1)
        total[best_score >= bound] = -torch.inf  # nothing that is open can overtake
        is_open = total.isfinite()
        if length == max_length or not is_open.any():
            break
        row = was_open.flatten().cumsum(0).view_as(was_open) - 1  # of the state
        state = _follow(state, row.gather(1, parent)[is_open], len(token))
        token = word[is_open]

    model.train(was_training)
    cut_off = best_score.isinf()  # nothing has ended
    best[cut_off], best_score[cut_off] = tokens[cut_off, likeliest[cut_off]], bound[cut_off]
    if not best_score.isfinite().all():
        raise ValueError(
            "expected logits that leave each sentence a token, got only NaN or -inf at some step; "
            "look at what the model returns"
        )
    return best[:, : int(best_length.max())], best_score


def _continue(
    total: Float[Tensor, "batch beam"], logits: Float[Tensor, "open vocab"]
) -> tuple[Float[Tensor, "batch beam"], Int[Tensor, "batch beam"], Int[Tensor, "batch beam"]]:
    """The likeliest continuations of each sentence's hypotheses, whichever they come from.

    Returns: their log-probabilities, the hypotheses that they continue, and their new words.
    """
    batch, beam = total.shape
    vocab = logits.shape[-1]
    step = total.new_full((batch, beam, vocab), -torch.inf)
    step[total.isfinite()] = logits.log_softmax(dim=-1)
    total, place = (total.unsqueeze(-1) + step).flatten(1).topk(beam)
    return total, place // vocab, place % vocab


def _follow(state: Any, rows: Int[Tensor, " rows"], n_rows: int) -> Any:
    """The rows of the state that go on; the state itself if all do and none has moved."""
    if len(rows) == n_rows and torch.equal(rows, torch.arange(n_rows, device=rows.device)):
        return state
    return select_rows(state, rows)

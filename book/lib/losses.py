"""The loss the paper trains with: cross-entropy against targets that are not quite certain."""

from jaxtyping import Float, Int
from torch import Tensor

from lib.data import PAD


def label_smoothed_loss(
    logits: Float[Tensor, "batch target_time vocab"],
    target_out: Int[Tensor, "batch target_time"],
    smoothing: float = 0.1,
) -> Float[Tensor, ""]:
    """Cross-entropy against (1 - smoothing) one-hot + smoothing uniform, mean over real tokens.

    loss = (1 - smoothing) * (-log p(target)) + smoothing * (mean over the vocabulary of -log p)

    With smoothing 0 it is `lib.training.token_loss`. A batch without a real token gives 0.

    Errors: ValueError for a smoothing outside 0 to 1.
    Source: Szegedy et al. 2016, section 7; Attention Is All You Need, section 5.4.
    Chapter: 9 (Embeddings and tying).
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"expected 0 <= smoothing < 1, got {smoothing}; the paper has 0.1")
    real = target_out != PAD  # (batch, target_time)
    log_p = logits.log_softmax(dim=-1)  # (batch, target_time, vocab)
    on_target = -log_p.gather(-1, target_out.unsqueeze(-1)).squeeze(-1)  # (batch, target_time)
    everywhere = -log_p.mean(dim=-1)  # (batch, target_time)
    loss = (1 - smoothing) * on_target + smoothing * everywhere
    return loss.masked_fill(~real, 0.0).sum() / real.sum().clamp(min=1)

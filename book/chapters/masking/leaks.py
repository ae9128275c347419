"""Translators that see more in training than when they write."""

from unittest import mock

import torch
from jaxtyping import Bool
from torch import Tensor

from lib.masks import causal_mask
from lib.transformer import Transformer


def word_after_next(
    n_queries: int, n_keys: int | None = None, *, device: torch.device | None = None
) -> Bool[Tensor, "{n_queries} key"]:
    """The causal mask with one more key for each query: the one two positions later.

    Position i of a decoder's input must predict what stands at i + 1. It may attend to i + 2: not
    to the answer, but to the word behind it.

    Shapes and errors: as in `causal_mask`. Source: ours.
    """
    mask = causal_mask(n_queries, n_keys, device=device)
    ahead = mask.shape[1] - n_queries + 2
    return mask | torch.ones_like(mask).triu(ahead).tril(ahead)


class WordAfterNext(Transformer):
    """Lets each position of the decoder attend, when it is taught, to the word after the next."""

    def forward(self, *inputs: Tensor) -> Tensor:
        with mock.patch("lib.transformer.causal_mask", word_after_next):
            return super().forward(*inputs)

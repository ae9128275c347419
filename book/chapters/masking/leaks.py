"""Translators that see more in training than when they write."""

from functools import partial
from unittest import mock

import torch
from jaxtyping import Bool
from torch import Tensor

from lib.masks import causal_mask
from lib.transformer import Transformer


def with_later_word(
    n_queries: int, n_keys: int | None = None, *, on: int, device: torch.device | None = None
) -> Bool[Tensor, "{n_queries} key"]:
    """The causal mask with one more key for each query: the one `on` positions later.

    Position i of a decoder's input must predict what stands at i + 1. With on = 2 it may attend to
    i + 2: not to the answer, but to the word behind it.

    Shapes and errors: as in `causal_mask`. Source: ours.
    """
    mask = causal_mask(n_queries, n_keys, device=device)
    ahead = mask.shape[1] - n_queries + on
    return mask | torch.ones_like(mask).triu(ahead).tril(ahead)


class WordAfterNext(Transformer):
    """Lets each position of the decoder attend, when it is taught, to the word after the next."""

    on = 2

    def forward(self, *inputs: Tensor) -> Tensor:
        with mock.patch("lib.transformer.causal_mask", partial(with_later_word, on=self.on)):
            return super().forward(*inputs)


class FiveOn(WordAfterNext):
    """Lets each position attend to the word five positions on."""

    on = 5

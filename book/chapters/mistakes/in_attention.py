"""Attention layers with one mistake each: shapes, scaling and masks.

Each class replaces one step of `PlainAttention`, and all its other lines are right.
"""

import math

import torch
from torch import Tensor, nn

from chapters.mistakes.specimen import PlainAttention


class RootOfHeads(PlainAttention):
    """Divides by sqrt(query.size(1)), the number of heads."""

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(query.size(1))


class RootOfDModel(PlainAttention):
    """Divides by the root of d_model, not of d_k."""

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        d_model = self.w_q.in_features
        return query @ key.transpose(-2, -1) / math.sqrt(d_model)


class EveryAxisTransposed(PlainAttention):
    """K.T, written for one matrix, reverses all axes."""

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        turned = key.permute(3, 2, 1, 0)  # what .T does to an array of four axes
        return query @ turned / math.sqrt(query.shape[-1])


class SoftmaxOverQueries(PlainAttention):
    """Takes the softmax over the queries."""

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-2)
        return weights if mask is None else weights.masked_fill(~mask, 0.0)


class SoftmaxOverBatch(PlainAttention):
    """Takes the softmax over the first axis."""

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=0)  # what torch took for three axes when none was named
        return weights if mask is None else weights.masked_fill(~mask, 0.0)


class HeadsOnSlices(PlainAttention):
    """Gives each head a slice of the input; all heads share the same small matrices."""

    def __init__(self, d_in: int, n_heads: int, d_out: int | None = None):
        super().__init__(d_in, n_heads, d_out)
        d_k = d_in // n_heads
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_k, d_k) for _ in range(3))

    def forward(self, x, memory=None, mask=None):
        weights = self.attention_weights(x, memory, mask)
        value = self.w_v(self.split(x if memory is None else memory))
        return self.output(self.join(weights @ value))

    def attention_weights(self, x, memory=None, mask=None):
        query = self.w_q(self.split(x))
        key = self.w_k(self.split(x if memory is None else memory))
        mask = mask.unsqueeze(-3) if mask is not None else None
        return self.weigh(self.scores(query, key), mask)


class HeadsByReshape(PlainAttention):
    """Splits with one view and no transpose."""

    def split(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        return x.reshape(batch, self.n_heads, time, width // self.n_heads)


class WideHeads(PlainAttention):
    """Gives every head the dimension of the whole model."""

    def __init__(self, d_in: int, n_heads: int, d_out: int | None = None):
        super().__init__(d_in, n_heads, d_out)
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_in, n_heads * d_in) for _ in range(3))
        self.w_o = nn.Linear(n_heads * d_in, d_out or d_in)


class OutputTransposed(PlainAttention):
    """Multiplies by the transpose of W^O."""

    def output(self, joined: Tensor) -> Tensor:
        return joined @ self.w_o.weight + self.w_o.bias  # nn.Linear keeps W transposed


class InvertedMask(PlainAttention):
    """Takes True for masked, not for allowed."""

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(scores, ~mask if mask is not None else None)


class MaskedAfterSoftmax(PlainAttention):
    """Hides keys after the softmax has counted them."""

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = scores.softmax(-1)
        return weights if mask is None else weights * mask


class MinusBillion(PlainAttention):
    """Fills with -1e9, a finite number."""

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        return scores.softmax(-1)


class MinusInfinity(PlainAttention):
    """Fills with -inf and forgets fully masked rows."""

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return scores.softmax(-1)


class OutputMadeInForward(PlainAttention):
    """Builds the output projection at each call."""

    def __init__(self, d_in: int, n_heads: int, d_out: int | None = None):
        super().__init__(d_in, n_heads, d_out)
        self.d_out = d_out or d_in
        del self.w_o

    def output(self, joined: Tensor) -> Tensor:
        return nn.Linear(joined.shape[-1], self.d_out).to(joined)(joined)

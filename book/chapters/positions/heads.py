"""Where the heads of a model look."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

LAYER = "decoder.layers.0.self_attention"


def weight_on(
    maps: Float[Tensor, "batch heads query key"], keys: Bool[Tensor, "query key"], queries: range
) -> Float[Tensor, " heads"]:
    """The mean weight of each head on the chosen keys, over the given queries."""
    chosen = (maps * keys).sum(-1)[:, :, list(queries)]  # (batch, heads, queries)
    return chosen.mean((0, 2))


def explained_by_offset(maps: Float[Tensor, "batch heads query key"]) -> Float[Tensor, " heads"]:
    """The part of the differences between the keys of a query that their offset explains.

    It is that of causal scores, which are averaged over the batch: so they depend on two positions
    and no longer on the tokens. Softmax ignores what all scores of a query have in common, so that
    is taken off, from the scores (here the logarithms of weights) and from each function of the
    offset. The best sum of such functions leaves the rest unexplained. 1: only the offset counts.
    """
    length = maps.shape[-1]
    query, key = torch.tril_indices(length, length)

    def without_common(x: Tensor) -> Tensor:
        total = x.new_zeros(length, x.shape[1]).index_add(0, query, x)
        return x - (total / torch.arange(1, length + 1)[:, None])[query]

    scores = without_common(maps.double().log().mean(0)[:, query, key].T)  # (pairs, heads)
    offsets = without_common(F.one_hot(query - key).double())  # (pairs, offsets)
    best = torch.linalg.lstsq(offsets.T @ offsets, offsets.T @ scores, driver="gelsd").solution
    return 1 - (scores - offsets @ best).square().sum(0) / scores.square().sum(0)

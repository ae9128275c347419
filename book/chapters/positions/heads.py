"""Where the heads of a model look."""

from jaxtyping import Bool, Float
from torch import Tensor

LAYER = "decoder.layers.0.self_attention"


def weight_on(
    maps: Float[Tensor, "batch heads query key"], keys: Bool[Tensor, "query key"], queries: range
) -> Float[Tensor, " heads"]:
    """The mean weight of each head on the chosen keys, over the given queries."""
    chosen = (maps * keys).sum(-1)[:, :, list(queries)]  # (batch, heads, queries)
    return chosen.mean((0, 2))

"""The book's masks in the conventions of PyTorch's functions and layers."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lib.masks import combine_masks, fit_mask


def sdpa_mask(mask: Bool[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Convert for F.scaled_dot_product_attention: the same polarity, and a heads axis.

    Shapes: (batch, query, key) becomes (batch, 1, query, key); others stay as they are.
    Errors: ValueError for a mask that is not boolean. Source: torch's documentation.
    """
    combine_masks(mask)  # refuses numbers
    return mask.unsqueeze(1) if mask.dim() == 3 else mask


def multihead_mask(
    mask: Bool[Tensor, "..."], shape: tuple[int, int, int, int]
) -> Bool[Tensor, "batch_times_heads query key"]:
    """Convert for nn.MultiheadAttention's attn_mask: the opposite polarity, True = masked.

    Shapes: any mask that fits scores of `shape` (batch, heads, query, key) becomes
        (batch * heads, query, key), which torch wants in full.
    Errors: ValueError as in `fit_mask`. Source: torch's documentation.
    """
    return ~fit_mask(mask, shape).expand(shape).flatten(0, 1)


def additive_mask(
    mask: Bool[Tensor, "*shape"], dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*shape"]:
    """Convert to a term that is added to the scores: 0 where allowed, -inf where masked.

    A row that is all -inf becomes NaN in a plain softmax; a boolean mask has no such trap.

    Shapes: those of the mask. Errors: ValueError for a mask that is not boolean.
    Source: torch's documentation.
    """
    combine_masks(mask)  # refuses numbers
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~mask, -torch.inf)

"""The two layers of the Transformer, which its stacks repeat: one that reads, one that writes.

An encoder layer is self-attention and a feed-forward network. A decoder layer is causal
self-attention, cross-attention to the memory (the encoder's output) and a feed-forward network.
Each of these sub-layers stands in a `Residual`, which adds its output to its input and normalises.
"""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.cache import LayerCache
from lib.config import Config
from lib.layers import FeedForward, Residual, at_real

Rotate = Callable[[Tensor], Tensor]


def _residual(sublayer: nn.Module, config: Config) -> Residual:
    return Residual(sublayer, config.d_model, norm=config.norm, dropout=config.dropout)


def _attention(config: Config) -> Residual:
    return _residual(MultiHeadAttention(config.d_model, config.n_heads), config)


def _feed_forward(config: Config) -> Residual:
    return _residual(FeedForward(config.d_model, config.d_ff, config.activation), config)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network.

    Shapes: x (batch, time, d_model), mask (batch, 1, time) or (batch, time, time); real, see
        `at_real`, (batch, time). Returns the shape of x.
    Source: Attention Is All You Need, section 3.1. Chapter: 10 (The Transformer).
    """

    def __init__(self, config: Config):
        super().__init__()
        self.self_attention = _attention(config)
        self.feed_forward = _feed_forward(config)

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        rotate: Rotate | None = None,
        bias: Float[Tensor, "heads time time"] | None = None,
        real: Bool[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        x = self.self_attention(x, mask=mask, rotate=rotate, bias=bias)
        return at_real(self.feed_forward, x, real)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the memory, then a feed-forward network.

    Shapes: x (batch, time, d_model), memory (batch, source_time, d_model), mask (time, key),
        memory_mask (batch, 1, source_time); real, see `at_real`, (batch, time). Returns the shape
        of x. Without cross-attention, as in a language model, there is no memory.
    Errors: ValueError for cross-attention without a memory.
    Source: Attention Is All You Need, section 3.1. Chapter: 10 (The Transformer).
    """

    def __init__(self, config: Config, *, cross_attention: bool = True):
        super().__init__()
        self.self_attention = _attention(config)
        self.cross_attention = _attention(config) if cross_attention else None
        self.feed_forward = _feed_forward(config)

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        memory: Float[Tensor, "batch source_time d_model"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
        rotate: Rotate | None = None,
        bias: Float[Tensor, "heads time key"] | None = None,
        cache: LayerCache | None = None,
        real: Bool[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        own, cross = cache or (None, None)
        x = self.self_attention(x, mask=mask, rotate=rotate, bias=bias, cache=own)
        if self.cross_attention is not None:
            if memory is None:
                raise ValueError(
                    "expected a memory for the cross-attention, got None; run the encoder first, "
                    "or make the decoder with cross_attention=False"
                )
            x = self.cross_attention(x, memory, mask=memory_mask, cache=cross)
        return at_real(self.feed_forward, x, real)

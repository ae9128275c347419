"""The Transformer, from top to bottom: two stacks of layers, with a lookup below and a score above.

    tokens -> Embedding -> + positions -> n_layers x EncoderLayer -> memory
    tokens -> Embedding -> + positions -> n_layers x DecoderLayer(memory) -> projection -> logits

An encoder layer is self-attention and a feed-forward network. A decoder layer is causal
self-attention, cross-attention to the memory (the encoder's output) and a feed-forward network.
Each of these sub-layers stands in a `Residual`, which adds its output to its input and normalises.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.cache import KeyValueCache, LayerCache, TransformerState
from lib.config import Config
from lib.layers import Embedding, FeedForward, LayerNorm, Residual, TiedProjection
from lib.masks import causal_mask, padding_mask
from lib.positions import Positions, make_positions

Rotate = Callable[[Tensor], Tensor]


def _residual(sublayer: nn.Module, config: Config) -> Residual:
    return Residual(sublayer, config.d_model, norm=config.norm, dropout=config.dropout)


def _attention(config: Config) -> Residual:
    return _residual(MultiHeadAttention(config.d_model, config.n_heads), config)


def _feed_forward(config: Config) -> Residual:
    return _residual(FeedForward(config.d_model, config.d_ff, config.activation), config)


def _positions(config: Config) -> Positions:
    sizes = (config.d_model, config.n_heads)
    return make_positions(config.positions, *sizes, max_length=config.max_length)


def _final_norm(config: Config) -> nn.Module:
    """Pre-norm leaves the sum of all layers as it is: it is normalised once, at the end."""
    return LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network.

    Shapes: x (batch, time, d_model), mask (batch, 1, time) or (batch, time, time). Returns the
        shape of x.
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
    ) -> Float[Tensor, "batch time d_model"]:
        x = self.self_attention(x, mask=mask, rotate=rotate, bias=bias)
        return self.feed_forward(x)


class Encoder(nn.Module):
    """Mark positions, then n_layers encoder layers: each output has seen the whole source.

    Shapes: x, embedded tokens, (batch, time, d_model); mask (batch, 1, time). Returns the memory,
        of the shape of x.
    Source: Attention Is All You Need, section 3.1. Chapter: 10 (The Transformer).
    """

    def __init__(self, config: Config):
        super().__init__()
        self.positions = _positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.norm = _final_norm(config)

    def forward(
        self, x: Float[Tensor, "batch time d_model"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch time d_model"]:
        time = x.shape[1]
        x = self.dropout(self.positions.add(x))
        bias = self.positions.bias(time, time)
        for layer in self.layers:
            x = layer(x, mask, self.positions.rotate, bias)
        return self.norm(x)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the memory, then a feed-forward network.

    Shapes: x (batch, time, d_model), memory (batch, source_time, d_model), mask (time, key),
        memory_mask (batch, 1, source_time). Returns the shape of x. Without cross-attention, as in
        a language model, there is no memory.
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
        return self.feed_forward(x)


class Decoder(nn.Module):
    """Mark positions, then n_layers decoder layers: output t has seen tokens up to t, none later.

    With caches, from `new_caches`, x holds only the positions after those that the caches hold.

    Shapes: x, embedded tokens, (batch, time, d_model); memory (batch, source_time, d_model), its
        mask (batch, 1, source_time). Returns the shape of x.
    Source: Attention Is All You Need, section 3.1. Chapter: 10 (The Transformer), 12 (Decoding).
    """

    def __init__(self, config: Config, *, cross_attention: bool = True):
        super().__init__()
        self.positions = _positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            DecoderLayer(config, cross_attention=cross_attention) for _ in range(config.n_layers)
        )
        self.norm = _final_norm(config)

    def new_caches(self) -> list[LayerCache]:
        """Make an empty cache for each layer. Chapter: 12 (Decoding)."""
        return [LayerCache(KeyValueCache(), KeyValueCache()) for _ in self.layers]

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        memory: Float[Tensor, "batch source_time d_model"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        caches: list[LayerCache] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        time = x.shape[1]
        before = caches[0].own.length if caches else 0
        x = self.dropout(self.positions.add(x, before))
        rotate = partial(self.positions.rotate, offset=before)
        bias = self.positions.bias(time, before + time)
        # The newest position alone may see all others: one step of decoding needs no mask.
        mask = causal_mask(time, before + time, device=x.device) if time > 1 else None
        for layer, cache in zip(self.layers, caches or [None] * len(self.layers), strict=True):
            x = layer(x, memory, memory_mask, mask, rotate, bias, cache)
        return self.norm(x)


class Transformer(nn.Module):
    """Read a source, write a target: the encoder and the decoder between embedding and projection.

    The interface is that of `lib.seq2seq`: calling the model is teacher forcing, `start` and
    `step` decode token by token, and both give the same logits.
    Source: Attention Is All You Need, figure 1. Chapter: 10 (The Transformer).
    """

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        d_model, target_vocab = config.d_model, config.target_vocab or config.source_vocab
        one_matrix = config.tied and config.target_vocab is None
        std = 0.5 if config.tied else 1.0  # a tied matrix makes the first logits too: see Embedding
        self.source_embedding = Embedding(config.source_vocab, d_model, std=std)
        self.target_embedding = (
            self.source_embedding if one_matrix else Embedding(target_vocab, d_model, std=std)
        )
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.projection = (
            TiedProjection(self.target_embedding)
            if config.tied
            else nn.Linear(d_model, target_vocab, bias=False)
        )

    def encode(
        self, source: Int[Tensor, "batch source_time"], source_lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch source_time d_model"], Bool[Tensor, "batch 1 source_time"]]:
        """Return the memory, and the mask that hides the source's padding.

        Source: Attention Is All You Need, section 3.1. Chapter: 10 (The Transformer).
        """
        mask = padding_mask(source_lengths, source.shape[1])
        return self.encoder(self.source_embedding(source), mask), mask

    def forward(
        self,
        source: Int[Tensor, "batch source_time"],
        source_lengths: Int[Tensor, " batch"],
        target_in: Int[Tensor, "batch target_time"],
    ) -> Float[Tensor, "batch target_time vocab"]:
        """Teacher forcing: logits for the token after each one of target_in, all at once.

        Padding on the right of target_in needs no mask: it is later than all real tokens.
        Source: Attention Is All You Need, section 3.1. Chapter: 10 (The Transformer).
        """
        memory, mask = self.encode(source, source_lengths)
        return self.projection(self.decoder(self.target_embedding(target_in), memory, mask))

    @torch.no_grad()
    def start(
        self, source: Int[Tensor, "batch source_time"], source_lengths: Int[Tensor, " batch"]
    ) -> TransformerState:
        """Read the source; return the state before the first token, without gradients.

        Source: ours. Chapter: 12 (Decoding).
        """
        return TransformerState(*self.encode(source, source_lengths), self.decoder.new_caches())

    @torch.no_grad()
    def step(
        self, token: Int[Tensor, " batch"], state: TransformerState
    ) -> tuple[Float[Tensor, "batch vocab"], None, TransformerState]:
        """Feed one token: logits of the next one, None, and the state, whose caches have grown.

        There is no one map to return: `attention_maps` gives those of all layers and heads.
        Source: ours. Chapter: 12 (Decoding).
        """
        x = self.decoder(self.target_embedding(token.unsqueeze(1)), *state)
        return self.projection(x).squeeze(1), None, state

"""The Transformer, from top to bottom: two stacks of layers, with a lookup below and a score above.

    tokens -> Embedding -> + positions -> n_layers x EncoderLayer -> memory
    tokens -> Embedding -> + positions -> n_layers x DecoderLayer(memory) -> projection -> logits

The layers are in `lib.transformer_layers`.
"""

from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.cache import KeyValueCache, LayerCache, TransformerState
from lib.config import Config
from lib.layers import Embedding, LayerNorm, TiedProjection
from lib.masks import causal_mask, padding_mask
from lib.positions import Positions, make_positions
from lib.transformer_layers import DecoderLayer, EncoderLayer

__all__ = ["Decoder", "DecoderLayer", "Encoder", "EncoderLayer", "Transformer"]


def _positions(config: Config) -> Positions:
    sizes = (config.d_model, config.n_heads)
    return make_positions(config.positions, *sizes, max_length=config.max_length)


def _final_norm(config: Config) -> nn.Module:
    """Pre-norm leaves the sum of all layers as it is: it is normalised once, at the end."""
    return LayerNorm(config.d_model) if config.norm == "pre" else nn.Identity()


class Encoder(nn.Module):
    """Mark positions, then n_layers encoder layers: each output has seen the whole source.

    Shapes: x, embedded tokens, (batch, time, d_model); mask (batch, 1, time); real, see
        `lib.layers.at_real`, (batch, time). Returns the memory, of the shape of x.
    Source: Attention Is All You Need, section 3.1. Chapter: 10 (The Transformer).
    """

    def __init__(self, config: Config):
        super().__init__()
        self.positions = _positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.n_layers))
        self.norm = _final_norm(config)

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        mask: Bool[Tensor, "..."] | None = None,
        real: Bool[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        time = x.shape[1]
        x = self.dropout(self.positions.add(x))
        bias = self.positions.bias(time, time)
        for layer in self.layers:
            x = layer(x, mask, self.positions.rotate, bias, real)
        return self.norm(x)


class Decoder(nn.Module):
    """Mark positions, then n_layers decoder layers: output t has seen tokens up to t, none later.

    With caches, from `new_caches`, x holds only the positions after those that the caches hold.

    Shapes: x, embedded tokens, (batch, time, d_model); memory (batch, source_time, d_model), its
        mask (batch, 1, source_time); real, see `lib.layers.at_real`, (batch, time). Returns the
        shape of x.
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
        real: Bool[Tensor, "batch time"] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        time = x.shape[1]
        before = caches[0].own.length if caches else 0
        x = self.dropout(self.positions.add(x, before))
        rotate = partial(self.positions.rotate, offset=before)
        bias = self.positions.bias(time, before + time)
        # The newest position alone may see all others: one step of decoding needs no mask.
        mask = causal_mask(time, before + time, device=x.device) if time > 1 else None
        for layer, cache in zip(self.layers, caches or [None] * len(self.layers), strict=True):
            x = layer(x, memory, memory_mask, mask, rotate, bias, cache, real)
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

    def real_logits(
        self,
        source: Int[Tensor, "batch source_time"],
        source_lengths: Int[Tensor, " batch"],
        target_in: Int[Tensor, "batch target_time"],
        target_lengths: Int[Tensor, " batch"],
    ) -> Float[Tensor, "tokens vocab"]:
        """The logits of `forward` at the real target positions alone, sentence after sentence.

        Only attention needs the rectangle of a padded batch. All the rest works on each position by
        itself, so here padding is left out of it; dropout draws other numbers than in `forward`.

        Shapes: as in `forward`; target_lengths (batch). Returns (tokens, vocab), where tokens is
            the sum of target_lengths.
        Source: ours. Chapter: 11 (Training).
        """
        mask = padding_mask(source_lengths, source.shape[1])  # (batch, 1, source_time)
        real = padding_mask(target_lengths, target_in.shape[1])[:, 0]  # (batch, target_time)
        memory = self.encoder(self.source_embedding(source), mask, mask[:, 0])
        x = self.decoder(self.target_embedding(target_in), memory, mask, real=real)
        return self.projection(x[real])

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

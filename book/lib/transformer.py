"""The Transformer, from top to bottom: two stacks of layers, with a lookup below and a score above.

    tokens -> Embedding -> + positions -> n_layers x EncoderLayer -> memory
    tokens -> Embedding -> + positions -> n_layers x DecoderLayer(memory) -> projection -> logits

An encoder layer is self-attention and a feed-forward network. A decoder layer is causal
self-attention, cross-attention to the memory (the encoder's output) and a feed-forward network.
Each of these sub-layers stands in a `Residual`, which adds its output to its input and normalises.
At the end stand the models with one stack: `LanguageModel` and `OneStack`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.attention import KeyValueCache, MultiHeadAttention
from lib.layers import (
    ACTIVATIONS,
    PLACEMENTS,
    Embedding,
    FeedForward,
    LayerNorm,
    Residual,
    TiedProjection,
    at_real,
)
from lib.masks import _require_one_each, causal_mask, padding_mask
from lib.positions import SCHEMES, Positions, make_positions


@dataclass(frozen=True)
class Config:
    """What a Transformer is made of; the defaults are the paper's base model.

    source_vocab  entries of the source's vocabulary
    target_vocab  those of the target's; None means one vocabulary for both
    d_model, n_heads, d_ff   the paper's names; d_k = d_v = d_model / n_heads
    n_layers      layers in the encoder, and as many in the decoder
    dropout       on the output of each sub-layer and on embeddings + positions
    norm          "post" as in the paper, or "pre": see `Residual`
    positions     "none", "sinusoidal", "learned", "rotary" or "alibi": see `lib.positions`
    activation    of the feed-forward networks: "relu", "gelu", "gelu_tanh" or "swiglu"
    tied          use a target embedding as output projection too, and with one vocabulary
                  as source embedding; False gives each its own matrix
    max_length    the most positions that "learned" has; the others have no limit

    A model asks its configuration for its parts. A subclass whose make_attention, for one, makes
    another layer changes every model that takes a configuration.

    Errors: ValueError that names the field, what was expected and what came.
    Source: Attention Is All You Need, table 3.
    """

    source_vocab: int
    target_vocab: int | None = None
    d_model: int = 512
    n_heads: int = 8
    d_ff: int = 2048
    n_layers: int = 6
    dropout: float = 0.1
    norm: str = "post"
    positions: str = "sinusoidal"
    activation: str = "relu"
    tied: bool = True
    max_length: int = 512

    CHOICES: ClassVar[dict[str, Collection[str]]] = {
        "norm": PLACEMENTS,
        "positions": SCHEMES,
        "activation": ACTIVATIONS,
    }

    def __post_init__(self) -> None:
        for field in fields(self):  # those of a subclass too
            name, value = field.name, getattr(self, field.name)
            size = field.type is int or (field.type == int | None and value is not None)
            if size and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(f"expected {name} to be a whole number above 0, got {value!r}")
            if field.type is bool and not isinstance(value, bool):
                raise ValueError(f"expected {name} to be True or False, got {value!r}")
            if name in self.CHOICES and value not in tuple(self.CHOICES[name]):
                allowed = ", ".join(self.CHOICES[name])
                raise ValueError(f"expected {name} out of {allowed}, got {value!r}")
        if not isinstance(self.dropout, int | float) or not 0 <= self.dropout < 1:
            raise ValueError(f"expected a dropout of at least 0 and below 1, got {self.dropout!r}")
        d_k = self.d_k  # an error unless the heads divide d_model
        if self.positions == "rotary" and d_k % 2:
            raise ValueError(
                f"expected an even d_k for rotary positions, got {d_k}; change it "
                "(d_model / n_heads unless given), or choose another scheme"
            )

    @property
    def d_k(self) -> int:
        """Dimension of one head's queries, keys and values."""
        if self.d_model % self.n_heads:
            raise ValueError(
                f"expected d_model to be a multiple of n_heads, got d_model={self.d_model} and "
                f"n_heads={self.n_heads}; change one of them"
            )
        return self.d_model // self.n_heads

    def make_positions(self) -> Positions:
        """Make the scheme that a stack's layers share."""
        sizes = (self.d_model, self.n_heads)
        return make_positions(self.positions, *sizes, max_length=self.max_length)

    def make_norm(self) -> nn.Module:
        """Make the norm of a `Residual`, or the one at the end of a stack."""
        return LayerNorm(self.d_model)

    def make_attention(self, positions: Positions | None = None) -> MultiHeadAttention:
        """Make an attention layer; positions, a scheme that works inside it."""
        return MultiHeadAttention(self.d_model, self.n_heads, positions=positions)

    def make_feed_forward(self) -> nn.Module:
        """Make what follows attention in a layer: it works on each position by itself."""
        return FeedForward(self.d_model, self.d_ff, self.activation)


def _residual(sublayer: nn.Module, config: Config) -> Residual:
    return Residual(
        sublayer,
        config.d_model,
        norm=config.norm,
        dropout=config.dropout,
        norm_layer=lambda d_model: config.make_norm(),
    )


def _attention(config: Config, positions: Positions | None = None) -> Residual:
    inside = positions if positions is not None and positions.in_attention else None
    return _residual(config.make_attention(inside), config)


def _feed_forward(config: Config) -> Residual:
    return _residual(config.make_feed_forward(), config)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network.

    Args: positions, the scheme of the stack, for the self-attention.
    Shapes: x (batch, time, d_model), mask (batch, 1, time) or (batch, time, time). Returns the
        shape of x.
    Source: Attention Is All You Need, section 3.1.
    """

    def __init__(self, config: Config, positions: Positions | None = None):
        super().__init__()
        self.self_attention = _attention(config, positions)
        self.feed_forward = _feed_forward(config)

    def forward(
        self, x: Float[Tensor, "batch time d_model"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch time d_model"]:
        return self.feed_forward(self.self_attention(x, mask=mask))


class LayerCache(NamedTuple):
    """The keys and values that one decoder layer keeps while decoding."""

    own: KeyValueCache  # grows by one position with each step
    memory: KeyValueCache  # filled at the first step, then only read

    def select(self, rows: Int[Tensor, " rows"]) -> "LayerCache":
        """Keep these sequences of the batch, in this order."""
        return LayerCache(self.own.select(rows), self.memory.select(rows))


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention to the memory, then a feed-forward network.

    Args: positions, the scheme of the stack, for the self-attention. Without cross_attention, as
        in a language model, there is no memory.
    Shapes: x (batch, time, d_model), memory (batch, source_time, d_model), mask (time, key),
        memory_mask (batch, 1, source_time). Returns the shape of x.
    Errors: ValueError for cross-attention without a memory.
    Source: Attention Is All You Need, section 3.1.
    """

    def __init__(
        self, config: Config, positions: Positions | None = None, *, cross_attention: bool = True
    ):
        super().__init__()
        self.self_attention = _attention(config, positions)
        self.cross_attention = _attention(config) if cross_attention else None
        self.feed_forward = _feed_forward(config)

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        memory: Float[Tensor, "sequences source_time d_model"] | None = None,
        *,
        mask: Bool[Tensor, "..."] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        cache: LayerCache | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        own, of_memory = cache or (None, None)
        x = self.self_attention(x, mask=mask, cache=own)
        if self.cross_attention is not None:
            if memory is None:
                raise ValueError(
                    "expected a memory for the cross-attention, got None; run the encoder first, "
                    "or make the decoder with cross_attention=False"
                )
            x = self.cross_attention(x, memory, mask=memory_mask, cache=of_memory)
        return self.feed_forward(x)


class _Stack(nn.Module):
    """What both stacks have in common: positions, dropout on what comes in, layers, a last norm."""

    def __init__(self, config: Config, make_layer: Callable[[Config, Positions], nn.Module]):
        super().__init__()
        self.positions = config.make_positions()
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            make_layer(config, self.positions) for _ in range(config.n_layers)
        )
        # Pre-norm leaves the sum of all layers as it is: it is normalised once, at the end.
        self.norm = config.make_norm() if config.norm == "pre" else nn.Identity()


class Encoder(_Stack):
    """Mark positions, then n_layers encoder layers: each output has seen the whole source.

    Shapes: x, embedded tokens, (batch, time, d_model); mask (batch, 1, time). Returns the memory,
        of the shape of x.
    Source: Attention Is All You Need, section 3.1.
    """

    def __init__(self, config: Config):
        super().__init__(config, EncoderLayer)

    def forward(
        self, x: Float[Tensor, "batch time d_model"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch time d_model"]:
        x = self.dropout(self.positions.add(x))
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(_Stack):
    """Mark positions, then n_layers decoder layers: output t has seen tokens up to t, none later.

    With caches, from `new_caches`, x holds only the positions after those that the caches hold.

    Shapes: x, embedded tokens, (batch, time, d_model); memory (batch, source_time, d_model), its
        mask (batch, 1, source_time). Returns the shape of x.
    Source: Attention Is All You Need, section 3.1.
    """

    def __init__(self, config: Config, *, cross_attention: bool = True):
        super().__init__(config, partial(DecoderLayer, cross_attention=cross_attention))

    def new_caches(self) -> list[LayerCache]:
        """Make an empty cache for each layer."""
        return [LayerCache(KeyValueCache(), KeyValueCache(grows=False)) for _ in self.layers]

    def _causal_masks(
        self, time: int, before: int, device: torch.device
    ) -> Sequence[Bool[Tensor, "time key"]]:
        """In each layer, who sees whom, of `time` new positions and `before` in the caches."""
        return [causal_mask(time, before + time, device=device)] * len(self.layers)

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        memory: Float[Tensor, "sequences source_time d_model"] | None = None,
        memory_mask: Bool[Tensor, "..."] | None = None,
        caches: list[LayerCache] | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        time = x.size(1)
        before = caches[0].own.length if caches else 0
        x = self.dropout(self.positions.add(x, before))
        none = [None] * len(self.layers)
        # The newest position alone may see all others: one step of decoding needs no mask.
        masks = self._causal_masks(time, before, x.device) if time > 1 else none
        for layer, mask, cache in zip(self.layers, masks, caches or none, strict=True):
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, cache=cache)
        return self.norm(x)


class TransformerState(NamedTuple):
    """What decoding carries from step to step; a step changes the caches in place."""

    memory: Tensor  # (sequences, source_time, d_model): hypotheses of one source share it
    memory_mask: Tensor  # (batch, 1, source_time)
    caches: list[LayerCache]  # one for each decoder layer

    def select(self, rows: Int[Tensor, " rows"]) -> "TransformerState":
        """Keep these sequences of the batch, in this order, each any number of times.

        Once the caches are filled, nobody copies the memory: rows of one source share it.
        """
        of_memory = self.caches[0].memory
        if not of_memory.length:  # before the first step
            caches = [cache.select(rows) for cache in self.caches]
            return TransformerState(self.memory[rows], self.memory_mask[rows], caches)
        readers = of_memory.readers_after(rows)  # in every layer
        caches = [
            LayerCache(cache.own.select(rows), cache.memory.read_by(*readers))
            for cache in self.caches
        ]
        return TransformerState(self.memory, self.memory_mask[rows], caches)


def _embedding(vocab: int, config: Config) -> Embedding:
    """With a tied matrix, which makes the first logits too, half the spread: see `Embedding`."""
    return Embedding(vocab, config.d_model, std=0.5 if config.tied else 1.0)


def _projection(embedding: Embedding, config: Config) -> nn.Module:
    if config.tied:
        return TiedProjection(embedding)
    return nn.Linear(config.d_model, len(embedding.weight), bias=False)


class Transformer(nn.Module):
    """Read a source, write a target: the encoder and the decoder between embedding and projection.

    The interface is that of `lib.seq2seq`: calling the model is teacher forcing, `start` and
    `step` decode token by token, and both give the same logits.
    Source: Attention Is All You Need, figure 1.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.source_embedding = _embedding(config.source_vocab, config)
        self.target_embedding = (
            self.source_embedding
            if config.tied and config.target_vocab is None
            else _embedding(config.target_vocab or config.source_vocab, config)
        )
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.projection = _projection(self.target_embedding, config)

    def encode(
        self, source: Int[Tensor, "batch source_time"], source_lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch source_time d_model"], Bool[Tensor, "batch 1 source_time"]]:
        """Return the memory, and the mask that hides the source's padding.

        A length of 0 hides the whole sequence, one beyond source_time nothing.
        Errors: ValueError unless there is one length for each sequence, a whole number.
        Source: Attention Is All You Need, section 3.1.
        """
        _require_one_each(source_lengths, source)
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
        Source: Attention Is All You Need, section 3.1.
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
        Errors: ValueError unless there is one length for each sequence, a whole number.
        """
        _require_one_each(target_lengths, target_in)
        real_source = padding_mask(source_lengths, source.size(1))[:, 0]  # (batch, source_time)
        real_target = padding_mask(target_lengths, target_in.shape[1])[:, 0]  # (batch, target_time)
        with (
            at_real((at.get_submodule("feed_forward") for at in self.encoder.layers), real_source),
            at_real((at.get_submodule("feed_forward") for at in self.decoder.layers), real_target),
        ):
            memory, mask = self.encode(source, source_lengths)
            x = self.decoder(self.target_embedding(target_in), memory, mask)
        return self.projection(x[real_target])

    @torch.no_grad()
    def start(
        self, source: Int[Tensor, "batch source_time"], source_lengths: Int[Tensor, " batch"]
    ) -> TransformerState:
        """Read the source; return the state before the first token, without gradients."""
        return TransformerState(*self.encode(source, source_lengths), self.decoder.new_caches())

    @torch.no_grad()
    def step(
        self, token: Int[Tensor, " batch"], state: TransformerState
    ) -> tuple[Float[Tensor, "batch vocab"], None, TransformerState]:
        """Feed one token: logits of the next one, None, and the state, whose caches have grown.

        There is no one map to return: `attention_maps` gives those of all layers and heads.
        """
        x = self.decoder(self.target_embedding(token.view(-1, 1)), *state)
        return self.projection(x).squeeze(1), None, state


class LanguageModel(nn.Module):
    """The decoder without cross-attention, between embedding and projection.

    Of the configuration, source_vocab is the one vocabulary. The decoders of `lib.decoding` take
    it too: it continues the tokens that they are given as a source.
    Source: Radford et al. 2018 (GPT).
    """

    continues = True  # decoding feeds the last token of the source first, instead of BOS

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = _embedding(config.source_vocab, config)
        self.decoder = self._make_decoder()
        self.projection = _projection(self.embedding, config)

    def _make_decoder(self) -> Decoder:
        return Decoder(self.config, cross_attention=False)

    def forward(
        self, tokens: Int[Tensor, "batch time"], caches: list[LayerCache] | None = None
    ) -> Float[Tensor, "batch time vocab"]:
        """Logits for the token after each one; with caches, tokens continue what they hold."""
        return self.projection(self.decoder(self.embedding(tokens), caches=caches))

    @torch.no_grad()
    def start(
        self,
        source: Int[Tensor, "batch time"] | None = None,
        source_lengths: Int[Tensor, " batch"] | None = None,
    ) -> list[LayerCache]:
        """Read a prefix but for its last token, which the first `step` is fed.

        Without one, return the state before the first token of all.
        Errors: ValueError for no prefixes, prefixes without a token or of different lengths (the
            caches hold as many positions for each sequence), or another number of lengths.
        """
        caches = self.decoder.new_caches()
        if source is None or source_lengths is None:
            return caches
        one_each = source.dim() == 2 and source_lengths.shape == source.shape[:1]
        if not one_each or not source.numel() or not source_lengths.eq(source.shape[1]).all():
            raise ValueError(
                "expected prefixes of one length, of at least one token, such as BOS, got "
                f"{tuple(source.shape)} with lengths {source_lengths.tolist()}; continue those of "
                "each length by themselves"
            )
        if source.shape[1] > 1:
            self(source[:, :-1], caches)
        return caches

    @torch.no_grad()
    def step(
        self, token: Int[Tensor, " batch"], state: list[LayerCache]
    ) -> tuple[Float[Tensor, "batch vocab"], None, list[LayerCache]]:
        """Feed one token: logits of the next one, None, and the state, whose caches have grown."""
        return self(token.view(-1, 1), state).squeeze(1), None, state


class OneStack(nn.Module):
    """Embedding, n_layers encoder layers and a projection, under whatever mask it is given.

    Without a mask it is BERT's design; with `causal_mask` it computes what `LanguageModel` does,
    from the same parameters. Of the configuration, source_vocab is the one vocabulary.
    Source: Devlin et al. 2019; Radford et al. 2018.
    """

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.embedding = _embedding(config.source_vocab, config)
        self.encoder = Encoder(config)
        self.projection = _projection(self.embedding, config)

    def forward(
        self, tokens: Int[Tensor, "batch time"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch time vocab"]:
        return self.projection(self.encoder(self.embedding(tokens), mask))

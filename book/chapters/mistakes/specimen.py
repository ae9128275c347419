"""A small Transformer whose every step is a method of its own, so that a mistake can replace one.

It is right. `catalogue`, beside this file, makes it wrong in one place at a time. Its parameters
have the names and shapes of `lib.transformer.Transformer`, so the parameters of the one can be
loaded into the other.
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.data import PAD
from lib.layers import Embedding, FeedForward, LayerNorm, Residual, TiedProjection
from lib.masks import causal_mask, combine_masks, padding_mask
from lib.positions import sinusoidal_table
from lib.transformer import Config, Transformer

TABLE = 64  # positions of the table
VOCABULARIES = 29, 23  # of the models that are tested


class PlainAttention(nn.Module):
    """softmax(Q K^T / sqrt(d_k)) V for several heads, one method a step.

    Shapes: x (batch, query, d_in), memory (batch, key, d_in), x itself unless given; mask (query,
        key) or (batch, query, key), each axis full or 1, True = may attend. Returns
        (batch, query, d_out); the weights are (batch, heads, query, key).
    Source: Attention Is All You Need, section 3.2.2.
    """

    def __init__(self, d_in: int, n_heads: int, d_out: int | None = None):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_in, d_in) for _ in range(3))
        self.w_o = nn.Linear(d_in, d_out or d_in)

    def forward(
        self,
        x: Float[Tensor, "batch query d_in"],
        memory: Float[Tensor, "batch key d_in"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Tensor:
        """Weigh, split into heads, average, concatenate, project."""
        weights = self.attention_weights(x, memory, mask)  # (batch, heads, query, key)
        value = self.split(self.w_v(x if memory is None else memory))  # (batch, heads, key, d_k)
        return self.output(self.join(weights @ value))

    def attention_weights(
        self, x: Tensor, memory: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Project, split into heads, score, mask."""
        query = self.split(self.w_q(x))
        key = self.split(self.w_k(x if memory is None else memory))
        mask = mask.unsqueeze(-3) if mask is not None else None  # an axis for the heads
        return self.weigh(self.scores(query, key), mask)

    def split(self, x: Tensor) -> Tensor:
        """(batch, time, heads * d_k) -> (batch, heads, time, d_k)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """Q K^T / sqrt(d_k)."""
        return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Softmax over the keys that are allowed; a fully masked row is all 0."""
        if mask is None:
            return scores.softmax(-1)
        lowest = torch.finfo(scores.dtype).min
        return scores.masked_fill(~mask, lowest).softmax(-1).masked_fill(~mask, 0.0)

    def join(self, heads: Tensor) -> Tensor:
        """(batch, heads, time, d_k) -> (batch, time, heads * d_k)."""
        return heads.transpose(1, 2).flatten(2)

    def output(self, joined: Tensor) -> Tensor:
        """Concat(heads) W^O."""
        return self.w_o(joined)


class SpecimenState(NamedTuple):
    """What `Specimen` carries from step to step: it keeps no keys and values, only its inputs."""

    memory: Tensor
    memory_mask: Tensor
    tokens: Tensor  # (batch, time so far)
    x: Tensor  # the same, embedded and marked with positions


class Specimen(nn.Module):
    """An encoder-decoder of the book's interface, post-norm, with sinusoidal positions.

    Args: source_vocab, target_vocab; attention, the class of all attention layers, called with
        (d_model, n_heads); the sizes as in `lib.transformer.Config`.
    Source: Attention Is All You Need, figure 1.
    """

    norm: type[LayerNorm] = LayerNorm
    tied = False
    table: Tensor  # (position, d_model)

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        attention: type[nn.Module] = PlainAttention,
        *,
        d_model: int = 24,
        n_heads: int = 3,
        d_ff: int = 20,
        n_layers: int = 2,
    ):
        super().__init__()
        sizes = (source_vocab, target_vocab, d_model, n_heads, d_ff, n_layers)
        self.config = Config(*sizes, dropout=0.0, tied=self.tied)
        self.attention = attention
        std = 0.5 if self.tied else 1.0
        self.source_embedding = Embedding(source_vocab, d_model, std=std)
        self.target_embedding = Embedding(target_vocab, d_model, std=std)
        self.keep_table(self.make_table())
        self.encoder = self.stack("self_attention", "feed_forward")
        self.decoder = self.stack("self_attention", "cross_attention", "feed_forward")
        self.projection = (
            TiedProjection(self.target_embedding)
            if self.tied
            else nn.Linear(d_model, target_vocab, bias=False)
        )

    def reference(self) -> Transformer:
        """The library's Transformer with this configuration."""
        return Transformer(self.config)

    def make_table(self) -> Float[Tensor, "time d_model"]:
        """The sinusoids of positions 0, 1, ..."""
        return sinusoidal_table(TABLE, self.config.d_model)

    def keep_table(self, table: Tensor) -> None:
        """Keep the table as a buffer: it moves with the model, and is no parameter."""
        self.register_buffer("table", table, persistent=False)

    def stack(self, *names: str) -> Any:
        """n_layers layers, each with sub-layers of these names; a mistake may make it no module."""
        layers = (
            nn.ModuleDict({name: self.residual(name) for name in names})
            for _ in range(self.config.n_layers)
        )
        return nn.ModuleDict({"layers": nn.ModuleList(layers)})

    def residual(self, name: str) -> Residual:
        """A sub-layer, with the sum and the norm around it."""
        c = self.config
        sublayer = (
            FeedForward(c.d_model, c.d_ff)
            if name == "feed_forward"
            else self.attention(c.d_model, c.n_heads)
        )
        around = Residual(sublayer, c.d_model)
        around.norm = self.norm(c.d_model)
        return around

    def encoder_mask(self, mask: Tensor) -> Tensor:
        """The mask of the encoder's self-attention, from that of the source."""
        return mask

    def target_mask(self, target_in: Tensor) -> Tensor | None:
        """(batch, query, key): no later token, and no padding."""
        causal = causal_mask(target_in.shape[1], device=target_in.device)
        return combine_masks(causal, (target_in != PAD)[:, None])

    def embed(self, tokens: Tensor, embedding: nn.Module, start: int = 0) -> Tensor:
        """Look the tokens up and add their positions start, start + 1, ..."""
        return embedding(tokens) + self.table[start : start + tokens.shape[1]]

    def next_position(self, state: SpecimenState) -> int:
        """The position of the token that comes next."""
        return state.tokens.shape[1]

    def project(self, x: Tensor) -> Tensor:
        """From vectors to logits."""
        return self.projection(x)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The memory, and the mask that hides its padding."""
        memory_mask = padding_mask(lengths, source.shape[1])  # (batch, 1, key)
        x, mask = self.embed(source, self.source_embedding), self.encoder_mask(memory_mask)
        for layer in self.encoder["layers"]:
            x = layer["feed_forward"](layer["self_attention"](x, mask=mask))
        return x, memory_mask

    def decode(self, x: Tensor, tokens: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """Logits from embedded target tokens and the memory."""
        mask = self.target_mask(tokens)
        for layer in self.decoder["layers"]:
            x = layer["self_attention"](x, mask=mask)
            x = layer["cross_attention"](x, memory, mask=memory_mask)
            x = layer["feed_forward"](x)
        return self.project(x)

    def forward(
        self,
        source: Int[Tensor, "batch source_time"],
        source_lengths: Int[Tensor, " batch"],
        target_in: Int[Tensor, "batch target_time"],
    ) -> Float[Tensor, "batch target_time vocab"]:
        """Teacher forcing: all logits at once."""
        memory, memory_mask = self.encode(source, source_lengths)
        x = self.embed(target_in, self.target_embedding)
        return self.decode(x, target_in, memory, memory_mask)

    @torch.no_grad()
    def start(self, source: Tensor, source_lengths: Tensor) -> SpecimenState:
        """Read the source; nothing is predicted yet."""
        memory, memory_mask = self.encode(source, source_lengths)
        return SpecimenState(memory, memory_mask, source[:, :0], memory[:, :0])

    @torch.no_grad()
    def step(self, token: Tensor, state: SpecimenState) -> tuple[Tensor, None, SpecimenState]:
        """Feed one token: its logits, None, and the new state."""
        new = self.embed(token[:, None], self.target_embedding, self.next_position(state))
        x = torch.cat((state.x, new), dim=1)
        tokens = torch.cat((state.tokens, token[:, None]), dim=1)
        logits = self.decode(x, tokens, state.memory, state.memory_mask)
        return logits[:, -1], None, SpecimenState(state.memory, state.memory_mask, tokens, x)

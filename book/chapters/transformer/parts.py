"""The paper's Transformer with a switch at each of its parts, to see what each of them is for.

    TransformerWithout(config, {"positions"})   never had it: does training need the part?
    model.without = {"positions"}               switched off after training: does the model use it?

The parameters are those of `lib.transformer`, with their names and their first values. The forward
pass is written out once more, so that every part is a line that can be left out. A sub-layer that
is left out adds nothing, and its norm stays. With nothing left out the numbers are those of the
library, and of torch.nn.Transformer with the same parameters.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.layers import Embedding, Residual
from lib.masks import causal_mask, padding_mask
from lib.transformer import Config, Transformer

PARTS = {
    "cross_attention": "cross-attention",
    "causal_mask": "the causal mask",
    "residual": "the residual path",
    "positions": "positions",
    "encoder_self_attention": "self-attention in the encoder",
    "feed_forward": "the feed-forward networks",
    "decoder_self_attention": "self-attention in the decoder",
    "root": "division by the root of d_k",
    "heads": "all heads but one",
    "norms": "the layer norms",
    "relu": "the ReLU between the two matrices",
    "embedding_scale": "the embeddings' factor, the root of d_model",
    "padding_mask": "the padding mask",
    "w_o": "the matrix W^O behind the heads",
    "encoder": "all layers of the encoder",
}
END_MARK = "end_mark"  # no part: the source's <eos>, which can be hidden from the decoder


class Prefix(NamedTuple):
    """What decoding carries: the memory, its mask, and the tokens fed so far."""

    memory: Float[Tensor, "batch source_time d_model"]
    mask: Bool[Tensor, "batch 1 source_time"]
    tokens: Int[Tensor, "batch time"]


class TransformerWithout(nn.Module):
    """A post-norm Transformer with sinusoidal positions that does without some of its parts.

    The interface is the library's: calling the model is teacher forcing, `start` and `step` decode
    token by token. A step runs the whole prefix anew: without the causal mask earlier positions
    change with each token, and no cache could keep them.

    Args: config, post-norm, sinusoidal, with ReLU and without dropout. without, names of `PARTS`,
        and `END_MARK`.
    Errors: ValueError for another configuration, and for a part that there is not.
    Source: Attention Is All You Need, section 3.
    """

    def __init__(self, config: Config, without: Collection[str] = ()):
        wanted = {"norm": "post", "positions": "sinusoidal", "activation": "relu", "dropout": 0.0}
        got = {name: getattr(config, name) for name in wanted}
        if got != wanted:
            raise ValueError(f"expected a configuration with {wanted}, got {got}")
        # Trained without the other heads, the one that is left has the whole width.
        whole = Transformer(replace(config, n_heads=1) if "heads" in without else config)
        super().__init__()
        self.source_embedding, self.encoder = whole.source_embedding, whole.encoder
        self.target_embedding, self.decoder = whole.target_embedding, whole.decoder
        self.projection = whole.projection
        self.without = without

    @property
    def without(self) -> Collection[str]:
        """The parts that the forward pass leaves out; to be set at any time."""
        return self._without

    @without.setter
    def without(self, parts: Collection[str]) -> None:
        if unknown := set(parts) - {*PARTS, END_MARK}:
            raise ValueError(f"expected parts out of {', '.join(PARTS)}, got {sorted(unknown)}")
        self._without = frozenset(parts)

    def has(self, part: str) -> bool:
        """Whether the forward pass runs through this part."""
        return part not in self._without

    # --- the two stacks ----------------------------------------------------------------------

    def encode(
        self, source: Int[Tensor, "batch source_time"], source_lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch source_time d_model"], Bool[Tensor, "batch 1 source_time"]]:
        """Return the memory, and the mask under which the decoder reads it."""
        real = padding_mask(source_lengths, source.shape[1])  # (batch, 1, source_time)
        x = self._embedded(self.source_embedding, source)
        layers: Iterable[Any] = self.encoder.layers if self.has("encoder") else ()
        for layer in layers:
            x = self._attend("encoder_self_attention", layer.self_attention, x, x, real)
            x = self._feed_forward(layer.feed_forward, x)
        shown = source_lengths if self.has(END_MARK) else source_lengths - 1
        return x, padding_mask(shown, source.shape[1])

    def decode(
        self,
        target_in: Int[Tensor, "batch time"],
        memory: Float[Tensor, "batch source_time d_model"],
        mask: Bool[Tensor, "batch 1 source_time"],
    ) -> Float[Tensor, "batch time d_model"]:
        """Return the decoder's output at each position of the target."""
        earlier = causal_mask(target_in.shape[1]) if self.has("causal_mask") else None
        y = self._embedded(self.target_embedding, target_in)
        layers: Iterable[Any] = self.decoder.layers
        for layer in layers:
            y = self._attend("decoder_self_attention", layer.self_attention, y, y, earlier)
            y = self._attend("cross_attention", layer.cross_attention, y, memory, mask)
            y = self._feed_forward(layer.feed_forward, y)
        return y

    def forward(
        self,
        source: Int[Tensor, "batch source_time"],
        source_lengths: Int[Tensor, " batch"],
        target_in: Int[Tensor, "batch time"],
    ) -> Float[Tensor, "batch time vocab"]:
        """Teacher forcing: logits for the token after each one of target_in, all at once."""
        return self.projection(self.decode(target_in, *self.encode(source, source_lengths)))

    @torch.no_grad()
    def start(
        self, source: Int[Tensor, "batch source_time"], source_lengths: Int[Tensor, " batch"]
    ) -> Prefix:
        """Read the source; return the state before the first token."""
        return Prefix(*self.encode(source, source_lengths), source.new_empty(len(source), 0))

    @torch.no_grad()
    def step(
        self, token: Int[Tensor, " batch"], state: Prefix
    ) -> tuple[Float[Tensor, "batch vocab"], None, Prefix]:
        """Feed one token: logits of the next one, None, and the state with the longer prefix."""
        state = state._replace(tokens=torch.cat([state.tokens, token[:, None]], dim=1))
        y = self.decode(state.tokens, state.memory, state.mask)
        return self.projection(y[:, -1]), None, state

    # --- the parts ---------------------------------------------------------------------------

    def _embedded(
        self, embedding: Embedding, tokens: Int[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time d_model"]:
        """sqrt(d_model) times the row of each token, and its position."""
        x = F.embedding(tokens, embedding.weight)
        if self.has("embedding_scale"):
            x = x * embedding.scale
        if self.has("positions"):
            x = self.encoder.positions.add(x)  # the sinusoids are the same in both stacks
        return x

    def _attend(
        self,
        part: str,
        around: Residual,
        x: Float[Tensor, "batch query d_model"],
        read: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "..."] | None,
    ) -> Float[Tensor, "batch query d_model"]:
        """One of the three attentions, with its residual path and norm: x asks, `read` answers."""
        if not self.has(part):
            return self._normed(around, x)
        is_padding = part != "decoder_self_attention"
        if is_padding and not self.has("padding_mask"):
            mask = None
        return self._beside(around, x, self._attention(around.sublayer, x, read, mask))

    def _attention(
        self,
        layer: Any,  # a MultiHeadAttention, of which only the matrices are used
        x: Float[Tensor, "batch query d_model"],
        read: Float[Tensor, "batch key d_model"],
        mask: Bool[Tensor, "..."] | None,
    ) -> Float[Tensor, "batch query d_model"]:
        query, key, value = (
            projection(y).unflatten(-1, (layer.n_heads, -1)).transpose(1, 2)
            for projection, y in ((layer.w_q, x), (layer.w_k, read), (layer.w_v, read))
        )  # each (batch, heads, time, d_k)
        if mask is not None and mask.dim() == 3:
            mask = mask[:, None]  # the same for all heads
        scale = None if self.has("root") else 1.0  # None: 1 / sqrt(d_k)
        mixed = F.scaled_dot_product_attention(query, key, value, mask, scale=scale)
        if not self.has("heads"):
            mixed = torch.cat([mixed[:, :1], torch.zeros_like(mixed[:, 1:])], dim=1)
        mixed = mixed.transpose(1, 2).flatten(2)  # (batch, query, heads * d_k)
        return layer.w_o(mixed) if self.has("w_o") else mixed

    def _feed_forward(
        self, around: Residual, x: Float[Tensor, "batch time d_model"]
    ) -> Float[Tensor, "batch time d_model"]:
        if not self.has("feed_forward"):
            return self._normed(around, x)
        network: Any = around.sublayer
        inner = network.w_1(x)  # (batch, time, d_ff)
        return self._beside(around, x, network.w_2(F.relu(inner) if self.has("relu") else inner))

    def _beside(self, around: Residual, x: Tensor, change: Tensor) -> Tensor:
        """LayerNorm(x + Sublayer(x))."""
        return self._normed(around, x + change if self.has("residual") else change)

    def _normed(self, around: Residual, x: Tensor) -> Tensor:
        return around.norm(x) if self.has("norms") else x

"""A decoder whose block can be the paper's, today's, or anything between: one field, one change.

    tokens -> Embedding -> + positions -> n_layers x ModernBlock -> norm -> projection -> logits

A block is causal self-attention and a feed-forward network, each in a pre-norm `Residual`. The
fields of `BlockConfig` choose what they are made of; `paper_2017` and `today` choose them all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from chapters.modern_block.experts import MixtureOfExperts
from lib.attention import KeyValueCache, MultiHeadAttention
from lib.layers import Embedding, FeedForward, LayerNorm, Residual, RMSNorm, TiedProjection
from lib.masks import causal_mask
from lib.positions import Positions, Rotary, make_positions

NORMS: dict[str, Callable[..., nn.Module]] = {"layer": LayerNorm, "rms": RMSNorm}
ACTIVATIONS = ("relu", "gelu", "swiglu")
POSITIONS = ("none", "sinusoidal", "learned", "rotary")
SIZES = ("vocab", "d_model", "n_layers", "n_heads", "d_ff", "n_active", "max_length")
OPTIONAL_SIZES = ("n_kv_heads", "d_k", "window", "n_experts")


@dataclass(frozen=True)
class BlockConfig:
    """What a `ModernDecoder` is made of; the defaults are the paper's base model, in pre-norm.

    vocab         entries of the vocabulary
    d_model, n_layers, n_heads, d_ff   the paper's names
    n_kv_heads    heads of keys and values; None means n_heads, 1 multi-query attention
    d_k           dimension of one head; None means d_model / n_heads
    norm          "layer" or "rms", norm_eps its eps
    activation    of the feed-forward networks: "relu", "gelu" or "swiglu"
    positions     "none", "sinusoidal", "learned" or "rotary"; rope_base is the base of the last
    bias          whether linear layers have one; a LayerNorm keeps its own either way
    window        positions that a query attends to, itself included; None means all before it
    n_experts     feed-forward networks of each block, of which a token passes n_active; None
                  means one network and no router
    tied          use the embedding as output projection too
    scaled_embedding   multiply embeddings by sqrt(d_model), as the paper does
    max_length    the most positions that "learned" has; the others have no limit
    dropout       on the output of each sub-layer and on embeddings + positions

    Errors: ValueError that names the field, what was expected and what came.
    Source: Attention Is All You Need, table 3.
    """

    vocab: int
    d_model: int = 512
    n_layers: int = 6
    n_heads: int = 8
    n_kv_heads: int | None = None
    d_k: int | None = None
    d_ff: int = 2048
    norm: str = "layer"
    norm_eps: float = 1e-5
    activation: str = "relu"
    positions: str = "sinusoidal"
    rope_base: float = 10_000.0
    bias: bool = True
    window: int | None = None
    n_experts: int | None = None
    n_active: int = 2
    tied: bool = True
    scaled_embedding: bool = True
    max_length: int = 512
    dropout: float = 0.0

    def __post_init__(self) -> None:
        given = [name for name in OPTIONAL_SIZES if getattr(self, name) is not None]
        for name in (*SIZES, *given):
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ValueError(f"expected {name} to be a whole number above 0, got {size!r}")
        choices = (("norm", NORMS), ("activation", ACTIVATIONS), ("positions", POSITIONS))
        for name, allowed in choices:
            choice = getattr(self, name)
            if choice not in allowed:
                raise ValueError(f"expected {name} out of {', '.join(allowed)}, got {choice!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(
                f"expected a dropout of at least 0 and below 1, got {self.dropout!r}; "
                "it is the fraction of entries set to 0"
            )
        if not self.norm_eps >= 0 or not self.rope_base > 0:
            raise ValueError(
                "expected norm_eps of at least 0 and rope_base above 0, "
                f"got {self.norm_eps!r} and {self.rope_base!r}"
            )
        if self.d_k is None and self.d_model % self.n_heads:
            raise ValueError(
                f"expected d_model to be a multiple of n_heads, got d_model={self.d_model} and "
                f"n_heads={self.n_heads}; change one of them, or give d_k"
            )
        if self.n_heads % self.kv_heads:
            raise ValueError(
                f"expected n_kv_heads to divide n_heads, got n_kv_heads={self.n_kv_heads} and "
                f"n_heads={self.n_heads}; each group has n_heads / n_kv_heads query heads"
            )
        if self.positions == "rotary" and self.head_dim % 2:
            raise ValueError(
                f"expected an even d_k for rotary positions, got {self.head_dim}; "
                "change d_k, d_model or n_heads, or choose another scheme"
            )
        if self.n_experts is not None and self.n_active > self.n_experts:
            raise ValueError(
                f"expected n_active of at most n_experts, got n_active={self.n_active} and "
                f"n_experts={self.n_experts}; a token passes each expert once"
            )

    @property
    def head_dim(self) -> int:
        """d_k where it is given, else d_model / n_heads: the dimension of one head."""
        return self.d_model // self.n_heads if self.d_k is None else self.d_k

    @property
    def kv_heads(self) -> int:
        """n_kv_heads where it is given, else n_heads."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads


def paper_2017(vocab: int, **changes: Any) -> BlockConfig:
    """The paper's choices: LayerNorm, ReLU, sinusoidal positions, biases, as many heads of keys.

    One thing differs: the norms come before the sub-layers, as in `today`, and not after them.

    Args: changes, sizes and other fields of `BlockConfig`.
    Source: Attention Is All You Need, section 3.
    """
    return BlockConfig(vocab, **changes)


def today(vocab: int, **changes: Any) -> BlockConfig:
    """What published language models have in common: RMSNorm, SwiGLU, rotary, no biases, untied.

    Fields that are sizes, n_kv_heads among them, stay the paper's unless given.

    Args: changes, sizes and other fields of `BlockConfig`.
    Source: Touvron et al. 2023 (LLaMA), section 2.2.
    """
    style: dict[str, Any] = {
        "norm": "rms",
        "activation": "swiglu",
        "positions": "rotary",
        "bias": False,
        "tied": False,
        "scaled_embedding": False,
    }
    return BlockConfig(vocab, **(style | changes))


def _positions(config: BlockConfig) -> Positions:
    if config.positions == "rotary":
        return Rotary(config.head_dim, base=config.rope_base, max_length=config.max_length)
    return make_positions(
        config.positions, config.d_model, config.n_heads, max_length=config.max_length
    )


def _norm_layer(config: BlockConfig) -> Callable[[int], nn.Module]:
    return partial(NORMS[config.norm], eps=config.norm_eps)


class WindowCache(KeyValueCache):
    """The keys and values of the last window - 1 positions: all that the next query can attend to.

    `length` counts every position that has passed, so that positions go on where they were.

    Errors: ValueError as in `KeyValueCache`.
    Source: Beltagy et al. 2020; Jiang et al. 2023, section 2 (a rolling buffer).
    """

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def append(
        self, key: Float[Tensor, "batch heads new d_k"], value: Float[Tensor, "batch heads new d_v"]
    ) -> tuple[Float[Tensor, "batch heads key d_k"], Float[Tensor, "batch heads key d_v"]]:
        """Return the keys and values kept, the new ones behind them; keep the last window - 1.

        Shapes: as in `KeyValueCache.append`, where key is at most window - 1 + new.
        """
        n_new = key.shape[2]
        if self.length:
            if len(key) != len(self._key):
                raise ValueError(
                    f"expected a batch of {len(self._key)} as at the first step, got {len(key)}; "
                    "use select to keep some of the sequences"
                )
            key = torch.cat((self._key, key), dim=2)
            value = torch.cat((self._value, value), dim=2)
        self.length += n_new
        first = max(0, key.shape[2] - (self.window - 1))
        self._key, self._value = key[:, :, first:], value[:, :, first:]
        return key, value


class ModernBlock(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)).

    Args: positions, the scheme of the stack, for the self-attention.
    Shapes: x (batch, time, d_model), mask (time, key). Returns the shape of x.
    Source: Xiong et al. 2020 (pre-norm); Touvron et al. 2023 (LLaMA).
    """

    def __init__(self, config: BlockConfig, positions: Positions):
        super().__init__()
        attention = MultiHeadAttention(
            config.d_model,
            config.n_heads,
            n_kv_heads=config.kv_heads,
            d_k=config.head_dim,
            d_v=config.head_dim,
            bias=config.bias,
            positions=positions if positions.in_attention else None,
        )
        feed_forward: nn.Module
        if config.n_experts is None:
            feed_forward = FeedForward(
                config.d_model, config.d_ff, config.activation, bias=config.bias
            )
        else:
            feed_forward = MixtureOfExperts(
                config.d_model,
                config.d_ff,
                config.n_experts,
                config.n_active,
                activation=config.activation,
                bias=config.bias,
            )
        residual = partial(
            Residual,
            d_model=config.d_model,
            norm="pre",
            norm_layer=_norm_layer(config),
            dropout=config.dropout,
        )
        self.self_attention = residual(attention)
        self.feed_forward = residual(feed_forward)

    def forward(
        self,
        x: Float[Tensor, "batch time d_model"],
        mask: Bool[Tensor, "time key"] | None = None,
        cache: KeyValueCache | None = None,
    ) -> Float[Tensor, "batch time d_model"]:
        return self.feed_forward(self.self_attention(x, mask=mask, cache=cache))


class ModernDecoder(nn.Module):
    """A language model of `ModernBlock`s, with the interface of `lib.transformer.LanguageModel`.

    Shapes: see `forward`.
    Source: Radford et al. 2018 (GPT); Touvron et al. 2023 (LLaMA).
    """

    def __init__(self, config: BlockConfig):
        super().__init__()
        self.config = config
        # With a tied matrix, which makes the first logits too, half the spread: see `Embedding`.
        self.embedding = Embedding(config.vocab, config.d_model, std=0.5 if config.tied else 1.0)
        if not config.scaled_embedding:
            self.embedding.scale = 1.0
        self.positions = _positions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            ModernBlock(config, self.positions) for _ in range(config.n_layers)
        )
        self.norm = _norm_layer(config)(config.d_model)
        self.projection = (
            TiedProjection(self.embedding)
            if config.tied
            else nn.Linear(config.d_model, config.vocab, bias=False)
        )

    def forward(
        self, tokens: Int[Tensor, "batch time"], caches: Sequence[KeyValueCache] | None = None
    ) -> Float[Tensor, "batch time vocab"]:
        """Logits for the token after each one; with caches, tokens continue what they hold."""
        time = tokens.shape[1]
        before = caches[0].length if caches else 0
        x = self.dropout(self.positions.add(self.embedding(tokens), before))
        mask = self._mask(time, before, x.device)
        given: Sequence[KeyValueCache | None] = caches or [None] * len(self.layers)
        for layer, cache in zip(self.layers, given, strict=True):
            x = layer(x, mask, cache)
        return self.projection(self.norm(x))

    def _mask(
        self, time: int, before: int, device: torch.device
    ) -> Bool[Tensor, "time key"] | None:
        """Who may attend to whom, of `time` new positions and the keys that the caches hold."""
        window = self.config.window
        if window is not None:
            before = min(before, window - 1)  # the others are forgotten: see `WindowCache`
        # The newest position alone may attend to all that is kept: a step of decoding has no mask.
        return causal_mask(time, before + time, window=window, device=device) if time > 1 else None

    def start(
        self, source: Tensor | None = None, source_lengths: Tensor | None = None
    ) -> tuple[KeyValueCache, ...]:
        """Return the state before the first token: an empty cache for each layer.

        A language model has no source. `lib.decoding` gives one all the same, and its number of
        rows is the number of texts to be written; it is not read.
        """
        window = self.config.window
        return tuple(
            KeyValueCache() if window is None else WindowCache(window) for _ in self.layers
        )

    @torch.no_grad()
    def step(
        self, token: Int[Tensor, " batch"], state: Sequence[KeyValueCache]
    ) -> tuple[Float[Tensor, "batch vocab"], None, Sequence[KeyValueCache]]:
        """Feed one token: logits of the next one, None, and the state, whose caches have grown."""
        return self(token.unsqueeze(1), state).squeeze(1), None, state

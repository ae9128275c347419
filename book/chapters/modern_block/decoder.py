"""A language model whose blocks can be the paper's, today's, or anything between.

`ModernDecoder` is the `LanguageModel` of `lib.transformer`: the same layers in the same stack. The
fields of `BlockConfig` choose what they are made of; `paper_2017` and `today` choose them all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from chapters.modern_block.attention import ModernAttention
from chapters.modern_block.experts import MixtureOfExperts, require_choice
from chapters.modern_block.rotation import ScaledRotary, Scaling
from lib.attention import KeyValueCache, MultiHeadAttention
from lib.layers import FeedForward, LayerNorm, RMSNorm
from lib.masks import causal_mask
from lib.positions import Positions, Rotary
from lib.transformer import Config, Decoder, LanguageModel, LayerCache

NORMS: dict[str, Callable[..., nn.Module]] = {"layer": LayerNorm, "rms": RMSNorm}


@dataclass(frozen=True)
class BlockConfig(Config):
    """What a `ModernDecoder` is made of; the defaults are the paper's base model, in pre-norm.

    The fields of `Config`, of which source_vocab is the one vocabulary, and

    n_kv_heads    heads of keys and values; None means n_heads, 1 multi-query attention
    head_dim      d_k, where it is not d_model / n_heads
    norm_layer    "layer" or "rms", norm_eps its eps; norm says where it stands
    rope_base     the base of "rotary"
    rope_scaling  how "rotary" was slowed for longer texts; None means not at all
    bias          whether linear layers have one; a LayerNorm keeps its own either way
    qkv_bias      whether W^Q, W^K and W^V have one, where bias is False
    qk_norm       whether queries and keys pass an `RMSNorm` of their own, before the rotation
    window        positions that a query attends to, itself included; None means all before it
    full_every    with a window: every so many layers one has none, the last of them; None: no layer
    n_experts     feed-forward networks of each block, of which a token passes n_active; None
                  means one network and no router
    scaled_embedding   multiply embeddings by sqrt(d_model), as the paper does

    Errors: ValueError that names the field, what was expected and what came.
    Source: Attention Is All You Need, table 3.
    """

    dropout: float = 0.0
    norm: str = "pre"
    n_kv_heads: int | None = None
    head_dim: int | None = None
    norm_layer: str = "layer"
    norm_eps: float = 1e-5
    rope_base: float = 10_000.0
    rope_scaling: Scaling | None = None
    bias: bool = True
    qkv_bias: bool = False
    qk_norm: bool = False
    window: int | None = None
    full_every: int | None = None
    n_experts: int | None = None
    n_active: int = 2
    scaled_embedding: bool = True

    CHOICES = Config.CHOICES | {"norm_layer": NORMS}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.norm_eps >= 0 or not self.rope_base > 0:
            raise ValueError(
                "expected norm_eps of at least 0 and rope_base above 0, "
                f"got {self.norm_eps!r} and {self.rope_base!r}"
            )
        if self.n_heads % self.kv_heads:
            raise ValueError(
                f"expected n_kv_heads to divide n_heads, got n_kv_heads={self.n_kv_heads} and "
                f"n_heads={self.n_heads}; each group has n_heads / n_kv_heads query heads"
            )
        if self.full_every is not None and self.window is None:
            raise ValueError(
                f"expected a window where full_every is given, got full_every={self.full_every} "
                "and window=None; without one every layer attends to all"
            )
        if self.n_experts is not None:
            require_choice(self.n_active, self.n_experts)

    @property
    def vocab(self) -> int:
        """source_vocab: a language model has one vocabulary."""
        return self.source_vocab

    @property
    def d_k(self) -> int:
        """head_dim where it is given, else d_model / n_heads."""
        return super().d_k if self.head_dim is None else self.head_dim

    @property
    def kv_heads(self) -> int:
        """n_kv_heads where it is given, else n_heads."""
        return self.n_heads if self.n_kv_heads is None else self.n_kv_heads

    @property
    def windows(self) -> tuple[int | None, ...]:
        """The window of each layer, None where it has none."""
        every = self.full_every or self.n_layers + 1
        return tuple(None if i % every == 0 else self.window for i in range(1, self.n_layers + 1))

    def make_positions(self) -> Positions:
        """Make the scheme that the blocks share; a rotation has its own base, and may be slowed."""
        if self.positions != "rotary":
            return super().make_positions()
        options: dict[str, Any] = {"base": self.rope_base, "max_length": self.max_length}
        if self.rope_scaling is None:
            return Rotary(self.d_k, **options)
        return ScaledRotary(self.d_k, self.rope_scaling, **options)

    def make_norm(self) -> nn.Module:
        """Make a `LayerNorm` or an `RMSNorm`."""
        return NORMS[self.norm_layer](self.d_model, eps=self.norm_eps)

    def make_attention(self, positions: Positions | None = None) -> MultiHeadAttention:
        """Make attention whose query heads may share heads of keys and values."""
        return ModernAttention(
            self.d_model,
            self.n_heads,
            n_kv_heads=self.kv_heads,
            d_k=self.d_k,
            bias=self.bias,
            qkv_bias=self.qkv_bias,
            qk_norm_eps=self.norm_eps if self.qk_norm else None,
            positions=positions,
        )

    def make_feed_forward(self) -> nn.Module:
        """Make one feed-forward network, or several and their router."""
        sizes = (self.d_model, self.d_ff)
        if self.n_experts is None:
            return FeedForward(*sizes, self.activation, bias=self.bias)
        experts = (self.n_experts, self.n_active)
        return MixtureOfExperts(*sizes, *experts, activation=self.activation, bias=self.bias)


def paper_2017(vocab: int, **changes: Any) -> BlockConfig:
    """The paper's choices: LayerNorm, ReLU, sinusoidal positions, biases, as many heads of keys.

    One thing differs: the norms come before the sub-layers, as in `today`, and not after them.

    Args: changes, sizes and other fields of `BlockConfig`.
    Source: Attention Is All You Need, section 3.
    """
    return BlockConfig(vocab, **changes)


def today(vocab: int, **changes: Any) -> BlockConfig:
    """What LLaMA began with in 2023: RMSNorm, SwiGLU, rotary, no biases, untied.

    Most language models published since have the first three. Fields that are sizes, n_kv_heads
    among them, stay the paper's unless given.

    Args: changes, sizes and other fields of `BlockConfig`.
    Source: Touvron et al. 2023 (LLaMA), section 2.2.
    """
    style: dict[str, Any] = {
        "norm_layer": "rms",
        "activation": "swiglu",
        "positions": "rotary",
        "bias": False,
        "tied": False,
        "scaled_embedding": False,
    }
    return BlockConfig(vocab, **(style | changes))


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
        self._require_alike(key, value)
        if self.length:
            key = torch.cat((self._key, key), dim=2)
            value = torch.cat((self._value, value), dim=2)
        self.length += n_new
        first = max(0, key.shape[2] - (self.window - 1))
        self._key, self._value = key[:, :, first:], value[:, :, first:]
        return key, value


class WindowDecoder(Decoder):
    """The stack of a language model in which layers have windows, each its own or none.

    Source: Beltagy et al. 2020; Jiang et al. 2023, section 2; layers with and without a window, one
        above the other: Gemma Team 2024 (Gemma 2), section 2.
    """

    def __init__(self, config: BlockConfig):
        super().__init__(config, cross_attention=False)
        self.windows = config.windows

    def new_caches(self) -> list[LayerCache]:
        """Make an empty cache for each layer, which keeps no more than its window needs."""
        return [
            cache if window is None else cache._replace(own=WindowCache(window))
            for cache, window in zip(super().new_caches(), self.windows, strict=True)
        ]

    def _causal_masks(
        self, time: int, before: int, device: torch.device
    ) -> list[Bool[Tensor, "time key"]]:
        def mask(window: int | None) -> Bool[Tensor, "time key"]:
            kept = before if window is None else min(before, window - 1)  # see `WindowCache`
            return causal_mask(time, kept + time, window=window, device=device)

        masks = {window: mask(window) for window in set(self.windows)}
        return [masks[window] for window in self.windows]


class ModernDecoder(LanguageModel):
    """The library's language model, of the parts that a `BlockConfig` chooses.

    Source: Radford et al. 2018 (GPT); Touvron et al. 2023 (LLaMA).
    """

    config: BlockConfig

    def __init__(self, config: BlockConfig):
        super().__init__(config)
        if not config.scaled_embedding:
            self.embedding.scale = 1.0

    def _make_decoder(self) -> Decoder:
        return super()._make_decoder() if self.config.window is None else WindowDecoder(self.config)

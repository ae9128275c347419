"""A Transformer with one stack: it has no source, and says what comes next in a text."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lib.cache import LayerCache
from lib.config import Config
from lib.layers import Embedding, TiedProjection
from lib.transformer import Decoder


class LanguageModel(nn.Module):
    """The decoder without cross-attention, between embedding and projection.

    Of the configuration, source_vocab is the one vocabulary.
    Source: Radford et al. 2018 (GPT). Chapter: 14 (One design, three families).
    """

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        std = 0.5 if config.tied else 1.0
        self.embedding = Embedding(config.source_vocab, config.d_model, std=std)
        self.decoder = Decoder(config, cross_attention=False)
        self.projection = (
            TiedProjection(self.embedding)
            if config.tied
            else nn.Linear(config.d_model, config.source_vocab, bias=False)
        )

    def forward(
        self, tokens: Int[Tensor, "batch time"], caches: list[LayerCache] | None = None
    ) -> Float[Tensor, "batch time vocab"]:
        """Return logits for the token after each one; with caches, tokens continue what they hold.

        Source: ours. Chapter: 14 (One design, three families).
        """
        return self.projection(self.decoder(self.embedding(tokens), caches=caches))

    def start(self) -> list[LayerCache]:
        """Return the state before the first token. Chapter: 14 (One design, three families)."""
        return self.decoder.new_caches()

    @torch.no_grad()
    def step(
        self, token: Int[Tensor, " batch"], state: list[LayerCache]
    ) -> tuple[Float[Tensor, "batch vocab"], None, list[LayerCache]]:
        """Feed one token: logits of the next one, None, and the state, whose caches have grown.

        Source: ours. Chapter: 14 (One design, three families).
        """
        return self(token.unsqueeze(1), state).squeeze(1), None, state

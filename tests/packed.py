"""A model that a widget can load, small enough for every test."""

import torch

from lib.data import Vocabulary
from lib.transformer import Config, Transformer
from widgets.packing import PackedModel, pack_model


def packed() -> PackedModel:
    """A model with random weights and the sizes of the forward tracer's sample."""
    words = ("six", "days", "day", "in", "<i>"), ("dans", "six", "jours", "<b>")
    sizes = {"d_model": 6, "n_heads": 2, "d_ff": 7, "n_layers": 1}
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = Transformer(Config(9, 8, norm="pre", tied=False, **sizes))
    return pack_model(model, *map(Vocabulary, words))

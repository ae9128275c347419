"""What a model would predict if it ended after one of its first layers."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.layers import in_mode
from lib.transformer import OneStack


@torch.no_grad()
def logit_lens(
    model: OneStack, tokens: Int[Tensor, "batch time"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "depth batch time vocab"]:
    """Read the residual stream by the last norm and the projection, before and after each layer.

    Entry 0 is that of the embeddings, entry i that after layer i, and the last one is what the
    model itself predicts. Dropout is off, and the model is left as it was.

    Args: mask, as for the model. Only pre-norm layers have a stream that the last norm can read.
    Shapes: tokens (batch, time). Returns (n_layers + 1, batch, time, vocab).
    Errors: ValueError for a model whose norms are not before its sub-layers.
    Source: nostalgebraist 2020, "interpreting GPT: the logit lens".
    """
    if model.config.norm != "pre":
        raise ValueError(
            f"expected a model with norm='pre', got {model.config.norm!r}; without the last norm "
            "the residual stream cannot be read between two layers"
        )
    stream: list[Tensor] = []  # (batch, time, d_model), n_layers + 1 of them

    def before(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        stream.append(inputs[0])

    def after(layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        stream.append(output)

    layers = model.encoder.layers
    hooks = [layers[0].register_forward_pre_hook(before)]
    hooks += [layer.register_forward_hook(after) for layer in layers]
    try:
        with in_mode(model, training=False):
            model(tokens, mask)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack([model.projection(model.encoder.norm(x)) for x in stream])

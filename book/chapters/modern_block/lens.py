"""What a model would predict if it ended after one of its first blocks."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from chapters.modern_block.decoder import ModernDecoder
from lib.layers import in_mode


@torch.no_grad()
def logit_lens(
    model: ModernDecoder, tokens: Int[Tensor, "batch time"]
) -> Float[Tensor, "depth batch time vocab"]:
    """Read the residual stream by the last norm and the projection, before and after each block.

    Entry 0 is that of the embeddings, entry i that after block i, and the last one is what the
    model itself predicts. Dropout is off, and the model is left as it was.

    Shapes: tokens (batch, time). Returns (n_layers + 1, batch, time, vocab).
    Source: nostalgebraist 2020, "interpreting GPT: the logit lens".
    """
    stream: list[Tensor] = []  # (batch, time, d_model), n_layers + 1 of them

    def before(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        stream.append(inputs[0])

    def after(layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        stream.append(output)

    hooks = [model.decoder.layers[0].register_forward_pre_hook(before)]
    hooks += [layer.register_forward_hook(after) for layer in model.decoder.layers]
    try:
        with in_mode(model, training=False):
            model(tokens)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack([model.projection(model.decoder.norm(x)) for x in stream])

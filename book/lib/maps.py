"""Look inside: every attention map of a model, without a second way through its code."""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lib.attention import MultiHeadAttention


@torch.no_grad()
def attention_maps(
    model: nn.Module, *inputs: Tensor
) -> dict[str, Float[Tensor, "batch heads query key"]]:
    """Run the model and return every attention map, under the name of the layer that made it.

    E.g. "decoder.layers.0.cross_attention". Hooks ask each attention layer for its weights; the
    model is called as always and is left as it was.

    Source: ours. Chapter: 10 (The Transformer).
    """
    maps, hooks = {}, []

    def ask(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        return args, {**kwargs, "return_weights": True}

    def keep(name: str, module: nn.Module, args: tuple, result: tuple) -> Tensor:
        output, maps[name] = result
        return output

    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            hooks.append(module.register_forward_pre_hook(ask, with_kwargs=True))
            hooks.append(
                module.register_forward_hook(partial(keep, name.removesuffix(".sublayer")))
            )
    try:
        model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return maps

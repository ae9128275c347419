"""Switch off heads of a trained Transformer, by zero or mean ablation, and measure the effect."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.data import PAD, Batch
from lib.training import token_loss
from lib.transformer import Transformer

KINDS = {  # the letter of a layer's code: its stack, and the name of its sub-layer
    "e": ("encoder", "self_attention"),
    "d": ("decoder", "self_attention"),
    "c": ("decoder", "cross_attention"),
}
Means = Mapping[str, Float[Tensor, "heads d_v"]]


class Accuracy(NamedTuple):
    """Fractions of sentences and of target tokens predicted right, and the loss in nats a token."""

    exact: float
    tokens: float
    loss: float


def layer_codes(n_layers: int) -> dict[str, str]:
    """The code of each attention layer, such as "c2", and its name in the model, in that order."""
    return {
        f"{letter}{n + 1}": f"{stack}.layers.{n}.{name}"
        for letter, (stack, name) in KINDS.items()
        for n in range(n_layers)
    }


def head_codes(n_layers: int, n_heads: int) -> list[str]:
    """The code of each head of a translator, such as "c2.4" for the fourth head of layer c2."""
    return [f"{layer}.{h + 1}" for layer in layer_codes(n_layers) for h in range(n_heads)]


def _attention(model: Transformer, code: str) -> MultiHeadAttention:
    """The attention layer with this code. Errors: ValueError for a code that the model lacks."""
    names = layer_codes(model.config.n_layers)
    if code not in names:
        raise ValueError(f"expected a layer out of {', '.join(names)}, got {code!r}")
    return model.get_submodule(f"{names[code]}.sublayer")  # type: ignore[return-value]


def head_number(model: Transformer, head: str) -> tuple[MultiHeadAttention, int]:
    """The layer of a head such as "c2.4", and its number there, from 0.

    Errors: ValueError for a head that the model does not have.
    """
    code, _, number = head.partition(".")
    layer, n_heads = _attention(model, code), model.config.n_heads
    if number not in {str(h + 1) for h in range(n_heads)}:
        raise ValueError(f"expected a head such as {code}.1, at most .{n_heads}, got {head!r}")
    return layer, int(number) - 1


@torch.no_grad()
def head_outputs(model: Transformer, batch: Batch) -> dict[str, Float[Tensor, "n heads d_v"]]:
    """What each head gives at each real position of a batch, before W^O, by the layer's code."""
    found, hooks = {}, []

    def keep(code: str, layer: nn.Module, args: tuple[Tensor]) -> None:
        tokens = batch.source if code.startswith("e") else batch.target_in
        found[code] = args[0][tokens != PAD].unflatten(-1, (model.config.n_heads, -1))

    codes = layer_codes(model.config.n_layers)
    for code in codes:
        hook = _attention(model, code).w_o.register_forward_pre_hook(partial(keep, code))
        hooks.append(hook)
    try:
        model(batch.source, batch.source_lengths, batch.target_in)
    finally:
        for hook in hooks:
            hook.remove()
    return {code: found[code] for code in codes}


def head_means(model: Transformer, batch: Batch) -> dict[str, Float[Tensor, "heads d_v"]]:
    """The mean of each head's output over all real positions of a batch, by the layer's code."""
    return {code: outputs.mean(0) for code, outputs in head_outputs(model, batch).items()}


def mean_shares(model: Transformer, means: Means, batch: Batch) -> dict[str, float]:
    """For each head |mean|^2 / E |output|^2: near 1 for a head that only adds a constant."""
    outputs = head_outputs(model, batch)
    shares = {
        code: mean.square().sum(-1) / outputs[code].square().sum(-1).mean(0)
        for code, mean in means.items()
    }
    return {
        f"{code}.{h + 1}": round(share, 4)
        for code, row in shares.items()
        for h, share in enumerate(row.tolist())
    }


@contextmanager
def ablated(
    model: Transformer, heads: Collection[str], means: Means | None = None
) -> Iterator[Transformer]:
    """The model without some heads, while the block runs: a hook replaces their outputs before W^O.

    Args: heads, codes such as "c2.4"; means, what the outputs become (mean ablation, see
        `head_means`); without them they become 0 (zero ablation).
    Errors: ValueError for a head that the model does not have.
    Source: Michel, Levy and Neubig 2019, section 2.3 (zero ablation).
    """
    hooks = []

    def replace(code: str, off: list[int], layer: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        outputs = args[0].unflatten(-1, (model.config.n_heads, -1)).clone()
        outputs[..., off, :] = 0.0 if means is None else means[code][off]
        return (outputs.flatten(-2),)

    layers: dict[str, list[int]] = {}
    for head in heads:
        _, number = head_number(model, head)
        layers.setdefault(head.partition(".")[0], []).append(number)
    try:
        for code, off in layers.items():
            w_o = _attention(model, code).w_o
            hooks.append(w_o.register_forward_pre_hook(partial(replace, code, off)))
        yield model
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def accuracy(model: Transformer, batch: Batch) -> Accuracy:
    """Predict every target token from the right prefix, and compare.

    A sentence is exact if all its tokens are right, <eos> included. Greedy decoding translates the
    same sentences exactly: up to its first error it reads the right prefix too.
    """
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    real = batch.target_out != PAD
    right = (logits.argmax(-1) == batch.target_out) & real
    exact = (right | ~real).all(dim=1).float().mean().item()
    loss = token_loss(logits, batch.target_out).item()
    return Accuracy(exact, right.sum().item() / real.sum().item(), loss)

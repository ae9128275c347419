"""A Transformer that does without some of its parts, as the page's engine leaves them out.

`book/engine/layers.js` knows a part by the same name. Two of them are no more than settings of a
`Config`, which stand in the design: positions "none", and one head.
"""

from collections.abc import Callable, Collection
from typing import Any

from torch import Tensor, nn

from lib.attention import MultiHeadAttention
from lib.layers import FeedForward, Residual
from lib.positions import Positions
from lib.transformer import Transformer

SETTINGS = ("positions", "heads")


class NormAlone(nn.Module):
    """What stays of a `Residual` whose sub-layer is left out: x, and its norm behind it."""

    def __init__(self, around: Residual):
        super().__init__()
        self.norm, self.pre_norm = around.norm, around.pre_norm

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return x if self.pre_norm else self.norm(x)


class SublayerAlone(nn.Module):
    """A `Residual` without the path beside its sub-layer: LayerNorm(Sublayer(x)), or pre-norm."""

    def __init__(self, around: Residual):
        super().__init__()
        self.sublayer, self.norm, self.pre_norm = around.sublayer, around.norm, around.pre_norm

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.pre_norm:
            return self.sublayer(self.norm(x), *args, **kwargs)
        return self.norm(self.sublayer(x, *args, **kwargs))


class WithoutRoot(Positions):
    """Makes queries and keys larger, so that of the division by the root of d_k nothing stays."""

    def rotate(self, x: Tensor, offset: int = 0) -> Tensor:
        return x * x.shape[-1] ** 0.25  # both of them, so the scores grow by the root of d_k

    def bias(self, n_queries: int, n_keys: int) -> None:
        return None


def leave_out(model: Transformer, parts: Collection[str]) -> Transformer:
    """Take these parts out of a model, which is changed and returned.

    Errors: ValueError for a part that there is not, and for the root beside a scheme of positions
        that works inside attention.
    """
    if unknown := set(parts) - set(LEFT_OUT) - set(SETTINGS):
        known = ", ".join([*LEFT_OUT, *SETTINGS])
        raise ValueError(f"expected parts out of {known}, got {sorted(unknown)}")
    for part, leave in LEFT_OUT.items():
        if part in parts:
            leave(model)
    return model


def _layers(model: Transformer, stack: str) -> list[nn.Module]:
    return list(model.get_submodule(f"{stack}.layers").children())


def _residuals(model: Transformer) -> list[tuple[nn.Module, str, Residual]]:
    """Each with the layer in which it stands, and its name there."""
    return [
        (layer, name, child)
        for layer in (*_layers(model, "encoder"), *_layers(model, "decoder"))
        for name, child in layer.named_children()
        if isinstance(child, Residual)
    ]


def _sublayer(stack: str, wanted: str) -> Callable[[Transformer], None]:
    def leave(model: Transformer) -> None:
        layers = _layers(model, stack)
        for layer, name, around in _residuals(model):
            if name == wanted and layer in layers:
                setattr(layer, name, NormAlone(around))

    return leave


def _feed_forward(model: Transformer) -> None:
    for stack in ("encoder", "decoder"):
        _sublayer(stack, "feed_forward")(model)


def _residual(model: Transformer) -> None:
    for layer, name, around in _residuals(model):
        setattr(layer, name, SublayerAlone(around))


def _causal_mask(model: Transformer) -> None:
    def unmasked(layer: nn.Module, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict]:
        return args, {**kwargs, "mask": None}

    for layer in _layers(model, "decoder"):
        layer.register_forward_pre_hook(unmasked, with_kwargs=True)


def _root(model: Transformer) -> None:
    for layer in model.modules():
        if not isinstance(layer, MultiHeadAttention):
            continue
        if layer.positions is not None:
            raise ValueError(
                "expected positions that are added to the embeddings beside attention without the "
                "root of d_k, got a scheme that works inside attention"
            )
        layer.positions = WithoutRoot()


def _norms(model: Transformer) -> None:
    for _, _, around in _residuals(model):
        around.norm = nn.Identity()
    model.encoder.norm = model.decoder.norm = nn.Identity()


def _relu(model: Transformer) -> None:
    for network in model.modules():
        if isinstance(network, FeedForward):
            network.activation = nn.Identity()


# In this order: what changes the inside of a `Residual` before what replaces it.
LEFT_OUT: dict[str, Callable[[Transformer], None]] = {
    "root": _root,
    "relu": _relu,
    "norms": _norms,
    "cross_attention": _sublayer("decoder", "cross_attention"),
    "encoder_self_attention": _sublayer("encoder", "self_attention"),
    "decoder_self_attention": _sublayer("decoder", "self_attention"),
    "feed_forward": _feed_forward,
    "residual": _residual,
    "causal_mask": _causal_mask,
}

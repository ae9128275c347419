"""What stands around attention in a Transformer: embedding, feed-forward network, norm, residual.

Each is small, and each works on every position by itself: only attention lets positions exchange
information. Attention is in `lib.attention`, positions in `lib.positions`; `lib.transformer`
assembles them all.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from lib.masks import _require_boolean

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # close to GELU; GPT-2 was trained with it
    "swiglu": F.silu,
}
PLACEMENTS = ("pre", "post")


def layer_norm(
    x: Float[Tensor, "*batch d_model"],
    gain: Float[Tensor, " d_model"],
    bias: Float[Tensor, " d_model"],
    eps: float = 1e-5,
) -> Float[Tensor, "*batch d_model"]:
    """(x - mean) / sqrt(variance + eps) * gain + bias, each position by itself.

    The variance is the biased one, a plain mean of squares: divided by d_model, not d_model - 1.
    eps keeps the quotient finite where all entries are equal.

    Shapes: x (*batch, d_model); gain and bias (d_model). Returns the shape of x.
    Source: Ba et al. 2016, equations 3 and 4.
    """
    mean = x.mean(dim=-1, keepdim=True)  # (*batch, 1)
    variance = x.var(dim=-1, correction=0, keepdim=True)  # (*batch, 1)
    return (x - mean) / torch.sqrt(variance + eps) * gain + bias


class LayerNorm(nn.Module):
    """`layer_norm` with a learned scale, `gain`, and a learned bias, starting at 1 and 0.

    torch's fused kernel computes it: one pass over x instead of seven, the same numbers.

    Shapes: x (*batch, d_model). Returns the same shape.
    Source: Ba et al. 2016; Attention Is All You Need, section 3.1.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps)


class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * gain, each position by itself: `LayerNorm` without mean and bias.

    `gain` is a learned scale, 1 at first. float16 and bfloat16 are squared and summed in float32,
    so that large entries do not overflow.

    On a CPU torch composes it of pow, mean, rsqrt and mul, where `LayerNorm` has a fused kernel in
    each direction. Forward alone it took 0.7 to 5 times as long as `LayerNorm`, by the size and the
    processor, forward and backward together two to six times (one thread, d_model 64 to 4096).

    Shapes: x (*batch, d_model). Returns the same shape.
    Source: Zhang and Sennrich 2019, equation 4.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        # The kernel takes one type only; under autocast x may be of another one than the gain.
        return F.rms_norm(x, self.gain.shape, self.gain.to(x.dtype), self.eps)


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2, the same at each position.

    activation "gelu" replaces max(0, .) by GELU; "swiglu" gates the inner layer by a third matrix:
    (silu(x W_1 + b_1) * (x W_3 + b_3)) W_2 + b_2, so the same d_ff costs half as much again.
    bias=False leaves all of b_1, b_2 and b_3 out.

    Shapes: x (*batch, d_model), inside (*batch, d_ff). Returns (*batch, d_model).
    Errors: ValueError for an unknown activation, and for a size below 1.
    Source: Attention Is All You Need, section 3.3, equation 2; Hendrycks and Gimpel 2016 (GELU);
    Shazeer 2020 (SwiGLU).
    """

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu", *, bias: bool = True):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"expected an activation out of {', '.join(ACTIVATIONS)}, got {activation!r}"
            )
        _require_sizes(d_model=d_model, d_ff=d_ff)
        self.activation = ACTIVATIONS[activation]
        self.w_1 = nn.Linear(d_model, d_ff, bias=bias)
        self.w_2 = nn.Linear(d_ff, d_model, bias=bias)
        self.w_3 = nn.Linear(d_model, d_ff, bias=bias) if activation == "swiglu" else None
        for layer in filter(None, (self.w_1, self.w_2, self.w_3)):
            nn.init.xavier_uniform_(layer.weight)
            if bias:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        inner = self.activation(self.w_1(x))  # (*batch, d_ff)
        if self.w_3 is not None:
            inner = inner * self.w_3(x)
        return self.w_2(inner)  # (*batch, d_model)


class Residual(nn.Module):
    """Run a sub-layer beside a path on which x passes unchanged, and add the two.

    norm "post", as in the paper:  LayerNorm(x + Dropout(Sublayer(x)))
    norm "pre":                    x + Dropout(Sublayer(LayerNorm(x)))

    Args: norm_layer makes the norm from d_model: LayerNorm, RMSNorm or a partial of one of them.
    Shapes: x (*batch, d_model); further arguments go to the sub-layer, which must return the shape
        of x. Returns that shape.
    Errors: ValueError for another word than "pre" or "post", a dropout that is not from 0 to 1, or
        a sub-layer that changes the shape.
    Source: Attention Is All You Need, sections 3.1 and 5.4; Xiong et al. 2020 (pre-norm).
    """

    def __init__(
        self,
        sublayer: nn.Module,
        d_model: int,
        *,
        norm: str = "post",
        dropout: float = 0.0,
        norm_layer: Callable[[int], nn.Module] = LayerNorm,
    ):
        super().__init__()
        if norm not in PLACEMENTS:
            raise ValueError(f'expected norm "pre" or "post", got {norm!r}')
        self.sublayer = sublayer
        self.norm = norm_layer(d_model)
        self.dropout = nn.Dropout(dropout)
        self.pre_norm = norm == "pre"

    def forward(
        self, x: Float[Tensor, "*batch d_model"], *args: Any, **kwargs: Any
    ) -> Float[Tensor, "*batch d_model"]:
        inside = self.norm(x) if self.pre_norm else x
        change = self.dropout(self.sublayer(inside, *args, **kwargs))
        if change.shape != x.shape:  # a sum of (time, 1) and (time, d_model) would broadcast
            raise ValueError(
                f"expected a sub-layer that keeps the shape {tuple(x.shape)}, "
                f"got {tuple(change.shape)}; only equal shapes can be added"
            )
        return x + change if self.pre_norm else self.norm(x + change)


@contextmanager
def in_mode(model: Any, *, training: bool) -> Iterator[None]:
    """Meanwhile, put a module into training or evaluation mode; then back into its own."""
    was_training = model.training
    model.train(training)
    try:
        yield
    finally:
        model.train(was_training)


@contextmanager
def at_real(layers: Iterable[nn.Module], real: Bool[Tensor, "batch time"]) -> Iterator[None]:
    """Meanwhile, run these layers at the positions where `real` is True, and give 0 at padding.

    For layers that work on each position by itself: the real positions become the rows of one
    matrix, and padding costs nothing. Hooks pack each input and unpack each output, so the layers
    and whatever calls them stay as they are.

    Shapes: real (batch, time); the layers' inputs are (batch, time, d_model).
    Errors: ValueError for a mask that is not boolean; torch's IndexError, when a layer runs, for
        one of another shape.
    """
    _require_boolean(real)

    def pack(layer: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
        return inputs[0][real]  # (tokens, d_model)

    def unpack(layer: nn.Module, inputs: tuple[Tensor, ...], rows: Tensor) -> Tensor:
        outputs = rows.new_zeros(*real.shape, rows.shape[-1])
        outputs[real] = rows
        return outputs

    hooks = []
    try:
        for layer in layers:
            hooks.append(layer.register_forward_pre_hook(pack))
            hooks.append(layer.register_forward_hook(unpack))
        yield
    finally:
        for hook in hooks:
            hook.remove()


class Embedding(nn.Module):
    """Look up a row of the matrix for each token, and multiply it by sqrt(d_model).

    The entries start as N(0, std^2 / d_model), so that embedded tokens have the standard deviation
    std. Where the same matrix is the output projection too, so have the first logits: with std 1
    the first loss is far above ln(vocab), with std 1/2 it is close to it.

    Shapes: tokens (*batch), integers. Returns (*batch, d_model).
    Errors: ValueError for a size below 1, and for a token number outside the vocabulary.
    Source: Attention Is All You Need, section 3.4.
    """

    def __init__(self, vocab: int, d_model: int, *, std: float = 1.0):
        super().__init__()
        _require_sizes(vocab=vocab, d_model=d_model)
        self.weight = nn.Parameter(torch.empty(vocab, d_model))
        self.scale = math.sqrt(d_model)
        nn.init.normal_(self.weight, std=std / self.scale)

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch d_model"]:
        return _rows_of(self.weight, tokens) * self.scale


class TiedProjection(nn.Module):
    """x E^T: score each token by its own embedding, with the embedding's matrix and no other.

    It keeps no copy: the parameter is the same object, so both uses add to one gradient.

    Shapes: x (*batch, d_model). Returns logits (*batch, vocab).
    Source: Attention Is All You Need, section 3.4; Press and Wolf 2017.
    """

    def __init__(self, embedding: Embedding):
        super().__init__()
        self.weight = embedding.weight

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch vocab"]:
        return F.linear(x, self.weight)


def _rows_of(weight: Tensor, tokens: Tensor) -> Tensor:
    try:
        return F.embedding(tokens, weight)
    except IndexError as error:
        raise ValueError(
            f"expected token numbers from 0 to {len(weight) - 1}, got {tokens.min()} to "
            f"{tokens.max()}; encode with the vocabulary that the model was made for"
        ) from error


def _require_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"expected {name} of 1 or more, got {size}")

"""8-bit parameters: a step of decoding reads a quarter of the bytes.

For one sentence each parameter is read once in a step and used once, so a step takes the time in
which the parameters come from memory. `EightBitTransformer` stores each matrix in whole numbers
from -127 to 127, with a scale for each row, and leaves the rest of the model as it is.
"""

import platform
from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor, nn
from torch.nn import functional as F

from lib.attention import KeyValueCache, MultiHeadAttention
from lib.layers import FeedForward, Residual, TiedProjection
from lib.transformer import Decoder, Transformer, TransformerState

LARGEST = 127  # of the whole numbers
TOGETHER = 32  # entries of x that the kernel reads at a time; it looks for no end between them
FEW = 32  # rows up to which torch's kernel is faster than unpacking the matrix


class EightBitLinear(nn.Module):
    """x W^T + b with W in 8 bits: W_ij = s_i times a whole number, where s_i = max_j |W_ij| / 127.

    Inputs and the product are rounded to bfloat16, which torch's kernel for such matrices asks for;
    the bias is added in the type of x. Each row of x is rounded by itself, so a sentence gets the
    same translation whichever sentences stand beside it. (Kernels that turn x into 8 bits too take
    one scale for all rows.) For more than a few rows the matrix is unpacked: then a step takes the
    time of the arithmetic, not that of the bytes.

    Its numbers are plain attributes, which stay on the processor: to look them up among a module's
    parameters would take a tenth of a step.

    Args: weight (out, in) and bias (out) or None, of the layer that it stands for.
    Shapes: x (*batch, in). Returns (*batch, out).
    Errors: ValueError for a weight with NaN or infinity.
    Source: ours; whole numbers with a scale for each row as in Jacob et al. 2018, symmetric.
    """

    def __init__(self, weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None = None):
        super().__init__()
        if not weight.isfinite().all():
            raise ValueError("expected a finite weight, got NaN or infinity; train the model again")
        whole, scale = in_eight_bits(weight, torch.bfloat16)
        self.in_features = weight.shape[1]
        self.missing = -self.in_features % TOGETHER  # columns of 0 that fill the last ones up
        self.whole = F.pad(whole, (0, self.missing))
        self.scale = scale
        self.bias = None if bias is None else bias.detach().clone()

    def forward(self, x: Float[Tensor, "*batch in"]) -> Float[Tensor, "*batch out"]:
        rows = x.reshape(-1, self.in_features)
        if len(rows) <= FEW:
            return self.few(rows).view(*x.shape[:-1], -1)
        sums = F.linear(rows.bfloat16().float(), self.whole[:, : self.in_features].float())
        product = (sums * self.scale).bfloat16().view(*x.shape[:-1], -1)
        return product.to(x.dtype) if self.bias is None else product + self.bias

    def few(self, rows: Float[Tensor, "few in"]) -> Float[Tensor, "few out"]:
        """The same for a few rows, by torch's kernel."""
        x = rows.bfloat16()
        if self.missing:
            x = F.pad(x, (0, self.missing))
        product = torch._weight_int8pack_mm(x, self.whole, self.scale)
        return product.to(rows.dtype) if self.bias is None else product + self.bias


def in_eight_bits(
    matrix: Float[Tensor, "rows columns"], scale_type: torch.dtype = torch.float32
) -> tuple[Int8[Tensor, "rows columns"], Float[Tensor, " rows"]]:
    """Whole numbers from -127 to 127, and for each row the scale that they are multiples of.

    A row of zeros has the scale 0. With a scale in float32 no number is wrong by more than half of
    it; one in bfloat16 is itself rounded, by up to 1/256.
    """
    matrix = matrix.detach().float()
    scales = (matrix.abs().amax(dim=1) / LARGEST).to(scale_type)
    numbers = matrix / scales.float().where(scales > 0, 1.0)[:, None]
    return numbers.round().clamp(-LARGEST, LARGEST).to(torch.int8), scales


def expect_8_bits(device: torch.device) -> None:
    """Check that 8 bits help here: torch's kernel for the processor, which needs AVX2 on x86.

    Errors: ValueError for another device, a torch without the kernel, and an x86 processor with
    neither AVX2 nor AVX-512, on which the kernel took twice as long as float32.
    """
    if device.type != "cpu":
        raise ValueError(
            f"expected --device cpu with 8 bits, got {device}; their kernel is the processor's"
        )
    if not hasattr(torch, "_weight_int8pack_mm"):
        raise ValueError(
            f"expected a torch with a kernel for matrices in 8 bits, got {torch.__version__}; "
            "leave out --bits 8"
        )
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    if x86 and torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        raise ValueError(
            "expected a processor with AVX2 or AVX-512, got one with neither, on which 8 bits take "
            "longer than 32; leave out --bits 8"
        )


class EightBitTransformer(Transformer):
    """A copy of a Transformer with its matrices in 8 bits, for decoding on a processor.

    With a quarter of the bytes, half of a step is what Python does between torch's kernels. So
    `step` computes the same layers in fewer calls: queries, keys and values have one matrix, and
    the modules around each matrix, which training needs, are left out.

    Embeddings keep their numbers, since a step reads one row of them; a tied projection, which
    reads them all, gets 8 bits of its own.
    Errors: ValueError for a weight with NaN or infinity.
    """

    def __init__(self, model: Transformer):
        nn.Module.__init__(self)
        self.config = model.config
        for name, part in deepcopy(model).named_children():
            self.add_module(name, part)
        for name, layer in list(self.named_modules()):
            if isinstance(layer, nn.Linear | TiedProjection):
                path, _, last = name.rpartition(".")
                bias = layer.bias if isinstance(layer, nn.Linear) else None
                setattr(self.get_submodule(path), last, EightBitLinear(layer.weight, bias))
        self.quick = _quick_layers(self.decoder)
        self.eval()

    @torch.no_grad()
    def step(
        self, token: Int[Tensor, " batch"], state: TransformerState
    ) -> tuple[Float[Tensor, "batch vocab"], None, TransformerState]:
        """As `Transformer.step`; from the second token on, in fewer calls for a few rows."""
        caches = state.caches
        started = caches[0].memory.length  # from the first step on the memory is projected
        if not (self.quick and started and len(token) <= FEW):
            return super().step(token, state)
        x = self.target_embedding(token.view(-1, 1))
        x = self.decoder.positions.add(x, caches[0].own.length)[:, 0]  # (batch, d_model)
        mask = None if state.memory_mask.all() else state.memory_mask
        for (own, cross, feed_forward), cache in zip(self.quick, caches, strict=True):
            x = feed_forward(cross(own(x, cache.own), mask, cache.memory))
        projection = cast(EightBitLinear, self.projection)
        return projection.few(self.decoder.norm(x)), None, state


class _QuickResidual:
    """`Residual` in evaluation mode, around what computes its sub-layer."""

    def __init__(self, residual: Residual, sublayer: Callable[..., Tensor]):
        self.sublayer, self.pre_norm = sublayer, residual.pre_norm
        self.norm = residual.norm.forward  # not by way of the module's hooks

    def __call__(self, x: Float[Tensor, "batch d_model"], *args: Any) -> Tensor:
        if self.pre_norm:
            return x + self.sublayer(self.norm(x), *args)
        return self.norm(x + self.sublayer(x, *args))


class _QuickSelfAttention:
    """Self-attention of one position of each sequence, with one matrix for W^Q, W^K and W^V."""

    def __init__(self, layer: Any):
        self.joined, self.w_o = _joined(layer.w_q, layer.w_k, layer.w_v), layer.w_o
        self.attend, self.n_heads = layer.attend, layer.n_heads

    def __call__(self, x: Float[Tensor, "batch d_model"], cache: KeyValueCache) -> Tensor:
        projected = self.joined.few(x).view(x.shape[0], 3, self.n_heads, 1, -1)
        attended = self.attend(*projected.unbind(1), cache=cache)  # (batch, heads, 1, d_v)
        return self.w_o.few(attended.flatten(1))


class _QuickCrossAttention:
    """Cross-attention of one position of each sequence, to keys and values in the cache."""

    def __init__(self, layer: Any):
        self.w_q, self.w_o = layer.w_q, layer.w_o
        self.attend, self.n_heads = layer.attend, layer.n_heads

    def __call__(
        self, x: Float[Tensor, "batch d_model"], mask: Tensor | None, cache: KeyValueCache
    ) -> Tensor:
        query = self.w_q.few(x).view(x.shape[0], self.n_heads, 1, -1)
        return self.w_o.few(self.attend(query, mask=mask, cache=cache).flatten(1))


class _QuickFeedForward:
    """The feed-forward network of a few rows."""

    def __init__(self, layer: Any):
        self.w_1, self.w_2, self.w_3 = layer.w_1, layer.w_2, layer.w_3
        self.activation = layer.activation

    def __call__(self, x: Float[Tensor, "batch d_model"]) -> Tensor:
        inner = self.activation(self.w_1.few(x))
        return self.w_2.few(inner if self.w_3 is None else inner * self.w_3.few(x))


def _quick_layers(decoder: Decoder) -> list[tuple[_QuickResidual, ...]]:
    """The layers as a step computes them; none where a configuration has made other ones."""
    found = []
    for layer in decoder.layers:
        residuals: Any = (layer.self_attention, layer.cross_attention, layer.feed_forward)
        own, cross, feed_forward = sublayers = [residual.sublayer for residual in residuals]
        if [type(each) for each in sublayers] != [MultiHeadAttention] * 2 + [FeedForward]:
            return []
        if not own.w_q.whole.shape == own.w_k.whole.shape == own.w_v.whole.shape:
            return []
        changes: list[Callable[..., Tensor]] = [
            _QuickSelfAttention(own),
            _QuickCrossAttention(cross),
            _QuickFeedForward(feed_forward),
        ]
        found.append(tuple(map(_QuickResidual, residuals, changes)))
    return found


def _joined(*layers: EightBitLinear) -> EightBitLinear:
    """One layer for what these compute from the same x; their numbers are a part of its own."""
    joined = deepcopy(layers[0])
    joined.whole = torch.cat([layer.whole for layer in layers])
    joined.scale = torch.cat([layer.scale for layer in layers])
    biases = [layer.bias for layer in layers if layer.bias is not None]
    joined.bias = torch.cat(biases) if biases else None
    for layer, whole in zip(layers, joined.whole.chunk(len(layers)), strict=True):
        layer.whole = whole
    return joined

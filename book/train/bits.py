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

    Args: weight (out, in) and bias (out) or None, of the layer that it stands for.
    Shapes: x (*batch, in). Returns (*batch, out).
    Errors: ValueError for a weight with NaN or infinity.
    Source: ours; whole numbers with a scale for each row as in Jacob et al. 2018, symmetric.
    """

    whole: Tensor
    scale: Tensor

    def __init__(self, weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None = None):
        super().__init__()
        if not weight.isfinite().all():
            raise ValueError("expected a finite weight, got NaN or infinity; train the model again")
        whole, scale = in_eight_bits(weight, torch.bfloat16)
        self.in_features = weight.shape[1]
        self.missing = -self.in_features % TOGETHER  # columns of 0 that fill the last ones up
        self.register_buffer("whole", F.pad(whole, (0, self.missing)))
        self.register_buffer("scale", scale)
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())

    def forward(self, x: Float[Tensor, "*batch in"]) -> Float[Tensor, "*batch out"]:
        rows = x.reshape(-1, self.in_features)
        if len(rows) <= FEW and x.is_cpu:
            product = self.few(rows)
        else:
            whole = self.whole[:, : self.in_features].float()
            sums = F.linear(rows.bfloat16().float(), whole)
            product = self._with_bias((sums * self.scale).bfloat16(), x.dtype)
        return product.view(*x.shape[:-1], -1)

    def few(self, rows: Float[Tensor, "few in"]) -> Float[Tensor, "few out"]:
        """The same, for a few rows on a processor."""
        x = rows.bfloat16()
        if self.missing:
            x = F.pad(x, (0, self.missing))
        product = torch._weight_int8pack_mm(x, self.whole, self.scale)
        return self._with_bias(product, rows.dtype)

    def _with_bias(self, product: Tensor, dtype: torch.dtype) -> Tensor:
        return product.to(dtype) if self.bias is None else product + self.bias


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

    With a quarter of the bytes, half of a step is what Python does between the calls. So `step`
    computes the same layers in fewer calls: queries, keys and values are one matrix, and the
    modules around each matrix, which training needs, are left out.

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
        self.joined = nn.ModuleList()
        if _has_known_layers(self.decoder):
            own = [layer.self_attention.sublayer for layer in _layers(self.decoder)]
            self.joined.extend(_joined(layer.w_q, layer.w_k, layer.w_v) for layer in own)
        self.eval()

    @torch.no_grad()
    def step(
        self, token: Int[Tensor, " batch"], state: TransformerState
    ) -> tuple[Float[Tensor, "batch vocab"], None, TransformerState]:
        caches = state.caches
        started = caches[0].memory.length  # from the first step on the memory is projected
        if not (self.joined and started and len(token) <= FEW):
            return super().step(token, state)
        x = self.target_embedding(token.view(-1, 1))
        x = self.decoder.positions.add(x, caches[0].own.length)[:, 0]  # (batch, d_model)
        mask = None if state.memory_mask.all() else state.memory_mask
        for layer, joined, cache in zip(_layers(self.decoder), self.joined, caches, strict=True):
            x = _beside(layer.self_attention, x, _self_attended, joined, cache.own)
            x = _beside(layer.cross_attention, x, _cross_attended, mask, cache.memory)
            x = _beside(layer.feed_forward, x, _fed_forward)
        projection = cast(EightBitLinear, self.projection)
        return projection.few(self.decoder.norm(x)), None, state


def _layers(decoder: Decoder) -> Any:
    """Its layers, of which a type checker knows no more than that they are modules."""
    return decoder.layers


def _has_known_layers(decoder: Decoder) -> bool:
    """Whether `step` can compute its layers: a configuration may make others."""
    for layer in _layers(decoder):
        own, cross, forward = (
            residual.sublayer
            for residual in (layer.self_attention, layer.cross_attention, layer.feed_forward)
        )
        known = (MultiHeadAttention, MultiHeadAttention, FeedForward)
        if (type(own), type(cross), type(forward)) != known:
            return False
        if not own.w_q.whole.shape == own.w_k.whole.shape == own.w_v.whole.shape:
            return False
    return True


def _joined(*layers: EightBitLinear) -> EightBitLinear:
    """One layer for what these compute from the same x; their numbers are a part of its own."""
    joined = deepcopy(layers[0])
    joined.whole = torch.cat([layer.whole for layer in layers])
    joined.scale = torch.cat([layer.scale for layer in layers])
    biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
    joined.bias = nn.Parameter(torch.cat(biases)) if biases else None
    for layer, whole in zip(layers, joined.whole.chunk(len(layers)), strict=True):
        layer.whole = whole
    return joined


def _beside(
    residual: Residual, x: Float[Tensor, "batch d_model"], change: Callable[..., Tensor], *args: Any
) -> Float[Tensor, "batch d_model"]:
    """`Residual` in evaluation mode, with change(sub-layer, x, *args) in the sub-layer's place."""
    if residual.pre_norm:
        return x + change(residual.sublayer, residual.norm(x), *args)
    return residual.norm(x + change(residual.sublayer, x, *args))


def _self_attended(layer: Any, x: Tensor, joined: EightBitLinear, cache: KeyValueCache) -> Tensor:
    query, key, value = joined.few(x).view(len(x), 3, layer.n_heads, 1, -1).unbind(1)
    return layer.w_o.few(layer.attend(query, key, value, cache=cache).flatten(1))


def _cross_attended(layer: Any, x: Tensor, mask: Tensor | None, cache: KeyValueCache) -> Tensor:
    query = layer.w_q.few(x).view(len(x), layer.n_heads, 1, -1)
    return layer.w_o.few(layer.attend(query, mask=mask, cache=cache).flatten(1))


def _fed_forward(layer: Any, x: Tensor) -> Tensor:
    inner = layer.activation(layer.w_1.few(x))
    return layer.w_2.few(inner if layer.w_3 is None else inner * layer.w_3.few(x))

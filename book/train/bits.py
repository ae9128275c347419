"""8-bit parameters: a step of decoding reads a quarter of the bytes.

For one sentence each parameter is read once in a step and used once, so a step takes the time in
which the parameters come from memory. `EightBitTransformer` stores each matrix in whole numbers
from -127 to 127, with a scale for each row, and leaves the rest of the model as it is.
"""

import platform
import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import cached_property
from typing import Any, cast

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor, nn
from torch.nn import functional as F

from lib.attention import KeyValueCache, MultiHeadAttention
from lib.layers import FeedForward, Residual, TiedProjection
from lib.transformer import Decoder, Transformer, TransformerState

LARGEST = 127  # of the whole numbers
AT_ONCE = 32  # entries of x that the kernel reads at a time; it looks for no end between them
FEW = 32  # rows up to which torch's kernel is faster than unpacking the matrix
LARGE = 2**14  # numbers of a matrix, from which on FBGEMM's kernel is the faster one


class EightBitLinear(nn.Module):
    """x W^T + b with W in 8 bits: W_ij = s_i times a whole number, where s_i = max_j |W_ij| / 127.

    Inputs and the product are rounded to bfloat16, which torch's kernel for such matrices asks for;
    the bias is added in the type of x. Each row of x is rounded by itself, so a sentence gets the
    same translation whichever sentences stand beside it. For more than a few rows the matrix is
    unpacked: then a step takes the time of the arithmetic, not that of the bytes. The positions of
    one sentence alone, (1, time, in), are multiplied `together`, which is faster.

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
        self.missing = -self.in_features % AT_ONCE  # columns of 0 that fill the last ones up
        self.whole = F.pad(whole, (0, self.missing))
        self.scale = scale
        self.bias = None if bias is None else bias.detach().clone()
        large = weight.dtype == torch.float32 and weight.numel() >= LARGE
        self.by_fbgemm = large and together_is_exact()

    def forward(self, x: Float[Tensor, "*batch in"]) -> Float[Tensor, "*batch out"]:
        rows = x.reshape(-1, self.in_features)
        if self.by_fbgemm and len(x) == 1:
            return self.together(rows).view(*x.shape[:-1], -1)
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

    def together(self, rows: Float[Tensor, "rows in"]) -> Float[Tensor, "rows out"]:
        """The same for rows that may know of each other: a beam, or the positions of one sentence.

        FBGEMM's kernel turns x into 8 bits too, with one scale for all rows, and adds up whole
        numbers, four in one instruction. It reads the matrix in an order of its own, in which that
        is stored a second time.
        """
        if not self.by_fbgemm:
            return self.few(rows)
        # Otherwise torch asks the packed matrix for an attribute __torch_function__. It has none,
        # and says so by C++ exceptions: 16 of the 27 microseconds that a small product takes then.
        with torch._C.DisableTorchFunctionSubclass():
            return torch.ops.quantized.linear_dynamic(rows, self.packed, False)

    @cached_property
    def packed(self) -> torch.ScriptObject:
        """The matrix as FBGEMM reads it, made when it is first asked for."""
        whole = self.whole[:, : self.in_features].contiguous()
        scales, zeros = self.scale.double(), torch.zeros(len(whole), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
            matrix = torch._make_per_channel_quantized_tensor(whole, scales, zeros, 0)
        return torch.ops.quantized.linear_prepack(matrix, self.bias)


def together_is_exact() -> bool:
    """Whether torch has FBGEMM's kernel, and the processor AVX-512 VNNI.

    Without that instruction the kernel adds two products in 16 bits, where they have no room.
    """
    has_instruction = getattr(torch.cpu, "_is_vnni_supported", bool)()
    has_kernel = torch.backends.quantized.engine in ("x86", "fbgemm")
    return has_instruction and has_kernel and hasattr(torch, "_make_per_channel_quantized_tensor")


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
    reads them all, gets 8 bits of its own. While one sentence alone is translated, what the
    matrices are multiplied with is turned into 8 bits too, on a processor where
    `together_is_exact`.
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
        times = EightBitLinear.together if len(state.memory) == 1 else EightBitLinear.few
        for (own, cross, feed_forward), cache in zip(self.quick, caches, strict=True):
            x = own(x, times, cache.own)
            x = cross(x, times, cache.memory, mask)
            x = feed_forward(x, times)
        projection = cast(EightBitLinear, self.projection)
        return times(projection, self.decoder.norm(x)), None, state


Times = Callable[[Any, Tensor], Tensor]  # an `EightBitLinear` and what it multiplies, by one kernel


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

    def __call__(
        self, x: Float[Tensor, "batch d_model"], times: Times, cache: KeyValueCache
    ) -> Tensor:
        projected = times(self.joined, x).view(x.shape[0], 3, self.n_heads, 1, -1)
        attended = self.attend(*projected.unbind(1), cache=cache)  # (batch, heads, 1, d_v)
        return times(self.w_o, attended.flatten(1))


class _QuickCrossAttention:
    """Cross-attention of one position of each sequence, to keys and values in the cache."""

    def __init__(self, layer: Any):
        self.w_q, self.w_o = layer.w_q, layer.w_o
        self.attend, self.n_heads = layer.attend, layer.n_heads

    def __call__(
        self,
        x: Float[Tensor, "batch d_model"],
        times: Times,
        cache: KeyValueCache,
        mask: Tensor | None,
    ) -> Tensor:
        query = times(self.w_q, x).view(x.shape[0], self.n_heads, 1, -1)
        return times(self.w_o, self.attend(query, mask=mask, cache=cache).flatten(1))


class _QuickFeedForward:
    """The feed-forward network of a few rows."""

    def __init__(self, layer: Any):
        self.w_1, self.w_2, self.w_3 = layer.w_1, layer.w_2, layer.w_3
        self.activation = layer.activation

    def __call__(self, x: Float[Tensor, "batch d_model"], times: Times) -> Tensor:
        inner = self.activation(times(self.w_1, x))
        return times(self.w_2, inner if self.w_3 is None else inner * times(self.w_3, x))


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

"""8-bit parameters: a step of decoding reads a quarter of the bytes.

For one sentence each parameter is read once in a step and used once, so a step takes the time in
which the parameters come from memory. `in_8_bits` stores each matrix in whole numbers from -127 to
127, with a scale for each row, and leaves the rest of the model as it is.
"""

import platform
from copy import deepcopy
from typing import cast

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn
from torch.nn import functional as F

from lib.layers import TiedProjection
from lib.transformer import Transformer

LARGEST = 127  # of the whole numbers
TOGETHER = 32  # entries of x that the kernel reads at a time; it looks for no end between them
FEW = 64  # rows up to which torch's kernel is faster than unpacking the matrix


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
        whole, scale = cast(Tensor, self.whole), cast(Tensor, self.scale)
        rows = x.reshape(-1, self.in_features).bfloat16()
        if self.missing:
            rows = F.pad(rows, (0, self.missing))
        if len(rows) <= FEW and x.device.type == "cpu":
            product = torch._weight_int8pack_mm(rows, whole, scale)
        else:
            product = F.linear(rows.float(), whole.float() * scale.float()[:, None]).bfloat16()
        y = product.to(x.dtype) if self.bias is None else product + self.bias
        return y.view(*x.shape[:-1], -1)


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


def in_8_bits(model: Transformer) -> Transformer:
    """A copy of the model with its matrices in 8 bits, for decoding on a processor.

    Embeddings keep their numbers, since a step reads one row of them; a tied projection, which
    reads them all, gets 8 bits of its own.
    """
    packed = deepcopy(model).eval()
    for name, layer in list(packed.named_modules()):
        if isinstance(layer, nn.Linear | TiedProjection):
            path, _, last = name.rpartition(".")
            bias = layer.bias if isinstance(layer, nn.Linear) else None
            setattr(packed.get_submodule(path), last, EightBitLinear(layer.weight, bias))
    return packed

"""One attention layer split over ranks by its heads: by hand, and by torch's own means.

Each rank has some heads: their columns of W^Q, W^K and W^V and their rows of W^O, in the paper's
notation x W. The heads need nothing of one another until W^O, which sums over them; this one sum is
taken over the ranks. Its mirror image is in the backward pass: the gradient of the input is a sum
over all heads.
"""

from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    parallelize_module,
)

from lib.attention import MultiHeadAttention

# The axis of each parameter along which the heads lie; nn.Linear stores W transposed. The bias of
# W^O belongs to no head.
AXES = {
    **{f"{name}.{part}": 0 for name in ("w_q", "w_k", "w_v") for part in ("weight", "bias")},
    "w_o.weight": 1,
}


class CopyToRanks(torch.autograd.Function):
    """Forward x, which all ranks have; backward the sum of what the ranks have as its gradient.

    Source: Shoeybi et al. 2019, section 3, the operator f.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total


class SumOverRanks(torch.autograd.Function):
    """Forward the sum over the ranks; backward the gradient, which all ranks have.

    Source: Shoeybi et al. 2019, section 3, the operator g.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class TensorParallelAttention(nn.Module):
    """This rank's heads of an attention layer: an attention layer of fewer heads, between f and g.

    It computes what the whole layer does, with as many heads on each rank. The bias of W^O is added
    after the sum, once; all ranks have it.

    Shapes: as `lib.attention.MultiHeadAttention`; of weights or a cache, this rank's heads.
    Args: whole, the same layer on all ranks, which is left as it was.
    Errors: ValueError if the ranks do not divide the heads, also those of keys and values, or if
        each head has another bias for its positions.
    Source: Shoeybi et al. 2019, section 3.
    """

    def __init__(self, whole: MultiHeadAttention):
        super().__init__()
        n, rank = dist.get_world_size(), dist.get_rank()
        _require_splittable(whole, n)
        has_bias = whole.w_o.bias is not None
        self.heads = MultiHeadAttention(
            whole.w_o.out_features,
            whole.n_heads // n,
            n_kv_heads=whole.n_kv_heads // n,
            d_k=whole.w_q.out_features // whole.n_heads,
            d_v=whole.w_o.in_features // whole.n_heads,
            d_query_in=whole.w_q.in_features,
            d_key_in=whole.w_k.in_features,
            d_value_in=whole.w_v.in_features,
            bias=has_bias,
            dropout=whole.dropout,
            positions=whole.positions,
        ).to(whole.w_o.weight)
        self.heads.w_o.register_parameter("bias", None)
        mine = {
            name: parameter.detach().chunk(n, AXES[name])[rank]
            for name, parameter in whole.named_parameters()
            if name in AXES
        }
        with torch.no_grad():
            for name, part in mine.items():
                self.heads.get_parameter(name).copy_(part)
        self.bias = nn.Parameter(whole.w_o.bias.detach().clone()) if has_bias else None

    def forward(
        self,
        x_query: Float[Tensor, "batch query d_query_in"],
        x_key: Float[Tensor, "batch key d_key_in"] | None = None,
        x_value: Float[Tensor, "batch key d_value_in"] | None = None,
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "batch query d_out"]:
        """As the whole layer; every rank gets the same inputs and returns the same output.

        Args: mask, the same for all heads: (query, key), (batch, query, key) or with heads = 1.
        """
        inputs = (x if x is None else CopyToRanks.apply(x) for x in (x_query, x_key, x_value))
        output = SumOverRanks.apply(self.heads(*inputs, mask=mask))
        return output if self.bias is None else output + self.bias


def gathered(layer: TensorParallelAttention, *, gradients: bool = False) -> dict[str, Tensor]:
    """The parameters of the whole layer, or their gradients, under its names, on every rank.

    All ranks must call it. A gradient that is not there is left out.
    """
    found: dict[str, Tensor] = {}
    for name, parameter in layer.named_parameters():
        mine = parameter.grad if gradients else parameter.detach()
        if mine is None:
            continue
        if name == "bias":
            found["w_o.bias"] = mine
            continue
        name = name.removeprefix("heads.")
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, mine.contiguous())
        found[name] = torch.cat(parts, AXES[name])
    return found


def parallelize(
    layer: MultiHeadAttention, mesh: DeviceMesh, *, inputs: int = 1
) -> MultiHeadAttention:
    """Split the layer by its heads with torch's tensor parallelism; it is changed, and returned.

    Its parameters become DTensors: `full_tensor()` gives them whole. torch splits matrices and
    knows nothing of heads, so the numbers of heads are divided here. Its input becomes one DTensor
    that the three projections share (PrepareModuleInput): so their gradients of it are added before
    they are summed over the ranks, once; without, each of the three takes an all-reduce.
    Args: mesh, of one axis, such as `init_device_mesh("cpu", (n,))`; inputs, how many tensors the
        layer is called with without names: 1 in self-attention, 2 in cross-attention.
    Errors: those of `TensorParallelAttention`.
    Source: torch.distributed.tensor.parallel.
    """
    n = mesh.size()
    _require_splittable(layer, n)
    styles = {name: ColwiseParallel() for name in ("w_q", "w_k", "w_v")}
    parallelize_module(layer, mesh, styles | {"w_o": RowwiseParallel()})
    whole = (Replicate(),) * inputs
    shared = PrepareModuleInput(input_layouts=whole, desired_input_layouts=whole)
    parallelize_module(layer, mesh, shared)
    layer.w_o.register_forward_hook(_arrived)
    layer.n_heads //= n
    layer.n_kv_heads //= n
    return layer


def _arrived(_layer: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    """torch returns its sum before all of it is there; a copy waits for the rest."""
    return output.clone()


def _require_splittable(layer: MultiHeadAttention, n: int) -> None:
    if layer.n_heads % n or layer.n_kv_heads % n:
        raise ValueError(
            f"expected heads that {n} ranks can share equally, got n_heads={layer.n_heads} and "
            f"n_kv_heads={layer.n_kv_heads}; change one of the numbers"
        )
    if layer.positions is not None and layer.positions.bias(1, 1) is not None:
        raise ValueError(
            "expected positions that are the same for all heads, got "
            f"{type(layer.positions).__name__}, which gives each head its own bias; "
            "take rotary positions, or add others to the embeddings"
        )

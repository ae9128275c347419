"""A model whose parameters, gradients and optimiser state are spread over the ranks.

torch's fully sharded data parallelism (FSDP2) does it. Each rank keeps a slice of every parameter,
along its first axis. Before a layer computes, the ranks gather its parameters; after that they
forget what is not their own. The gradients are averaged over the ranks, and each rank gets the
slice that its optimiser needs.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from lib.transformer import DecoderLayer, EncoderLayer

Model = TypeVar("Model", bound=nn.Module)


class Held(NamedTuple):
    """Bytes that one rank holds between two steps."""

    parameters: int
    gradients: int
    optimizer: int

    @property
    def total(self) -> int:
        return sum(self)


def shard(model: Model, mesh: DeviceMesh) -> Model:
    """Spread the model over the ranks; it is changed, and returned.

    Each layer is gathered by itself, and all that is in no layer together: embeddings, projection,
    final norms. Call it before the optimiser is made, and call the model itself, `model(...)`: its
    other methods do not gather.
    Args: mesh, of one axis, such as `init_device_mesh("cpu", (n,))`; a model that has the same
        parameters on all ranks.
    Errors: ValueError for a model without a layer of `lib.transformer`.
    Source: torch.distributed.fsdp.fully_shard; Rajbhandari et al. 2020 (ZeRO, stage 3); Zhao et al.
        2023 (FSDP).
    """
    layers = [one for one in model.modules() if isinstance(one, EncoderLayer | DecoderLayer)]
    if not layers:
        raise ValueError(
            f"expected a model with layers of lib.transformer, got {type(model).__name__}; "
            "call torch's fully_shard on the parts of another one"
        )
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def held(model: nn.Module, optimizer: torch.optim.Optimizer | None = None) -> Held:
    """Measure what this rank holds of the model, its gradients, and the optimiser's state."""
    parameters = list(model.parameters())
    states = [] if optimizer is None else optimizer.state.values()
    return Held(
        _bytes(parameters),
        _bytes(one.grad for one in parameters if one.grad is not None),
        _bytes(value for state in states for value in state.values() if torch.is_tensor(value)),
    )


def whole_parameters(model: nn.Module) -> dict[str, Tensor]:
    """The parameters as one process would have them, on every rank. All ranks must call it."""
    return {name: _whole(one.detach()) for name, one in model.named_parameters()}


def whole_gradients(model: nn.Module) -> dict[str, Tensor]:
    """The gradients as one process would have them, on every rank. All ranks must call it."""
    return {
        name: _whole(one.grad) for name, one in model.named_parameters() if one.grad is not None
    }


def _whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.clone()


def _bytes(tensors: Iterable[Tensor]) -> int:
    mine = (one.to_local() if isinstance(one, DTensor) else one for one in tensors)
    return sum(one.numel() * one.element_size() for one in mine)

"""What several tests ask of one start of two workers, which takes seconds."""

from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode

from chapters.distributed.sharded import held, shard, whole_gradients, whole_parameters
from chapters.distributed.tensor_parallel import TensorParallelAttention, gathered, parallelize
from lib.attention import MultiHeadAttention
from lib.masks import causal_mask
from lib.positions import ALiBi, Rotary
from lib.training import paper_adam, teacher_forcing, token_loss, update
from lib.transformer import Config, LanguageModel, Transformer

D_MODEL, HEADS, TIME, BATCH, VOCAB, STEPS = 28, 2, 7, 6, 31, 4
LAYERS: dict[str, dict[str, Any]] = {
    "as in the paper": {},
    "without biases": {"bias": False},
    "grouped, rotary, other dimensions": {
        "n_heads": 6,
        "n_kv_heads": 2,
        "d_k": 10,
        "d_v": 11,
        "d_out": 5,
        "positions": Rotary(10),
    },
}


def numbers(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layer(**options: Any) -> MultiHeadAttention:
    torch.manual_seed(11)
    made = MultiHeadAttention(D_MODEL, **({"n_heads": HEADS} | options)).double()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith("bias"):  # a new layer's are 0: adding them twice would change nothing
                parameter.copy_(numbers(*parameter.shape, seed=3))
    return made


def attended(attention: torch.nn.Module, cross: bool) -> tuple[dict[str, Any], list[int]]:
    """Output and gradients of the inputs, and how many collectives each pass took."""
    x = numbers(3, TIME, D_MODEL, seed=5).requires_grad_()
    memory = numbers(3, 5, D_MODEL, seed=6).requires_grad_() if cross else None
    mask = None if cross else causal_mask(TIME)
    with CommDebugMode() as forward:
        output = attention(*([x] if memory is None else [x, memory]), mask=mask)
    with CommDebugMode() as backward:
        (output * numbers(*output.shape, seed=7)).sum().backward()
    found = {"output": output.detach(), "x": x.grad}
    if memory is not None:
        found["memory"] = memory.grad
    return found, [mode.get_total_counts() for mode in (forward, backward)]


def split_three_ways() -> dict[str, dict[str, Any]]:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    found = {}
    for name, options in LAYERS.items():
        for cross in (False, True) if "positions" not in options else (False,):
            whole, by_hand = layer(**options), TensorParallelAttention(layer(**options))
            by_torch = parallelize(layer(**options), mesh, inputs=1 + cross)
            copied = gathered(by_hand)
            results = [attended(one, cross) for one in (whole, by_hand, by_torch)]
            values, counts = zip(*results, strict=True)
            gradients = (
                whole_gradients(whole),
                gathered(by_hand, gradients=True),
                whole_gradients(by_torch),
            )
            found[f"{name}, {'cross' if cross else 'self'}"] = {
                "whole": values[0] | gradients[0],
                "by hand": values[1] | gradients[1],
                "by torch": values[2] | gradients[2],
                "counts": counts,
                "copied": (copied, whole_parameters(whole)),
                "held": [held(one).parameters for one in (whole, by_hand)],
            }
    return found


def refused() -> list[str]:
    """What is said of layers that cannot be split over the ranks."""
    said = []
    for options in ({"n_heads": 7}, {"n_heads": 4, "n_kv_heads": 1}, {"positions": ALiBi(HEADS)}):
        try:
            TensorParallelAttention(layer(**options))
        except ValueError as error:
            said.append(str(error))
    return said


class Part(SimpleNamespace):
    """Sentences of one length, without padding: every rank's part has as many tokens."""

    def to(self, device: torch.device) -> "Part":
        return self


def part_of_rank(step: int, n: int, rank: int) -> Part:
    drawn = torch.Generator().manual_seed(step)
    tokens = torch.randint(4, VOCAB, (BATCH, TIME), generator=drawn)[rank::n]
    lengths = torch.full((len(tokens),), TIME)
    backwards = tokens.flip(1)
    return Part(
        source=tokens,
        source_lengths=lengths,
        target_in=backwards[:, :-1],
        target_out=backwards[:, 1:],
    )


def next_token(model: torch.nn.Module, part: Part) -> tuple[torch.Tensor, int]:
    logits = model(part.target_in)
    return token_loss(logits, part.target_out, reduction="sum"), part.target_out.numel()


MODELS = {
    "LanguageModel": (LanguageModel, next_token),
    "Transformer": (Transformer, teacher_forcing),
}


def trained(kind: str, n: int, rank: int) -> dict[str, Any]:
    """A model after some steps on the same batches, of which each of n ranks takes a part."""
    make, loss = MODELS[kind]
    torch.manual_seed(2)
    config = Config(
        VOCAB, VOCAB, d_model=D_MODEL, n_heads=HEADS, d_ff=37, n_layers=3, dropout=0.0, norm="pre"
    )
    model = make(config).double()
    if n > 1:
        model = shard(model, init_device_mesh("cpu", (n,)))
    optimizer = paper_adam(model)
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    losses = []
    for step in range(STEPS):
        mean, _ = update(model, optimizer, [part_of_rank(step, n, rank)], loss, clip=0.5)
        losses.append(mean.item())
    return {
        "losses": losses,
        "held": held(model, optimizer),
        "parameters": whole_parameters(model),
        "gradients": whole_gradients(model),
    }


def measure() -> dict[str, Any]:
    n, rank = dist.get_world_size(), dist.get_rank()
    return {
        "split": split_three_ways(),
        "refused": refused(),
        "sharded": {kind: trained(kind, n, rank) for kind in MODELS},
    }

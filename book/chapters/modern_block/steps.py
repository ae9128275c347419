"""The way from the paper's block to today's, one change at a time, and its training on one text."""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from chapters.modern_block.decoder import BlockConfig, ModernDecoder, paper_2017
from chapters.modern_block.experts import load_balancing_loss, router_logits
from lib.notebook import seed_everything
from lib.training import Loss
from tasks.characters import (
    character_vocabulary,
    loss_by_position,
    next_token,
    train_on_text,
)

SIZES = {"d_model": 64, "n_layers": 2, "n_heads": 4, "d_ff": 256}
LENGTH = 128  # characters of a window
STEPS, BATCH, LR = 300, 16, 4e-3
BALANCE = 0.01  # what the balancing loss counts, as in Switch


class Step(NamedTuple):
    """One change: its name, the fields of `BlockConfig` that it sets, the step that it starts from.

    `balance` multiplies the balancing loss of a model with experts.
    """

    name: str
    change: dict[str, object]
    after: str | None = None
    balance: float = 0.0


# The first six follow one another and end at `today`; each of the others starts from one of them.
WAY: tuple[Step, ...] = (
    Step("2017", {}),
    Step("RMSNorm", {"norm_layer": "rms"}, "2017"),
    Step("no biases", {"bias": False}, "RMSNorm"),
    Step("SwiGLU", {"activation": "swiglu", "d_ff": 171}, "no biases"),
    Step("rotary", {"positions": "rotary"}, "SwiGLU"),
    Step("untied", {"tied": False, "scaled_embedding": False}, "rotary"),
    Step("2 key heads", {"n_kv_heads": 2}, "untied"),
    Step("1 key head", {"n_kv_heads": 1}, "untied"),
    Step("window 32", {"window": 32}, "2 key heads"),
    Step("4 experts", {"n_experts": 4, "n_active": 2, "d_ff": 86}, "2 key heads", BALANCE),
    Step("unbalanced", {"n_experts": 4, "n_active": 2, "d_ff": 86}, "2 key heads"),
)
# Today's block without one of its changes: does a change count for less in another order?
BACK: tuple[Step, ...] = (
    Step("LayerNorm", {"norm_layer": "layer"}, "untied"),
    Step("biases", {"bias": True}, "untied"),
    Step("ReLU", {"activation": "relu", "d_ff": 256}, "untied"),
    Step("sinusoids", {"positions": "sinusoidal"}, "untied"),
)


def config_of(name: str, vocab: int) -> BlockConfig:
    """The configuration of a step: the changes of all steps before it, and its own.

    Errors: ValueError for a name that is no step's.
    """
    steps = {step.name: step for step in (*WAY, *BACK)}
    if name not in steps:
        raise ValueError(f"expected a step out of {', '.join(steps)}, got {name!r}")
    step = steps[name]
    before = paper_2017(vocab, **SIZES) if step.after is None else config_of(step.after, vocab)
    return replace(before, **step.change)  # type: ignore[arg-type]  # the fields have many types


def balanced(n_active: int, balance: float) -> Loss:
    """`next_token` and, times `balance`, the balancing loss of all routers, for `train`.

    Errors, when it is called: ValueError for a model without experts.
    """

    def loss(
        model: nn.Module, rows: Int[Tensor, "batch window"]
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        with router_logits(model) as logits:
            total, number = next_token(model, rows)
        if not logits:
            raise ValueError("expected a model with experts, got one without; set n_experts")
        return total + number * balance * load_balancing_loss(torch.stack(logits), n_active), number

    return loss


def train_step(
    name: str,
    text: Int[Tensor, " characters"],
    seed: int,
    *,
    steps: int = STEPS,
    lr: float = LR,
    **change: Any,
) -> tuple[ModernDecoder, list[float]]:
    """Train the model of a step on a text of characters: the model and the loss of every update.

    Args: steps, the number of updates, over which the learning rate rises to lr and falls; change,
        further fields of `BlockConfig`.
    """
    step = next((one for one in (*WAY, *BACK) if one.name == name), None)
    config = replace(config_of(name, len(character_vocabulary())), **change)
    seed_everything(seed)
    model = ModernDecoder(config)
    loss = balanced(config.n_active, step.balance) if step and step.balance else next_token
    losses = train_on_text(
        model, text, steps, lr, length=LENGTH, batch_size=BATCH, seed=seed, loss=loss
    )
    return model, losses


def held_out_loss(model: ModernDecoder, text: Int[Tensor, " characters"]) -> float:
    """The mean loss in nats of a character, over windows that cover the text once."""
    return float(loss_by_position(model, text, LENGTH).mean())


@torch.no_grad()
def expert_fractions(
    model: ModernDecoder, tokens: Int[Tensor, "batch time"]
) -> Float[Tensor, "layers n_experts"]:
    """Of the choices of each layer's router, the fraction that fell on each expert; rows sum to 1.

    Shapes: tokens (batch, time). Returns (n_layers, n_experts).
    Errors: ValueError for a model without experts.
    """
    with router_logits(model) as logits:
        model(tokens)
    if not logits:
        raise ValueError("expected a model with experts, got one without; set n_experts")
    chosen = torch.stack(logits).topk(model.config.n_active, dim=-1).indices  # (layers, tokens, k)
    n_experts = logits[0].shape[-1]
    counts = [torch.bincount(layer.flatten(), minlength=n_experts) for layer in chosen]
    return torch.stack(counts) / chosen[0].numel()

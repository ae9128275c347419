"""What a deep stack of feed-forward networks learns: with a larger start, norms, or sums.

    python experiments/deep_networks.py [--seeds 0 1 2] [--steps 300]

24 feed-forward networks, d_model 32, stand between the input and a linear layer of ten classes. The
classes are those that a small random network, the teacher, gives to random vectors. "larger start"
draws the matrices with variances 2/d_model and 1/d_ff, so that a network keeps the size of its
input; the stack with sums gets one norm, at its end. It writes results/deep_networks.json, which
the chapter loads: for each setting the fraction of right classes among new vectors, one for each
seed, at two rates; and for each seed the fraction of the commonest class. A minute of one core.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.layers import FeedForward, LayerNorm, Residual
from lib.notebook import seed_everything
from lib.training import cosine, train
from measure.experiments import Run, command_line, grid

N_LAYERS, D_MODEL, D_FF = 24, 32, 128
CLASSES, HIDDEN, BATCH_SIZE, TESTED = 10, 64, 64, 2000
RATE, OTHER_RATES = 1e-3, (3e-4,)


def network() -> FeedForward:
    return FeedForward(D_MODEL, D_FF)


def larger() -> FeedForward:
    """A network that keeps the size of its input, on average over the draws."""
    drawn = network()
    nn.init.normal_(drawn.w_1.weight, std=(2 / D_MODEL) ** 0.5)  # the ReLU halves the squares
    nn.init.normal_(drawn.w_2.weight, std=(1 / D_FF) ** 0.5)
    return drawn


SETTINGS: dict[str, Callable[[], nn.Module]] = {  # each makes one layer
    "networks alone": network,
    "networks alone, larger start": larger,
    "a norm after each network": lambda: nn.Sequential(network(), LayerNorm(D_MODEL)),
    "a sum around each network": lambda: Residual(
        network(), D_MODEL, norm="pre", norm_layer=nn.Identity
    ),
}


def build(setting: str, seed: int) -> nn.Module:
    seed_everything(seed)
    layers = [SETTINGS[setting]() for _ in range(N_LAYERS)]
    last = LayerNorm(D_MODEL) if isinstance(layers[0], Residual) else nn.Identity()
    return nn.Sequential(*layers, last, nn.Linear(D_MODEL, CLASSES))


def teacher(generator: torch.Generator) -> Callable[[Tensor], Tensor]:
    """A random network that gives vectors (rows, d_model) their classes (rows)."""
    first = torch.randn(D_MODEL, HIDDEN, generator=generator) / D_MODEL**0.5
    second = torch.randn(HIDDEN, CLASSES, generator=generator)

    def scores(x: Tensor) -> Tensor:
        return F.relu(x @ first) @ second

    mean = scores(torch.randn(10_000, D_MODEL, generator=generator)).mean(0)
    return lambda x: (scores(x) - mean).argmax(-1)  # without the mean, few classes take all


def run(setting: str, rate: float, seed: int, steps: int) -> dict[str, Any]:
    """Train one stack, and try it on vectors that it has not seen."""
    model, generator = build(setting, seed), torch.Generator().manual_seed(seed)
    class_of = teacher(generator)

    def vectors(rows: int) -> Tensor:
        return torch.randn(rows, D_MODEL, generator=generator)

    def loss(model: nn.Module, x: Tensor) -> tuple[Tensor, int]:
        return F.cross_entropy(model(x), class_of(x), reduction="sum"), len(x)

    stream = (vectors(BATCH_SIZE) for _ in range(steps))
    train(model, stream, steps, rate, loss=loss, schedule=cosine(steps))
    x = vectors(TESTED)
    with torch.no_grad():
        right = (model(x).argmax(-1) == class_of(x)).float().mean().item()
    return {"right": round(right, 3), "commonest": class_of(x).bincount().max().item() / TESTED}


def record(runs: list[Run], steps: int) -> dict[str, Any]:
    """By setting the fraction of right classes of each seed, and what the commonest class gets."""
    right: dict[float, dict[str, list[float]]] = {}
    for one in runs:
        right.setdefault(one["rate"], {}).setdefault(one["setting"], []).append(one["right"])
    commonest = {one["seed"]: one["commonest"] for one in runs}
    return {
        "seeds": list(commonest),
        "steps": steps,
        "layers": N_LAYERS,
        "rate": RATE,
        "commonest class": list(commonest.values()),
        "right": right[RATE],
        "other rates": {str(rate): right[rate] for rate in OTHER_RATES},
    }


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": SETTINGS, "rate": (RATE, *OTHER_RATES), "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, steps=300)
    options = vars(given.options)
    grid(partial(run, **options), given, partial(record, **options))


if __name__ == "__main__":
    main()

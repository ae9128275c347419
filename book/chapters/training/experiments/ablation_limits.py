"""Chapter 11: how far its ablations carry, at other rates, for longer and on other seeds.

    python book/chapters/training/experiments/ablation_limits.py [--seeds 0 1 2]

The set-up and the data are those of the chapter's ablations, read from its cells as
`ablations.py` does. It writes results/ablation_limits.json: for each of `SETTINGS` the mean of the
last 20 training losses, the held-out loss and the accuracy (exact match), one number for each
seed. Of 400 pairs `during` is the held-out loss after every 50 updates. With other seeds
`accuracy averaged` is that of the mean of the last `CHECKPOINTS` states. "main" is the model of the
chapter's full run on its sentences, of all lengths.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest import mock

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.training.experiments.ablations import book
from lib.data import Batch, BatchStream, make_batch
from lib.decoding import translate
from lib.layers import Residual
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import Schedule, cosine, train, validation_loss, warm_up
from lib.transformer import Config, Transformer
from measure.experiments import by_setting, command_line, grid

EVERY = 50  # updates between two held-out losses
CHECKPOINTS, APART = 5, 10  # the last states that are averaged, and the updates between them


def common(updates: int) -> Schedule:
    return cosine(updates, warmup=40)


def constant(updates: int) -> Schedule:
    return warm_up(40)


def slowly(updates: int) -> Schedule:
    return cosine(updates, warmup=2 * updates // 5)


@dataclass(frozen=True)
class Setting:
    """One run; the defaults are those of the common set-up.

    schedule  makes the factor on the rate of the number of updates
    pairs     how many there are to train on, None for all
    updates   how many there are
    further   is added to the seed, for runs on other seeds
    shifted   whether the decoder reads its targets shifted, as it should
    residual  whether there are residual paths
    main      whether model and sentences are those of the chapter's full run
    changes   to the model's configuration
    """

    lr: float = 4e-3
    schedule: Callable[[int], Schedule] = common
    pairs: int | None = None
    updates: int = 500
    further: int = 0
    shifted: bool = True
    residual: bool = True
    main: bool = False
    changes: dict[str, Any] = field(default_factory=dict)


SETTINGS = {
    "cosine from twice the rate": Setting(lr=8e-3),
    "no shift": Setting(schedule=constant, updates=200, shifted=False),
    "no shift, no residual paths": Setting(
        schedule=constant, updates=200, shifted=False, residual=False
    ),
    "400 pairs": Setting(pairs=400),
    "three times the rate, no warm-up": Setting(lr=1.2e-2, schedule=cosine),
    "three times the rate": Setting(lr=1.2e-2),
    "ten times the rate, warm-up 200": Setting(lr=4e-2, schedule=slowly),
    "ten times the rate, warm-up 600 of 1,500": Setting(lr=4e-2, schedule=slowly, updates=1500),
    "1,500 updates": Setting(updates=1500),
    "1,500 updates, constant": Setting(updates=1500, schedule=constant),
    "main": Setting(main=True),
    "main, constant": Setting(main=True, schedule=constant),
    "common, other seeds": Setting(further=3),
    "1 head, other seeds": Setting(further=3, changes={"n_heads": 1}),
    "constant, other seeds": Setting(further=3, schedule=constant),
    "2 + 2 layers, other seeds": Setting(further=3, changes={"n_layers": 2}),
}


def without_residual(layer: Residual, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return layer.sublayer(layer.norm(x), *args, **kwargs)


def unshifted(stream: Iterable[Batch]) -> Iterator[Batch]:
    for b in stream:
        yield Batch(b.source, b.source_lengths, b.target_out, b.target_out)


def run(setting: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    chosen = SETTINGS[setting]
    with ExitStack() as without:
        if not chosen.residual:
            without.enter_context(mock.patch.object(Residual, "forward", without_residual))
        return trained(chosen, seed + chosen.further)


def trained(chosen: Setting, seed: int) -> dict[str, Any]:
    defined = book()
    vocabularies, held_out = defined["vocabularies"], defined["held_out"]
    pairs, sizes = defined["short"][: chosen.pairs], defined["SMALL"] | chosen.changes
    if chosen.main:
        pairs, held_out = defined["training"], defined["test"][: len(held_out)]
        sizes = defined["sizes"] | defined["choices"]
    batch = make_batch(held_out, *vocabularies)

    def accuracy() -> float:
        said = translate(model, held_out, *vocabularies)
        return round(exact_match(said, [pair.target for pair in held_out]), 4)

    def look(updates: int, loss: Tensor) -> None:
        if chosen.pairs and updates % EVERY == 0:
            during.append(round(validation_loss(model, [batch]), 4))
        left = chosen.updates - updates
        if left < CHECKPOINTS * APART and left % APART == 0:
            states.append({name: x.clone() for name, x in model.state_dict().items()})

    seed_everything(seed)
    model = Transformer(Config(*map(len, vocabularies), **sizes))
    during: list[float] = []
    states: list[dict[str, Tensor]] = []
    stream: Iterable[Batch] = BatchStream(pairs, *vocabularies, batch_size=32, seed=seed)
    losses = train(
        model,
        stream if chosen.shifted else unshifted(stream),
        chosen.updates,
        chosen.lr,
        schedule=chosen.schedule(chosen.updates),
        after_update=look,
    )
    found: dict[str, Any] = {
        "training": round(fmean(losses[-20:]), 4),
        "loss": round(validation_loss(model, [batch]), 4),
        "accuracy": accuracy(),
    }
    if during:
        found["during"] = during
    if chosen.further:
        mean = {name: torch.stack([s[name] for s in states]).mean(0) for name in states[0]}
        model.load_state_dict(mean)
        found["accuracy averaged"] = accuracy()
    return found


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": SETTINGS, "seed": (0, 1, 2)}
    grid(run, command_line(__file__, __doc__, over, arguments), by_setting)


if __name__ == "__main__":
    main()

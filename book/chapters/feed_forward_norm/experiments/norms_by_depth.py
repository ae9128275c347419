"""Does a deep stack need norms? Encoders of 2, 6 and 12 layers, with norms and without any.

    python experiments/norms_by_depth.py [--seeds 0 1 2] [--steps 300]

The task is that of the chapter's laboratory: eight digits are to be put in order of size. Every
stack has its sums. "no norm" has no norm at all, the last one included; "smaller start" divides the
matrix at the end of each sub-layer by the root of the number of sub-layers. Adam, a cosine
schedule, no warm-up; the rate is .003 unless a setting names another. It writes
results/norms_by_depth.json, which the chapter loads: for each setting one number for each seed,
the fraction of right digits and the size of the encoder's output before training. A fixed answer
gets about .34 of the digits. Two minutes of one core.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.layers import Embedding
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, Encoder
from measure.experiments import Run, command_line, grid

DIGITS, LENGTH, ROWS, TESTED = 10, 8, 32, 500
SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "dropout": 0.0, "positions": "learned"}
HELD_OUT = 7  # one set of digits in seven


class WithoutNorms(Config):
    """A configuration whose stacks have no norm, in their layers or at their end."""

    def make_norm(self) -> nn.Module:
        return nn.Identity()


class Setting(NamedTuple):
    """Where the norms stand, if there are any; the depth; the rate; whether it starts smaller."""

    norm: str
    layers: int
    lr: float = 3e-3
    smaller: bool = False


SETTINGS = {
    "pre-norm, 6 layers": Setting("pre", 6),
    "post-norm, 6 layers": Setting("post", 6),
    "pre-norm, 12 layers": Setting("pre", 12),
    "no norm, 2 layers": Setting("none", 2),
    "no norm, 6 layers": Setting("none", 6),
    "no norm, 6, rate .001": Setting("none", 6, lr=1e-3),
    "no norm, 12 layers": Setting("none", 12),
    "no norm, 12, rate .001": Setting("none", 12, lr=1e-3),
    "no norm, 12, smaller start": Setting("none", 12, smaller=True),
}


class Sorter(nn.Module):
    """An encoder that gives each position the scores of ten digits.

    Shapes: digits (batch, time). Returns (batch, time, 10).
    """

    def __init__(self, config: Config):
        super().__init__()
        self.embedding = Embedding(DIGITS, config.d_model)
        self.encoder = Encoder(config)
        self.output = nn.Linear(config.d_model, DIGITS)

    def forward(self, digits: Tensor) -> Tensor:
        return self.output(self.encoder(self.embedding(digits)))


def build(setting: str, seed: int) -> Sorter:
    """Make the model of a setting; all settings draw the same numbers."""
    norm, layers, _, smaller = SETTINGS[setting]
    seed_everything(seed)
    make = WithoutNorms if norm == "none" else Config
    place = "pre" if norm == "none" else norm
    model = Sorter(make(DIGITS, norm=place, n_layers=layers, max_length=LENGTH, **SIZES))
    for layer in model.encoder.layers if smaller else ():
        for last in (layer.self_attention.sublayer.w_o, layer.feed_forward.sublayer.w_2):
            last.weight.data /= (2 * layers) ** 0.5
    return model


def is_held_out(digits: Tensor) -> Tensor:
    """Whether these digits, in whichever order, are for the test alone."""
    number = (digits.sort(-1).values * 10 ** torch.arange(LENGTH)).sum(-1)
    return number % HELD_OUT == 0


def examples(seed: int, rows: int, *, test: bool) -> Iterator[Tensor]:
    """Endless batches of digits, none of the training among those of the test in any order."""
    generator = torch.Generator().manual_seed(2 * seed + test)
    kept = torch.empty(0, LENGTH, dtype=torch.long)
    while True:
        while len(kept) < rows:
            drawn = torch.randint(DIGITS, (4 * rows, LENGTH), generator=generator)
            kept = torch.cat([kept, drawn[is_held_out(drawn) == test]])
        yield kept[:rows]
        kept = kept[rows:]


def loss(model: nn.Module, digits: Tensor) -> tuple[Tensor, int]:
    scores, wanted = model(digits), digits.sort(-1).values
    return F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), reduction="sum"), wanted.numel()


def run(setting: str, seed: int, steps: int) -> dict[str, Any]:
    """Train one model, and let it sort digits that it has not seen in any order."""
    model, tested = build(setting, seed), next(examples(seed, TESTED, test=True))
    with torch.no_grad():
        size = model.encoder(model.embedding(tested)).square().mean().sqrt().item()
    stream = examples(seed, ROWS, test=False)
    train(model, stream, steps, SETTINGS[setting].lr, loss=loss, schedule=cosine(steps))
    with torch.no_grad():
        right = (model(tested).argmax(-1) == tested.sort(-1).values).float().mean().item()
    return {"right": round(right, 3), "size": float(f"{size:.3g}")}


def record(runs: list[Run], steps: int) -> dict[str, Any]:
    """By setting: the fraction of right digits and the size at the start, for each seed."""
    tables: dict[str, dict[str, list[float]]] = {"right": {}, "size": {}}
    for one in runs:
        for name, table in tables.items():
            table.setdefault(one["setting"], []).append(one[name])
    seeds = list(dict.fromkeys(one["seed"] for one in runs))
    return {"seeds": seeds, "steps": steps, **tables}


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": SETTINGS, "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, steps=300)
    options = vars(given.options)
    grid(partial(run, **options), given, partial(record, **options))


if __name__ == "__main__":
    main()

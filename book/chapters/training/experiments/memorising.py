"""Chapter 11: which models memorise 32 sentences, and which mistakes they memorise in spite of.

    python book/chapters/training/experiments/memorising.py [--seeds 0 1 2]

The model, the sentences and the updates are those of the chapter's test, at three rates and three
sizes, or with one of `MISTAKES`. It writes results/memorising.json: for each setting and seed
the number of updates until all 32 are translated exactly, looked at after every 50 (null if they
are not after `MOST`), then the last fraction translated exactly and the last loss.
"""

import itertools
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.training.experiments.ablation_limits import unshifted
from chapters.training.experiments.ablations import book
from lib.data import make_batch
from lib.decoding import translate
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import train, warm_up
from lib.transformer import Config, Transformer
from measure.experiments import by_setting, command_line, grid

SENTENCES, EVERY, MOST, WARMUP = 32, 50, 600, 20
RATES = (4e-4, 4e-3, 1.2e-2)
SIZES = {
    "1 + 1 layers of 32": {"n_layers": 1, "d_model": 32, "d_ff": 64},
    "2 + 2 layers of 64": {},
    "6 + 6 layers of 64": {"n_layers": 6},
}
MISTAKES = (
    "no shift",
    "no causal mask",
    "no padding mask",
    "targets of other sentences",
    "no gradient for the encoder",
)


@dataclass(frozen=True)
class Setting:
    """One run; the defaults are the chapter's."""

    lr: float = 4e-3
    changes: dict[str, Any] = field(default_factory=dict)
    mistake: str = ""


SETTINGS = {
    **{f"{size}, {lr}": Setting(lr, changes) for size, changes in SIZES.items() for lr in RATES},
    "2 + 2 layers of 64, 0.04": Setting(lr=4e-2),
    **{mistake: Setting(mistake=mistake) for mistake in MISTAKES},
}


def run(setting: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    chosen, defined = SETTINGS[setting], book()
    vocabularies, few = defined["vocabularies"], defined["training"][:SENTENCES]
    if chosen.mistake == "targets of other sentences":
        few = [a._replace(target=b.target) for a, b in zip(few, few[1:] + few[:1], strict=True)]
    seed_everything(seed)
    sizes = defined["sizes"] | defined["choices"] | chosen.changes
    model = Transformer(Config(*map(len, vocabularies), **sizes))
    if chosen.mistake == "no gradient for the encoder":
        for part in (model.encoder, model.source_embedding):
            part.requires_grad_(False)
    same = itertools.repeat(make_batch(few, *vocabularies))
    stream = unshifted(same) if chosen.mistake == "no shift" else same
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], fused=True)

    losses, exact, updates = [1.0], 0.0, 0
    with ExitStack() as mistaken:
        if chosen.mistake == "no causal mask":
            mask = mock.patch("lib.transformer.causal_mask", _everything)
            mistaken.enter_context(mask)
        if chosen.mistake == "no padding mask":
            mask = mock.patch("lib.transformer.padding_mask", _no_padding)
            mistaken.enter_context(mask)
        while updates < MOST and exact < 1:
            until = updates + EVERY
            losses = train(
                model,
                stream,
                until,
                chosen.lr,
                schedule=warm_up(WARMUP),
                optimizer=optimizer,
                start=updates,
            )
            updates = until
            said = translate(model, few, *vocabularies)
            exact = exact_match(said, [pair.target for pair in few])
    return {
        "updates": updates if exact == 1 else None,
        "exact": round(exact, 4),
        "loss": round(losses[-1], 4),
    }


def _everything(n_queries: int, n_keys: int, **options: Any) -> torch.Tensor:
    return torch.ones(n_queries, n_keys, dtype=torch.bool)


def _no_padding(lengths: torch.Tensor, size: int, **options: Any) -> torch.Tensor:
    return torch.ones(len(lengths), 1, size, dtype=torch.bool)


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": SETTINGS, "seed": (0, 1, 2)}
    grid(run, command_line(__file__, __doc__, over, arguments), by_setting)


if __name__ == "__main__":
    main()

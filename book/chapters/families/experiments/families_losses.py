"""Chapter 14: one stack under other losses, rates and numbers of steps, on three seeds.

    python experiments/families_losses.py [--seeds 0 1 2] [--only "every token, 1200 steps" ...]

The stack and the sentences of `families_seeds.py`; 600 steps at a rate of 2e-3 unless the name of
the setting says otherwise. What reads from the left and is asked for

    every token         is the chapter's decoder-only model (600 steps at 2e-3: `families_seeds.py`)
    translation         is its control
    shuffled sources    is asked for the tokens of the translation and, in place of those of the
                        source, for those of another row's source: what it is to predict there is as
                        hard a loss, and there is no source to be learned
    sources a tenth     has targets in the source that count a tenth in the loss

and what is asked for a fraction of those targets, drawn anew for each batch ("31 % of every token"
has as many targets as the encoder-only model in 1,500 steps). "exact" is the fraction of test
sentences translated exactly; "scored", for few of all tokens, the fraction of first words, hidden,
that it finds by scoring in 100 rows.

What reads all of the row and is asked for hidden words: "gap" is the fraction of first words,
hidden, that it finds. "visible words too" hides as many, but has all words as targets.
"""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.families import families
from chapters.families.experiments.families_causes import Task, exact, gap, mean
from chapters.families.experiments.families_seeds import LR, N_SCORED
from lib.data import PAD, endless
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import OneStack
from measure.experiments import Run, by_setting, command_line, grid
from measure.records import read_results

STEPS, WARMUP, BATCH_SIZE = 600, 50, 32
Weighed = tuple[Tensor, Tensor]  # targets, and how much each counts


@dataclass(frozen=True)
class Setting:
    """What the stack is asked for: of the targets inside the source and of the others.

    sources   how much a target in the source counts, or "shuffled"
    fraction  how many of the targets are kept; of "encoder-only", how many words are hidden
    visible   whether the visible words of "encoder-only" are targets too
    """

    kind: str = "decoder-only"
    sources: float | str = 1.0
    fraction: float = 1.0
    visible: bool = False
    steps: int = STEPS
    lr: float = LR


ENCODER = partial(Setting, kind="encoder-only")
TRANSLATION = partial(Setting, sources=0.0)
SETTINGS = {
    "every token, 1200 steps": Setting(steps=1200),
    "every token, rate 0.001": Setting(lr=1e-3),
    "translation, rate 0.001": TRANSLATION(lr=1e-3),
    "shuffled sources": Setting(sources="shuffled"),
    "sources a tenth": Setting(sources=0.1),
    "15 % of every token": Setting(fraction=0.15),
    "31 % of every token": Setting(fraction=0.31),
    "15 % of the translation": TRANSLATION(fraction=0.15),
    "15 % hidden": ENCODER(fraction=0.15),
    "37.5 % hidden": ENCODER(fraction=0.375),
    "15 % hidden, visible words too": ENCODER(fraction=0.15, visible=True),
}


def asked(setting: Setting, rows: Tensor) -> tuple[Tensor, Weighed]:
    """What the model reads of these rows, its targets, and how much each counts."""
    if setting.kind == "encoder-only":
        inputs, targets = families.hide(rows, setting.fraction)
        if setting.visible:
            targets = torch.where(rows > families.EOS, rows, PAD)
        return inputs, (targets, (targets != PAD).float())
    inputs, targets = families.family_targets("decoder-only", rows)
    in_translation = families.family_targets("prefix", rows)[1] != PAD
    if setting.sources == "shuffled":
        other = targets.masked_fill(in_translation, PAD).roll(1, dims=0)
        targets = torch.where(in_translation | (targets == PAD), targets, other)
        weights = torch.ones(targets.shape)
    else:
        weights = torch.where(in_translation, 1.0, setting.sources)
    if setting.fraction < 1:
        weights = weights * (torch.rand(weights.shape) < setting.fraction)
    return inputs, (targets, weights * (targets != PAD))


def loss_of(model: nn.Module, rows: Tensor, *, setting: Setting) -> tuple[Tensor, Tensor]:
    inputs, (targets, weights) = asked(setting, rows)
    logits = model(inputs, families.family_mask(setting.kind, inputs))
    each = cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return (each * weights.flatten()).sum(), weights.sum()


def run(setting: str, seed: int) -> dict[str, float]:
    task, chosen = Task(), SETTINGS[setting]
    seed_everything(seed)
    model = task.new()
    stream = endless(task.pairs, task.vocab, task.vocab, BATCH_SIZE, seed=seed)
    schedule = cosine(chosen.steps, WARMUP)
    loss = partial(loss_of, setting=chosen)
    train(
        model, map(families.joined, stream), chosen.steps, chosen.lr, loss=loss, schedule=schedule
    )
    found = of_encoder if chosen.kind == "encoder-only" else of_decoder
    figures = found(task, model)
    if "% of every token" in setting:
        figures["scored"] = scored(task, model)
    return {name: round(value, 4) for name, value in figures.items()}


def of_encoder(task: Task, model: OneStack) -> dict[str, float]:
    return {"gap": gap(task, model)}


def of_decoder(task: Task, model: OneStack) -> dict[str, float]:
    said = families.translate_by_continuing(model, "decoder-only", task.test, task.vocab)
    return {"exact": exact(task, said)}


@torch.no_grad()
def scored(task: Task, model: OneStack) -> float:
    rows = [row[row != PAD] for row in task.rows[:N_SCORED]]
    right = [families.guess_by_scoring(model, row, 1).argmax() == row[1] for row in rows]
    return mean(torch.stack(right))


def record(runs: list[Run]) -> dict[str, Any]:
    return {"seeds": sorted({one["seed"] for one in runs}), "settings": by_setting(runs)}


def conclude(record: dict[str, Any]) -> None:
    """Assert what chapter 14 concludes, for every seed."""
    usual = read_results("families_seeds")["by_seed"]
    figures = {name: one.get("exact") for name, one in record["settings"].items()}
    gaps = {name: one["gap"] for name, one in record["settings"].items() if "gap" in one}
    assert set(figures["every token, 1200 steps"]) == {1.0}, "it is a matter of time"
    shuffled, as_it_is = figures["shuffled sources"], [one["decoder-only exact"] for one in usual]
    assert fmean(shuffled) < fmean(as_it_is), "with no source to learn it does no better"
    for seed, one in enumerate(usual):
        late, control = one["decoder-only exact"], one["asked less exact"]
        rates = [figures[f"{name}, rate 0.001"][seed] for name in ("translation", "every token")]
        assert rates[0] - rates[1] > control - late, "at half the rate the gap is larger"
        assert figures["sources a tenth"][seed] > 0.99, "sources that count little do no harm"
        assert figures["15 % of every token"][seed] < late / 2, "fewer targets, fewer right"
        assert figures["15 % of the translation"][seed] < control - 0.3, "here too"
        hidden = gaps["15 % hidden"][seed]
        assert gaps["15 % hidden, visible words too"][seed] > 1.5 * hidden, "the visible ones help"
    assert min(record["settings"]["31 % of every token"]["scored"]) > 0.97, "scoring needs few"


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": tuple(SETTINGS), "seed": (0, 1, 2)}
    recorded = grid(run, command_line(__file__, __doc__, over, arguments), record)
    if recorded:
        conclude(dict(recorded))


if __name__ == "__main__":
    main()

"""Chapter 8 on several seeds: positions beyond the training length, and what the sinusoids' use is.

    python experiments/positions_seeds.py [--seeds 0 1 2] [--steps 500]

The chapter trains seed 0 with the same settings: one layer, windows of 64 characters. It writes
results/positions_seeds.json, which the chapter loads. Each row holds the mean loss of
the last 50 steps, then the loss on the held-out text in each stretch of 64 positions of windows of
256, which start every 64 characters, so that all stretches judge nearly the same text.

Beside the five schemes: rotary with its slow pairs frozen in training, or with a base so small that
it has none; ALiBi with steep slopes; sinusoids whose training windows start at random positions;
and other tables of fixed vectors, with or without a shift matrix, with or without similar
neighbours. Five models are also trained for four times as many steps, and nine at a third of the
rate.

Some of the trained models are read once more without keys further back than 63 ("near keys") or
than 7 ("8 keys"), and rotary with all keys and its offsets clipped at 63: those of all pairs, of
the slow ones, of the fast ones. "heads" says of some tables, head by head, how much weight falls on
the five newest keys within and beyond the trained length, and beyond it on the last 14 trained
positions; and how much of the differences between the keys of a query the offset alone explains,
before training, within the trained length and over all 256 positions. At the end the chapter's
conclusions are asserted for every seed.
"""

import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.positions.controls import (
    TABLES,
    StartsAnywhere,
    clipped_offsets,
    freeze_slow_pairs,
    make_table,
)
from chapters.positions.heads import LAYER, explained_by_offset, weight_on
from lib.attention import attention_maps
from lib.masks import causal_mask, window_mask
from lib.notebook import seed_everything
from lib.positions import SCHEMES, Rotary
from lib.transformer import Config, LanguageModel
from measure.experiments import Run, command_line, grid
from tasks.characters import (
    character_vocabulary,
    loss_by_position,
    python_topics,
    train_on_text,
)

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0, "norm": "pre"}
LENGTH, LONGEST, LR = 64, 256, 6e-3
FROZEN = "rotary, slow pairs frozen"
SMALL, SMALL_BASE = "rotary, base 10", 10.0  # the longest wavelength is 47
STEEP, SLOPES = "alibi, steep slopes", (2, 1, 1 / 2, 1 / 4)
ANYWHERE = "sinusoidal, starts anywhere"
LONGER, TIMES = ", longer", 4
SLOWER, THIRD = ", a third of the rate", 1 / 3
MODELS = (
    *SCHEMES,
    FROZEN,
    SMALL,
    *TABLES[1:],
    STEEP,
    ANYWHERE,
    *(name + LONGER for name in ("none", "shuffled", "random rows", "sinusoidal", ANYWHERE)),
    *(name + SLOWER for name in (*SCHEMES, "random walk", "random rows", "shuffled", STEEP)),
)
NEAR_TOO = ("sinusoidal", "rotary", "alibi", SMALL, ANYWHERE, ANYWHERE + LONGER)
LOOKED_AT = ("sinusoidal", "random walk", "random rows")
Row = dict[str, Any]


class SmallBase(Config):
    """A configuration whose rotary positions have a small base."""

    def make_positions(self) -> Rotary:
        return Rotary(self.d_k, base=SMALL_BASE, max_length=self.max_length)


def make_model(name: str, n_characters: int) -> LanguageModel:
    scheme = name.partition(",")[0]
    config = (SmallBase if name == SMALL else Config)(
        n_characters,
        positions=scheme if scheme in SCHEMES else "sinusoidal",
        max_length=LONGEST,
        **SIZES,
    )
    model = LanguageModel(config)
    positions = model.decoder.positions
    name = name.removesuffix(LONGER).removesuffix(SLOWER)
    if name == FROZEN:
        freeze_slow_pairs(positions, LENGTH)
    elif name == STEEP:
        positions.slopes = torch.tensor(SLOPES)
    elif name == ANYWHERE:
        model.decoder.positions = StartsAnywhere(SIZES["d_model"], max_length=LONGEST)
    elif name in TABLES[1:]:
        positions.table = make_table(name, LONGEST, SIZES["d_model"], trained=LENGTH)
    return model


def nearest(n_keys_seen: int) -> Callable[..., torch.Tensor]:
    """A causal mask which hides all but the nearest keys, in place of `causal_mask`."""

    def mask(n_queries: int, n_keys: int, **options) -> torch.Tensor:
        near = window_mask(n_queries, n_keys_seen - 1, n_keys, **options)
        return causal_mask(n_queries, n_keys, **options) & near

    return mask


def measure(name: str, model: LanguageModel, held_out: torch.Tensor) -> Row:
    def stretches() -> list[float]:
        judged = loss_by_position(model, held_out, LONGEST, stride=LENGTH)
        return [round(x, 4) for x in judged.view(-1, LENGTH).mean(1).tolist()]

    row: Row = {"all keys": stretches()}
    if name in NEAR_TOO:
        with mock.patch("lib.transformer.causal_mask", nearest(LENGTH)):
            row["near keys"] = stretches()
    if name == "alibi":
        with mock.patch("lib.transformer.causal_mask", nearest(8)):
            row["8 keys"] = stretches()
    if name == "rotary":
        slow = freeze_slow_pairs(make_model(name, 5).decoder.positions, LENGTH)
        every = torch.ones_like(slow)
        for part, pairs in (("all", every), ("slow", slow), ("fast", ~slow)):
            with clipped_offsets(LENGTH - 1, pairs):
                row[f"{part} pairs clipped"] = stretches()
    if name == SMALL:
        every = torch.ones(SIZES["d_model"] // SIZES["n_heads"] // 2, dtype=torch.bool)
        with clipped_offsets(LENGTH - 1, every, base=SMALL_BASE):
            row["all pairs clipped"] = stretches()
    return row


def maps_of(model: LanguageModel, held_out: torch.Tensor) -> torch.Tensor:
    return attention_maps(model.eval(), held_out.unfold(0, LONGEST, LONGEST))[LAYER]


def look_at_heads(maps: torch.Tensor) -> Row:
    """Where each head looks, and how much of it the offset alone explains."""
    newest = nearest(5)(LONGEST, LONGEST)
    end = torch.zeros(LONGEST, LONGEST, dtype=torch.bool)
    end[:, 50:LENGTH] = True
    return {
        "newest inside": _rounded(weight_on(maps, newest, range(20, LENGTH))),
        "newest beyond": _rounded(weight_on(maps, newest, range(80, LONGEST))),
        "end beyond": _rounded(weight_on(maps, end, range(80, 2 * LENGTH))),
        "offset inside": _rounded(explained_by_offset(maps[..., :LENGTH, :LENGTH])),
        "offset everywhere": _rounded(explained_by_offset(maps)),
    }


def _rounded(numbers: torch.Tensor) -> list[float]:
    return [round(x, 4) for x in numbers.tolist()]


def conclude(models: dict[str, list[Row]]) -> None:
    """Assert what chapter 8 concludes, seed by seed."""
    n_seeds = len(models["rotary"])
    for seed in range(n_seeds):
        of_seed = {name: rows[seed] for name, rows in models.items()}
        inside, after, _, end = (
            {name: row["all keys"][i] for name, row in of_seed.items()} for i in range(4)
        )
        for scheme in ("learned", "sinusoidal"):
            assert after[scheme] > inside[scheme] + 0.5, "fails at once beyond the training length"
        assert after["rotary"] < inside["rotary"] + 0.3, "rotary holds for a while"
        assert end["rotary"] > inside["rotary"] + 0.5, "and fails at offsets it has not seen"
        assert of_seed["rotary"]["near keys"][-1] < inside["rotary"] + 0.1, "near keys repair it"
        assert end["alibi"] < inside["alibi"] + 0.1, "ALiBi stays flat"
        assert inside["shuffled"] > inside["sinusoidal"] + 0.2, "regular rows help inside"
        assert min(inside[s] for s in SCHEMES) == inside["rotary"], "rotary is best of the five"
        assert abs(inside[STEEP] - inside["rotary"]) < 0.03, "steep slopes make ALiBi as good"
        pairs = zip(of_seed["alibi"]["8 keys"], of_seed["alibi"]["all keys"], strict=True)
        assert max(abs(few - every) for few, every in pairs) < 0.02, "ALiBi needs 8 keys"
        assert inside["random walk"] < inside["sinusoidal"] + 0.05, "similar neighbours suffice"
        assert inside["random rows"] < inside["none"], "unrelated rows are worth something"
        order = ("sinusoidal", "random rows", "shuffled", "none")
        late = [inside[name + LONGER] for name in order]
        assert late == sorted(late), "later shuffled rows help too, unrelated ones more"
        near = of_seed[ANYWHERE]["near keys"]
        assert max(near) < near[0] + 0.1, "with no row new, near keys repair the sinusoids too"
        late = of_seed[ANYWHERE + LONGER]
        assert max(late["near keys"]) == late["near keys"][0], "later as well"
        assert late["all keys"][2] > late["all keys"][0] + 1, "but new distances break them"
        assert inside[SMALL] < inside["rotary"] + 0.03, "a base of 10 is as good inside"
        assert inside[SMALL] + 0.35 < end[SMALL] < end["rotary"] - 0.5, "and fails by less"
        clipped = of_seed[SMALL]["all pairs clipped"]
        assert max(clipped) < inside[SMALL] + 0.02, "through offsets, not the number of keys"
        slower = {name: inside[name + SLOWER] for name in SCHEMES}
        assert min(slower.values()) == slower["rotary"], "rotary is best at a third of the rate"
        assert min(after[s + SLOWER] for s in ("learned", "sinusoidal")) > after["none" + SLOWER]


@cache
def data() -> tuple[int, torch.Tensor, torch.Tensor]:
    """The size of the vocabulary, the text to train on and the held-out one."""
    vocabulary = character_vocabulary()
    text, held_out = (torch.tensor(vocabulary.encode(list(t))) for t in python_topics())
    return len(vocabulary), text, held_out


def run(model: str, seed: int, steps: int) -> Row:
    n_characters, text, held_out = data()
    seed_everything(seed)
    net = make_model(model, n_characters)
    heads: Row = {}
    if model in LOOKED_AT:
        untrained = maps_of(net, held_out)[..., :LENGTH, :LENGTH]
        heads["offset before"] = _rounded(explained_by_offset(untrained))
    steps *= TIMES if model.endswith(LONGER) else 1
    lr = LR * (THIRD if model.endswith(SLOWER) else 1)
    losses = train_on_text(net, text, steps, lr, length=LENGTH, seed=seed)
    row = {"training": round(sum(losses[-50:]) / 50, 4), **measure(model, net, held_out)}
    if model in LOOKED_AT:
        row["heads"] = heads | look_at_heads(maps_of(net, held_out))
    return row


def record(runs: list[Run], steps: int) -> dict[str, Any]:
    """For each model one row for each seed, and what its heads look at, if that was measured."""
    models: dict[str, list[Row]] = {}
    heads: dict[str, list[Row]] = {}
    for one in runs:
        row = {name: x for name, x in one.items() if name not in ("model", "seed", "heads")}
        models.setdefault(one["model"], []).append(row)
        if "heads" in one:
            heads.setdefault(one["model"], []).append(one["heads"])
    seeds = list(dict.fromkeys(one["seed"] for one in runs))
    return {
        "seeds": seeds,
        "steps": steps,
        "longer": TIMES * steps,
        "trained length": LENGTH,
        "models": models,
        "heads": heads,
    }


def main(arguments: list[str] | None = None) -> None:
    over = {"model": MODELS, "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, steps=500)
    steps = given.options.steps
    recorded = grid(partial(run, steps=steps), given, partial(record, steps=steps))
    if recorded:
        conclude(recorded["models"])


if __name__ == "__main__":
    main()

"""Chapter 8 on several seeds: positions beyond the training length, and what the sinusoids' use is.

    python experiments/positions_seeds.py [--seeds 0 1 2] [--steps 500]

The chapter trains seed 0 with the same settings: one layer, windows of 64 characters. It writes
results/positions_seeds.json, which the chapter loads. Each row holds the mean loss of
the last 50 steps, then the loss on the held-out text in each stretch of 64 positions of windows of
256, which start every 64 characters, so that all stretches judge nearly the same text.

Beside the five schemes: rotary with its slow pairs frozen in training, and other tables of fixed
vectors, with or without a shift matrix, with or without similar neighbours. Three of the trained
models are read once more without keys further back than 63 ("near keys"), and rotary with all keys
and its offsets clipped at 63: those of all pairs, of the slow ones, of the fast ones. At the end
the chapter's conclusions are asserted for every seed.
"""

import argparse
import sys
import time
from pathlib import Path
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from chapters.positions.controls import TABLES, clipped_offsets, freeze_slow_pairs, make_table
from lib.masks import causal_mask, window_mask
from lib.notebook import seed_everything
from lib.positions import SCHEMES
from lib.transformer import Config, LanguageModel
from measure.records import write_results
from tasks.characters import (
    character_vocabulary,
    loss_by_position,
    python_topics,
    train_on_text,
)

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0, "norm": "pre"}
LENGTH, LONGEST, LR = 64, 256, 6e-3
FROZEN = "rotary, slow pairs frozen"
MODELS = (*SCHEMES, FROZEN, *TABLES[1:])
Row = dict[str, float | list[float]]


def make_model(name: str, n_characters: int) -> LanguageModel:
    scheme = "rotary" if name == FROZEN else name if name in SCHEMES else "sinusoidal"
    model = LanguageModel(Config(n_characters, positions=scheme, max_length=LONGEST, **SIZES))
    if name == FROZEN:
        freeze_slow_pairs(model.decoder.positions, LENGTH)
    elif name in TABLES[1:]:
        table = make_table(name, LONGEST, SIZES["d_model"], trained=LENGTH)
        model.decoder.positions.table = table
    return model


def near_and_causal(n_queries: int, n_keys: int, **options) -> torch.Tensor:
    return causal_mask(n_queries, n_keys, **options) & window_mask(
        n_queries, LENGTH - 1, n_keys, **options
    )


def measure(name: str, model: LanguageModel, held_out: torch.Tensor) -> Row:
    def stretches() -> list[float]:
        judged = loss_by_position(model, held_out, LONGEST, stride=LENGTH)
        return [round(x, 4) for x in judged.view(-1, LENGTH).mean(1).tolist()]

    row: Row = {"all keys": stretches()}
    if name in ("sinusoidal", "rotary", "alibi"):
        with mock.patch("lib.transformer.causal_mask", near_and_causal):
            row["near keys"] = stretches()
    if name == "rotary":
        slow = freeze_slow_pairs(make_model(name, 5).decoder.positions, LENGTH)
        every = torch.ones_like(slow)
        for part, pairs in (("all", every), ("slow", slow), ("fast", ~slow)):
            with clipped_offsets(LENGTH - 1, pairs):
                row[f"{part} pairs clipped"] = stretches()
    return row


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
        assert min(inside[s] for s in SCHEMES) == inside["rotary"], "rotary is best inside"
    print("every conclusion holds on each seed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    given = parser.parse_args()
    vocabulary = character_vocabulary()
    text, held_out = (torch.tensor(vocabulary.encode(list(t))) for t in python_topics())
    models: dict[str, list[Row]] = {}
    for name in given.models:
        models[name] = []
        for seed in given.seeds:
            seed_everything(seed)
            model = make_model(name, len(vocabulary))
            start = time.process_time()
            losses = train_on_text(model, text, given.steps, LR, length=LENGTH, seed=seed)
            seconds = time.process_time() - start
            row = {"training": round(sum(losses[-50:]) / 50, 4), **measure(name, model, held_out)}
            models[name].append(row)
            print(f"{name}, seed {seed}, {seconds:.0f} s", row, flush=True)
    record = {
        "seeds": given.seeds,
        "steps": given.steps,
        "trained length": LENGTH,
        "models": models,
    }
    write_results(Path(__file__).stem, record)
    if set(given.models) == set(MODELS):
        conclude(models)


if __name__ == "__main__":
    main()

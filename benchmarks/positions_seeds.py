"""Chapter 8 on several seeds: the loss of each scheme of positions beyond the training length.

    python benchmarks/positions_seeds.py [--seeds 0 1 2] [--steps 500]

The chapter trains seed 0 with the same settings: one layer, windows of 64 characters. Each row
gives the mean loss of the last 50 steps, then the loss on the held-out text in each stretch of 64
positions of windows of 256, which start every 64 characters, so that all stretches judge nearly
the same text. "shuffled" is the sinusoidal table with its rows in a random order, the first 64
among themselves: the same vectors, but no shift matrix leads from one to another. The last column
is the last stretch once more, with no key further back than in training. At the end the chapter's
conclusions are asserted for every seed.
"""

import argparse
import sys
import time
from pathlib import Path
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from kit.positions.characters import (
    character_vocabulary,
    loss_by_position,
    python_topics,
    train_on_text,
)
from lib.masks import causal_mask, window_mask
from lib.notebook import seed_everything
from lib.positions import SCHEMES
from lib.transformer import Config, LanguageModel

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0, "norm": "pre"}
LENGTH, LONGEST, LR = 64, 256, 6e-3


def make_model(scheme: str, n_characters: int) -> LanguageModel:
    base = "sinusoidal" if scheme == "shuffled" else scheme
    model = LanguageModel(Config(n_characters, positions=base, max_length=LONGEST, **SIZES))
    if scheme == "shuffled":
        table = model.decoder.positions.table
        order = torch.cat([torch.randperm(LENGTH), LENGTH + torch.randperm(LONGEST - LENGTH)])
        model.decoder.positions.table = table[order]
    return model


def near_and_causal(n_queries: int, n_keys: int, **options) -> torch.Tensor:
    return causal_mask(n_queries, n_keys, **options) & window_mask(
        n_queries, LENGTH - 1, n_keys, **options
    )


def conclude(rows: dict[tuple[str, int], list[float]], seeds: list[int]) -> None:
    """Assert what chapter 8 concludes, seed by seed. A row: training, four stretches, near keys."""
    for seed in seeds:
        of_seed = {scheme: rows[scheme, seed] for scheme in (*SCHEMES, "shuffled")}
        inside, after, end = ({s: row[i] for s, row in of_seed.items()} for i in (1, 2, 4))
        for scheme in ("learned", "sinusoidal"):
            assert after[scheme] > inside[scheme] + 0.5, "fails at once beyond the training length"
        assert after["rotary"] < inside["rotary"] + 0.3, "rotary holds for a while"
        assert end["rotary"] > inside["rotary"] + 0.5, "and fails at offsets it has not seen"
        assert rows["rotary", seed][-1] < inside["rotary"] + 0.1, "near keys repair it"
        assert end["alibi"] < inside["alibi"] + 0.1, "ALiBi stays flat"
        assert inside["shuffled"] > inside["sinusoidal"] + 0.2, "regular rows help inside"
        assert min(inside.values()) == inside["rotary"], "rotary is best inside"
    print("every conclusion holds on seeds", *seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--schemes", nargs="+", default=[*SCHEMES, "shuffled"])
    arguments = parser.parse_args()
    vocabulary = character_vocabulary()
    text, held_out = (torch.tensor(vocabulary.encode(list(t))) for t in python_topics())
    stretches = [f"{start}-{start + LENGTH}" for start in range(0, LONGEST, LENGTH)]
    print("| scheme | seed | CPU s | training | " + " | ".join(stretches) + " | near keys |")
    print("|" + " --- |" * (5 + len(stretches)))
    rows: dict[tuple[str, int], list[float]] = {}
    for scheme in arguments.schemes:
        for seed in arguments.seeds:
            seed_everything(seed)
            model = make_model(scheme, len(vocabulary))
            start = time.process_time()
            losses = train_on_text(model, text, arguments.steps, LR, length=LENGTH, seed=seed)
            seconds = time.process_time() - start
            judged = loss_by_position(model, held_out, LONGEST, stride=LENGTH)
            with mock.patch("lib.transformer.causal_mask", near_and_causal):
                near = loss_by_position(model, held_out, LONGEST, stride=LENGTH)
            figures = [sum(losses[-50:]) / 50, *judged.view(-1, LENGTH).mean(1).tolist()]
            figures.append(near[-LENGTH:].mean().item())
            rows[scheme, seed] = figures
            shown = " | ".join(f"{x:.2f}" for x in figures)
            print(f"| {scheme} | {seed} | {seconds:.1f} | {shown} |", flush=True)
    if set(arguments.schemes) == {*SCHEMES, "shuffled"}:
        conclude(rows, arguments.seeds)


if __name__ == "__main__":
    main()

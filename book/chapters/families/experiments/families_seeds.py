"""Chapter 14 on several seeds: what each family can do, at equal parameters.

    python experiments/families_seeds.py [--seeds 0 1 2] [--gap-steps 1500] [--steps 600]

Sentences of one item. Four models of 185,000 parameters: one stack of 5 layers as encoder-only,
decoder-only and prefix model, and an encoder-decoder of 2 + 2. A row gives, for the first token of
each test sentence hidden: the fraction that each model guesses; the most that any model can guess
which reads the left side alone; and the fraction of 100 sentences on which the decoder-only model
is right when it scores every word of the vocabulary there, beside the encoder-only model's on
these. Then the fraction of test sentences that are translated exactly after --steps steps, by the
decoder-only model also if the loss asks for the translation alone ("asked less"), and the seconds
of each training. "head" is the fraction of hidden words from which the best head of the
encoder-only model attends most to the word's translation, beside that of an untrained model. At
the end the chapter's
conclusions are asserted for every seed, and the figures recorded in
`results/families_seeds.json`, which the chapter loads.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.families import families
from lib.attention import attention_maps
from lib.data import endless, make_batch
from lib.decoding import translate
from lib.masks import causal_mask
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, OneStack, Transformer
from measure.experiments import Run, command_line, grid
from tasks.translation import translation_pairs

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "dropout": 0.0, "norm": "pre"}
LR, N_SCORED = 2e-3, 100


def timed(work: Callable) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def aligned(model: families.OneStack, rows: torch.Tensor) -> float:
    """The best head: how often its largest weight at the gap is on the translation's first word."""
    prefix = (rows == 2).int().argmax(dim=1) + 1
    gaps = rows.clone()
    gaps[:, 1] = families.MASK
    maps = attention_maps(model, gaps, families.family_mask("encoder-only", gaps))
    best = torch.stack([m[:, :, 1].argmax(dim=-1) == prefix[:, None] for m in maps.values()])
    return best.float().mean(dim=1).max().item()


def run(seed: int, gap_steps: int, steps: int) -> dict[str, float]:
    pairs, test = translation_pairs(12_000, 1_000, max_items=1)
    vocab = families.joint_vocabulary(pairs)
    rows = families.joined(make_batch(test, vocab, vocab))
    first, row, models = rows[:, 1], {}, {}
    row["ceiling"] = first.bincount().max().item() / len(rows)
    for kind in ("encoder-only", "decoder-only", "prefix", "asked less"):
        seed_everything(seed)
        models[kind] = model = OneStack(Config(len(vocab), n_layers=5, positions="rotary", **SIZES))
        used = "prefix" if kind == "asked less" else kind
        n = gap_steps if kind == "encoder-only" else steps
        mask = families.family_mask
        if kind == "asked less":
            mask = lambda kind, rows: causal_mask(rows.shape[1])  # noqa: E731
        with mock.patch.object(families, "family_mask", mask):
            row[f"{kind} s"] = timed(
                lambda: families.train_family(model, used, pairs, vocab, n, LR, seed=seed)  # noqa: B023
            )
            if kind != "encoder-only":
                said = families.translate_by_continuing(model, used, test, vocab)
                row[f"{kind} exact"] = exact_match(said, [list(p.target) for p in test])
        if kind in ("encoder-only", "decoder-only"):
            guessed = families.guess(model, kind, rows, 1).argmax(dim=-1)
            row[f"{kind} gap"] = (guessed == first).float().mean().item()
    real = [one[one != 0] for one in rows[:N_SCORED]]
    scored = [families.guess_by_scoring(models["decoder-only"], one, 1).argmax() for one in real]
    row["scored gap"] = (torch.stack(scored) == first[:N_SCORED]).float().mean().item()
    few = families.guess(models["encoder-only"], "encoder-only", rows[:N_SCORED], 1).argmax(dim=-1)
    row["encoder-only gap, the same"] = (few == first[:N_SCORED]).float().mean().item()
    plain = torch.tensor([pair.target[0] != "il" for pair in test])  # "il y a deux": not the first
    row["head"] = aligned(models["encoder-only"], rows[plain])
    row["fresh head"] = aligned(OneStack(models["prefix"].config).eval(), rows[plain])
    seed_everything(seed)
    model = Transformer(Config(len(vocab), n_layers=2, positions="rotary", **SIZES))
    stream = endless(pairs, vocab, vocab, 32, seed=seed)
    row["encoder-decoder s"] = timed(
        lambda: train(model, stream, steps, LR, schedule=cosine(steps, 50))
    )
    said = translate(model, test, vocab, vocab)
    row["encoder-decoder exact"] = exact_match(said, [list(p.target) for p in test])
    return {name: round(value, 4) for name, value in row.items()}


def conclude(row: dict[str, float]) -> None:
    """Assert what chapter 14 concludes, for one seed."""
    assert row["decoder-only gap"] <= row["ceiling"], "the left side alone does not say it"
    assert row["encoder-only gap"] > 5 * row["ceiling"], "both sides do"
    assert row["scored gap"] > 5 * row["ceiling"], "a decoder-only model can, by scoring"
    assert row["scored gap"] >= row["encoder-only gap, the same"], "no worse than the encoder"
    assert row["head"] > 1.5 * row["fresh head"], "a head attends to the hidden word's partner"
    for kind in ("prefix", "encoder-decoder", "asked less"):
        assert row[f"{kind} exact"] > 0.97, f"{kind} translates"
    assert row["decoder-only exact"] <= row["asked less exact"], "asked for all, it is no better"


def record(runs: list[Run], options: dict[str, int]) -> dict[str, Any]:
    rows = [{name: x for name, x in one.items() if name != "seed"} for one in runs]
    steps = {"steps": options["steps"], "gap_steps": options["gap_steps"], "scored": N_SCORED}
    return {"seeds": [one["seed"] for one in runs], **steps, "by_seed": rows}


def main(arguments: list[str] | None = None) -> None:
    over = {"seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, gap_steps=1500, steps=600)
    options = vars(given.options)
    recorded = grid(partial(run, **options), given, partial(record, options=options))
    for row in recorded["by_seed"] if recorded else ():
        conclude(row)


if __name__ == "__main__":
    main()

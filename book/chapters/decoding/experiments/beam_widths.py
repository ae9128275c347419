"""Chapter 12 on several seeds: what beams of several widths do for a model that is often unsure.

    python experiments/beam_widths.py [--seeds 0 1 2] [--steps 300] [--sentences 300]

The published model's sizes and data, but `--steps` updates in place of 2,000: it gets about a third
of the held-out sentences right, of the lengths that it was trained on. Each beam decodes the same
sentences, without a length penalty and with one. For each seed and penalty, one list each, by beam:

    bleu      BLEU of all sentences
    accuracy  fraction translated exactly
    length    tokens of all translations / tokens of all references
    missed    fraction of sentences whose reference scores higher than what the search found

The result is recorded in `results/beam_widths.json`, which the chapter loads.
"""

import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from lib.data import PAD, Pair, Vocabulary, endless, make_batch
from lib.decoding import length_penalty, translate
from lib.metrics import bleu, exact_match
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, Transformer
from measure.experiments import Run, command_line, grid
from tasks.translation import translation_pairs

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2, "dropout": 0.0}
CHOICES = {"norm": "pre", "positions": "rotary", "tied": False}
LR, BATCH_SIZE = 4e-3, 32
BEAMS, ALPHAS = (1, 2, 4, 8, 16, 32), (0.0, 0.6)
MAX_LENGTH = 60
Vocabularies = tuple[Vocabulary, Vocabulary]


@torch.no_grad()
def scores(
    model: Transformer, pairs: list[Pair], vocabularies: Vocabularies, alpha: float
) -> torch.Tensor:
    """The score of each pair's target, as beam search computes it."""
    batch = make_batch(pairs, *vocabularies)
    logits = model(batch.source, batch.source_lengths, batch.target_in)
    log_p = logits.log_softmax(-1).gather(-1, batch.target_out.unsqueeze(-1)).squeeze(-1)
    real = batch.target_out != PAD
    lengths = real.sum(1).tolist()
    return (log_p * real).sum(1) / torch.tensor([length_penalty(n, alpha) for n in lengths])


def measure(
    model: Transformer, test: list[Pair], vocabularies: Vocabularies, alpha: float
) -> dict[str, list[float]]:
    """The four figures, one number for each beam."""
    found: dict[str, list[float]] = {"bleu": [], "accuracy": [], "length": [], "missed": []}
    wanted = [pair.target for pair in test]
    best = scores(model, test, vocabularies, alpha)
    for beam in BEAMS:
        how = {"max_length": MAX_LENGTH, "beam": beam, "alpha": alpha}
        said = translate(model, test, *vocabularies, **how)
        spoken = [Pair(pair.source, tuple(words)) for pair, words in zip(test, said, strict=True)]
        missed = best > scores(model, spoken, vocabularies, alpha) + 1e-4
        found["bleu"].append(round(bleu(said, wanted).score, 2))
        found["accuracy"].append(round(exact_match(said, wanted), 4))
        found["length"].append(round(sum(map(len, said)) / sum(map(len, wanted)), 4))
        found["missed"].append(round(missed.float().mean().item(), 4))
    return found


@cache
def data() -> tuple[list[Pair], list[Pair], Vocabularies]:
    training, test = translation_pairs()
    source, target = (Vocabulary.from_sentences(pair[side] for pair in training) for side in (0, 1))
    return training, test, (source, target)


def run(seed: int, steps: int, sentences: int) -> dict[str, dict[str, list[float]]]:
    """Train one model; its figures with each of the penalties."""
    torch.set_num_threads(1)
    training, test, vocabularies = data()
    seed_everything(seed)
    model = Transformer(Config(*map(len, vocabularies), **SIZES, **CHOICES))
    stream = endless(training, *vocabularies, BATCH_SIZE, seed=seed)
    train(model, stream, steps, LR, schedule=cosine(steps))
    model.eval()
    return {str(alpha): measure(model, test[:sentences], vocabularies, alpha) for alpha in ALPHAS}


def record(runs: list[Run], facts: dict[str, Any]) -> dict[str, Any]:
    seeds, by_alpha = [one["seed"] for one in runs], map(str, ALPHAS)
    figures = {alpha: [one[alpha] for one in runs] for alpha in by_alpha}
    return {"seeds": seeds, **facts, "beams": BEAMS, "by_alpha": figures}


def main(arguments: list[str] | None = None) -> None:
    over = {"seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, steps=300, sentences=300)
    facts = vars(given.options)
    grid(partial(run, **facts), given, partial(record, facts=facts))


if __name__ == "__main__":
    main()

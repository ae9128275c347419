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

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from lib.data import PAD, Pair, Vocabulary, endless, make_batch
from lib.decoding import length_penalty, translate
from lib.metrics import bleu, exact_match
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, Transformer
from measure.records import write_results
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--sentences", type=int, default=300)
    given = parser.parse_args()
    torch.set_num_threads(1)
    training, test = translation_pairs()
    test = test[: given.sentences]
    vocabularies = (
        Vocabulary.from_sentences(pair.source for pair in training),
        Vocabulary.from_sentences(pair.target for pair in training),
    )
    by_alpha: dict[str, list[dict[str, list[float]]]] = {str(alpha): [] for alpha in ALPHAS}
    for seed in given.seeds:
        seed_everything(seed)
        model = Transformer(Config(*map(len, vocabularies), **SIZES, **CHOICES))
        stream = endless(training, *vocabularies, BATCH_SIZE, seed=seed)
        train(model, stream, given.steps, LR, schedule=cosine(given.steps))
        model.eval()
        for alpha in ALPHAS:
            figures = measure(model, test, vocabularies, alpha)
            by_alpha[str(alpha)].append(figures)
            for name, numbers in figures.items():
                row = " ".join(f"{number:8.3f}" for number in numbers)
                print(f"seed {seed}, alpha {alpha}, {name:9}{row}", flush=True)
    facts = {"seeds": given.seeds, "steps": given.steps, "sentences": len(test), "beams": BEAMS}
    write_results("beam_widths", facts | {"by_alpha": by_alpha})


if __name__ == "__main__":
    main()

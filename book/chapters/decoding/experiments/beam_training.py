"""Chapter 12, more training: is what beams do a matter of how sure the model is?

    python experiments/beam_training.py [--seeds 0 1 2] [--only "300 updates"]

The models of `beam_widths.py`, which have 300 updates, beside others after 1,000, nearly as good as
the published one. For each training, a list with one item for each seed:

    found    for each search, on the same held-out sentences of one to three items: bleu, accuracy,
             length and missed as in `beam_widths.py`; and, against greedy decoding, the fractions
             of sentences that are shorter, longer, or have a higher or a lower log p
    lists    for greedy decoding and a beam of 4, on lists of one to six items: the fraction
             translated exactly, BLEU, and the fraction of all lists that are a search error
    differ   the fraction of these lists in which the two searches differ
    sure     the mean probability of a token of the greedy translation of lists with three items,
             which training had, and with four

The result is recorded in `results/beam_training.json`, which the chapter loads.
"""

import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.decoding.experiments.beam_widths import (
    BATCH_SIZE,
    CHOICES,
    LR,
    MAX_LENGTH,
    SIZES,
    Vocabularies,
    data,
    scores,
)
from lib.data import Pair, endless
from lib.decoding import translate
from lib.metrics import bleu, exact_match
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, Transformer
from measure.experiments import Run, command_line, grid
from tasks.translation import translation_pairs

TRAININGS = {"300 updates": 300, "1,000 updates": 1000}
SEARCHES = ((1, 0.0), (2, 0.0), (4, 0.0), (32, 0.0), (32, 1.0))
CLOSE, MOST_LISTED = 1e-4, 120


def trained(training: str, seed: int) -> Transformer:
    torch.set_num_threads(1)
    steps = TRAININGS[training]
    pairs, _, vocabularies = data()
    seed_everything(seed)
    model = Transformer(Config(*map(len, vocabularies), **SIZES, **CHOICES))
    stream = endless(pairs, *vocabularies, BATCH_SIZE, seed=seed)
    train(model, stream, steps, LR, schedule=cosine(steps))
    return model.eval()


def spoken(pairs: list[Pair], said: list[list[str]]) -> list[Pair]:
    return [Pair(pair.source, tuple(words)) for pair, words in zip(pairs, said, strict=True)]


def fraction(which: torch.Tensor) -> float:
    return round(which.float().mean().item(), 4)


def by_search(
    model: Transformer, test: list[Pair], vocabularies: Vocabularies
) -> dict[str, dict[str, float]]:
    wanted = [pair.target for pair in test]
    found: dict[str, dict[str, float]] = {}
    first = torch.empty(0)  # log p of what greedy decoding says, and its lengths
    lengths = torch.empty(0)
    for beam, alpha in SEARCHES:
        how = {"max_length": MAX_LENGTH, "beam": beam, "alpha": alpha}
        said = translate(model, test, *vocabularies, **how)
        pairs = spoken(test, said)
        log_p, length = scores(model, pairs, vocabularies, 0.0), torch.tensor([*map(len, said)])
        if not found:
            first, lengths = log_p, length
        missed = scores(model, test, vocabularies, alpha) > CLOSE + scores(
            model, pairs, vocabularies, alpha
        )
        found[f"beam {beam}, alpha {alpha:g}"] = {
            "bleu": round(bleu(said, wanted).score, 2),
            "accuracy": round(exact_match(said, wanted), 4),
            "length": round(sum(map(len, said)) / sum(map(len, wanted)), 4),
            "missed": fraction(missed),
            "shorter": fraction(length < lengths),
            "longer": fraction(length > lengths),
            "higher": fraction(log_p > first + CLOSE),
            "lower": fraction(log_p < first - CLOSE),
        }
    return found


def of_lists(
    model: Transformer, lists: list[Pair], vocabularies: Vocabularies
) -> tuple[dict[str, dict[str, float]], float]:
    wanted = [pair.target for pair in lists]
    right = scores(model, lists, vocabularies, 0.6)
    said = {
        name: translate(model, lists, *vocabularies, max_length=MOST_LISTED, beam=beam)
        for name, beam in (("greedy", 1), ("beam 4", 4))
    }
    found = {}
    for name, sentences in said.items():
        own = scores(model, spoken(lists, sentences), vocabularies, 0.6)
        found[name] = {
            "exact": round(exact_match(sentences, wanted), 4),
            "bleu": round(bleu(sentences, wanted).score, 2),
            "search_errors": fraction(right > own + CLOSE),
        }
    pairs = zip(*said.values(), strict=True)
    return found, fraction(torch.tensor([one != two for one, two in pairs]))


def sureness(model: Transformer, lists: list[Pair], vocabularies: Vocabularies) -> float:
    """exp of the mean log-probability of a token that the model itself says, EOS included."""
    said = translate(model, lists, *vocabularies, max_length=MOST_LISTED)
    log_p = scores(model, spoken(lists, said), vocabularies, 0.0).sum().item()
    return round(math.exp(log_p / sum(len(words) + 1 for words in said)), 4)


def run(training: str, seed: int, sentences: int, lists: int) -> dict[str, Any]:
    """Train one model; its figures."""
    _, test, vocabularies = data()
    model = trained(training, seed)
    longer = translation_pairs(200, lists, seed=5, max_items=6)[1]
    items = {n: [pair for pair in longer if n_items(pair) == n] for n in (3, 4)}
    figures, differ = of_lists(model, longer, vocabularies)
    return {
        "found": by_search(model, test[:sentences], vocabularies),
        "lists": figures,
        "differ": differ,
        "sure": {str(n): sureness(model, some, vocabularies) for n, some in items.items()},
    }


def n_items(pair: Pair) -> int:
    """How many items a source lists: "a", "a and b", "a, b, and c"; a date has two commas."""
    dates = sum(word.endswith("day") for word in pair.source)
    commas = pair.source.count(",") - 2 * dates
    return commas + 1 if commas else 1 + pair.source.count("and")


def record(runs: list[Run], facts: dict[str, Any]) -> dict[str, Any]:
    figures: dict[str, dict[str, Any]] = {name: {} for name in TRAININGS}
    for one in runs:
        for name in ("found", "lists", "differ", "sure"):
            figures[one["training"]].setdefault(name, []).append(one[name])
    return {"seeds": sorted({one["seed"] for one in runs}), **facts, "trainings": figures}


def main(arguments: list[str] | None = None) -> None:
    over = {"training": TRAININGS, "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments, sentences=150, lists=300)
    facts = vars(given.options)
    grid(partial(run, **facts), given, partial(record, facts=facts))


if __name__ == "__main__":
    main()

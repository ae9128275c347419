"""What 8-bit parameters change: the same sentences translated with and without.

    python benchmarks/eight_bits.py [--only published medium base] [--steps 400] ...

The published model, and two that are trained on the book's translation task here, translate the
first 500 held-out sentences greedily, and the first 100 of them with a beam of 4, one by one: in
float32, and with their matrices in 8 bits. The two have the sizes "medium" and "base" of
`make bench`, with the words of the task. Recorded in results/eight_bits.json: how many translations
have the same tokens, how many are the reference, BLEU, and the largest change of a score with the
beam.
"""

import statistics
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))
sys.path.insert(0, str(Path(__file__).parent))

import torch
from sizes import DECODED as SIZES
from torch import Tensor

from lib.data import PAD, Pair, Vocabulary, endless, make_batch
from lib.decoding import beam_search, greedy
from lib.metrics import bleu, exact_match
from lib.notebook import seed_everything
from lib.training import cosine, low_precision, train
from lib.transformer import Config, Transformer
from measure.experiments import command_line, grid
from tasks.translation import translation_pairs
from train.bits import EightBitTransformer
from train.checkpoints import load_published

MODELS = ("published", "medium", "base")
RATES = {"medium": 1e-3, "base": 4e-4}
LIKE_PUBLISHED = {"norm": "pre", "positions": "rotary", "dropout": 0.0, "tied": False}
WAYS = {"greedy": (None, 500), "beam 4": (4, 100)}  # beam, sentences
MOST = 60  # tokens of a translation


def run(model: str, **training: Any) -> dict[str, Any]:
    """Translate with one model in both ways, once it is trained."""
    _, test = translation_pairs()
    found: dict[str, Any] = {}
    if model == "published":
        plain, *vocabs = load_published()
    else:
        plain, vocabs, found["trained"] = trained(model, **training)
    models = {"float32": plain, "8 bits": EightBitTransformer(plain)}
    found["parameters"] = sum(p.numel() for p in plain.parameters())
    for way, (beam, sentences) in WAYS.items():
        pairs = test[:sentences]
        said = {bits: translations(each, pairs, vocabs, beam) for bits, each in models.items()}
        (tokens, scores), (others, other_scores) = said.values()
        found[way] = {
            "sentences": sentences,
            "same": sum(a == b for a, b in zip(tokens, others, strict=True)),
            "change of score": round(float((scores - other_scores).abs().max()), 4),
        }
        wanted = [pair.target for pair in pairs]
        for bits, (rows, _) in said.items():
            words = [vocabs[1].decode(row) for row in rows]
            found[way][bits] = {
                "exact": round(exact_match(words, wanted), 4),
                "bleu": round(bleu(words, wanted).score, 2),
            }
    return found


def trained(
    name: str, steps: int, warmup: int, batch_size: int
) -> tuple[Transformer, list[Vocabulary], dict[str, float]]:
    """Train a model of this size, with the words of the task."""
    training, _ = translation_pairs()
    vocabs = [Vocabulary.from_sentences(pair[side] for pair in training) for side in (0, 1)]
    seed_everything(0)
    size = SIZES[name]
    sizes = (size.d_model, size.n_heads, size.d_ff, size.n_layers)
    model = Transformer(Config(*map(len, vocabs), *sizes, **LIKE_PUBLISHED))
    stream = endless(training, *vocabs, batch_size, seed=0)
    start = time.process_time()
    with low_precision(torch.device("cpu"), torch.bfloat16):
        losses = train(model, stream, steps, RATES[name], schedule=cosine(steps, warmup))
    seconds = round(time.process_time() - start)
    return model, vocabs, {"seconds": seconds, "loss": round(statistics.fmean(losses[-20:]), 4)}


def translations(
    model: Transformer, pairs: Sequence[Pair], vocabs: Sequence[Vocabulary], beam: int | None
) -> tuple[list[list[int]], Tensor]:
    """The tokens of each sentence without padding, and the scores, which greedy has none of."""
    tokens, scores = [], []
    for pair in pairs:
        batch = make_batch([pair], *vocabs)
        inputs = (model, batch.source, batch.source_lengths, MOST)
        if beam is None:
            some, score = greedy(*inputs)[0], torch.zeros(len(batch.source))
        else:
            some, score = beam_search(*inputs, beam=beam)
        tokens += [[token for token in row if token != PAD] for row in some.tolist()]
        scores.append(score)
    return tokens, torch.cat(scores)


def main(arguments: list[str] | None = None) -> None:
    options = {"steps": 400, "warmup": 30, "batch_size": 32}
    given = command_line(__file__, __doc__, {"model": MODELS}, arguments, **options)
    training = vars(given.options)
    grid(
        partial(run, **training),
        given,
        lambda runs: {"training": training, "runs": runs},
        keeps_runs=True,
    )


if __name__ == "__main__":
    main()

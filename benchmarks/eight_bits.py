"""What 8-bit parameters change: the same sentences translated with and without, after training.

    python benchmarks/eight_bits.py [--seeds 0] [--only small medium base] [--steps 400] ...

Models of three sizes are trained on the book's translation task: of the published model's size,
with 11.7 million parameters, and of the paper's base size; the larger two with 8,000 words in each
vocabulary, of which the task needs few. Each then translates the first 500 held-out sentences,
greedily and with a beam of 4, in float32 and with its matrices in 8 bits. Recorded in
results/eight_bits.json: how many translations have the same tokens, how many are the reference,
BLEU, and the largest change of a score with the beam.
"""

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "book"))

import torch
from torch import Tensor

from lib.data import Batch, Vocabulary, endless, make_batch
from lib.decoding import beam_search, greedy
from lib.metrics import bleu, exact_match
from lib.notebook import seed_everything
from lib.training import cosine, low_precision, teacher_forcing, train
from lib.transformer import Config, Transformer
from measure.experiments import command_line, grid
from tasks.translation import translation_pairs
from train.bits import in_8_bits

SIZES = {  # words, d_model, n_heads, d_ff, n_layers
    "small": (None, 64, 4, 128, 2),
    "medium": (8000, 256, 8, 1024, 3),
    "base": (8000, 512, 8, 2048, 6),
}
RATES = {"small": 4e-3, "medium": 1e-3, "base": 4e-4}
MOST = 60  # tokens of a translation
TOGETHER = 100  # sentences


def run(
    size: str, seed: int, steps: int, warmup: int, batch_size: int, sentences: int
) -> dict[str, Any]:
    """Train one model, and translate with it in both ways."""
    training, test = translation_pairs()
    vocabs = [Vocabulary.from_sentences(pair[side] for pair in training) for side in (0, 1)]
    words, *sizes = SIZES[size]
    seed_everything(seed)
    model = Transformer(
        Config(
            *(words or len(vocab) for vocab in vocabs), *sizes,
            norm="pre", positions="rotary", dropout=0.0, tied=False,
        )
    )  # fmt: skip
    stream = endless(training, *vocabs, batch_size, seed=seed)
    start = time.process_time()
    with low_precision(torch.device("cpu"), None if size == "small" else torch.bfloat16):
        losses = train(model, stream, steps, RATES[size], schedule=cosine(steps, warmup))
    seconds = time.process_time() - start
    found = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "seconds": round(seconds),
        "loss": round(sum(losses[-20:]) / 20, 4),
    }
    pairs = test[:sentences]
    batches = [
        make_batch(pairs[i : i + TOGETHER], *vocabs) for i in range(0, len(pairs), TOGETHER)
    ]
    wanted = [pair.target for pair in pairs]
    models = {"float32": model, "8 bits": in_8_bits(model)}
    for way, beam in (("greedy", None), ("beam 4", 4)):
        said = {bits: translations(each, batches, beam) for bits, each in models.items()}
        (plain, scores), (packed, packed_scores) = said.values()
        found[way] = {
            "same": sum(a == b for a, b in zip(plain, packed, strict=True)),
            "change of score": round(float((scores - packed_scores).abs().max()), 4),
        }
        for bits, (tokens, _) in said.items():
            sentences_of = [vocabs[1].decode(row) for row in tokens]
            found[way][bits] = {
                "exact": round(exact_match(sentences_of, wanted), 4),
                "bleu": round(bleu(sentences_of, wanted).score, 2),
            }
    return found


def translations(
    model: Transformer, batches: list[Batch], beam: int | None
) -> tuple[list[list[int]], Tensor]:
    """The tokens of each sentence without padding, and the scores, which greedy has none of."""
    tokens, scores = [], []
    for batch in batches:
        inputs = (model, batch.source, batch.source_lengths, MOST)
        if beam is None:
            some, score = greedy(*inputs)[0], torch.zeros(len(batch.source))
        else:
            some, score = beam_search(*inputs, beam=beam)
        tokens += [[token for token in row if token] for row in some.tolist()]
        scores.append(score)
    return tokens, torch.cat(scores)


def main(arguments: list[str] | None = None) -> None:
    axes = {"size": list(SIZES), "seed": [0]}
    options = {"steps": 400, "warmup": 40, "batch_size": 32, "sentences": 500}
    given = command_line(__file__, __doc__, axes, arguments, **options)
    settings = vars(given.options)
    grid(
        partial(run, **settings),
        given,
        lambda runs: {"settings": settings, "runs": runs},
        keeps_runs=True,
    )


if __name__ == "__main__":
    main()

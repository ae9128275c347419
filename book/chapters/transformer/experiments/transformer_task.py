"""The Transformer on the book's translation task: exact match after a number of steps, by seed.

    python experiments/transformer_task.py [--seeds 0 1 2] [--steps 1500] [--positions rotary] ...

One core. Steps are fixed, so that a run can be repeated; the seconds are the processor's.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from lib.data import Vocabulary, endless
from lib.decoding import translate
from lib.metrics import accuracy_by_length, exact_match
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, Transformer
from tasks.translation import translation_pairs

BATCH_SIZE = 32
EDGES = (1, 5, 10, 15, 20, 25, 40)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--positions", default="rotary")
    parser.add_argument("--norm", default="pre")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--tied", action="store_true")
    given = parser.parse_args()

    training, test = translation_pairs()
    source_vocab = Vocabulary.from_sentences(pair.source for pair in training)
    target_vocab = Vocabulary.from_sentences(pair.target for pair in training)
    config = Config(
        len(source_vocab),
        len(target_vocab),
        d_model=64,
        n_heads=4,
        d_ff=128,
        n_layers=given.layers,
        dropout=given.dropout,
        norm=given.norm,
        positions=given.positions,
        tied=given.tied,
    )
    print(config)
    for seed in given.seeds:
        seed_everything(seed)
        model = Transformer(config)
        stream = endless(training, source_vocab, target_vocab, BATCH_SIZE, seed=seed)
        start = time.process_time()
        train(model, stream, given.steps, given.lr, schedule=cosine(given.steps, given.warmup))
        seconds = time.process_time() - start
        said = translate(model, test, source_vocab, target_vocab)
        share = exact_match(said, [pair.target for pair in test])
        by_length = [
            f"{b.shortest}-{b.longest}: {b.accuracy:.3f}"
            for b in accuracy_by_length(said, test, EDGES)
        ]
        print(f"seed {seed}: {seconds:.1f} s, exact match {share:.4f};", ", ".join(by_length))


if __name__ == "__main__":
    main()

"""Train the model that comes with the book and store it in book/checkpoints/translation.safetensors

    python scripts/make_checkpoint.py

`make checkpoint` runs this, and then whatever depends on the model: see `publish_model.py`.

Two encoder and two decoder layers on the book's translation task, under a minute on one core. The
last digits of the weights differ between machines; the figures on the file's card are those of the
run that made the stored ones.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

import torch

from lib.data import Vocabulary, batches, endless
from lib.decoding import translate
from lib.metrics import accuracy_by_length, exact_match
from lib.notebook import seed_everything
from lib.training import cosine, train, validation_loss
from lib.transformer import Config, Transformer
from tasks.translation import translation_pairs
from train.checkpoints import PUBLISHED, save_model

COMMAND = "python scripts/make_checkpoint.py"
SEED, STEPS, LR, BATCH_SIZE = 0, 2000, 4e-3, 32
EDGES = (1, 5, 10, 15, 20, 25, 40)


def main() -> None:
    training, test = translation_pairs()
    source_vocab = Vocabulary.from_sentences(pair.source for pair in training)
    target_vocab = Vocabulary.from_sentences(pair.target for pair in training)
    config = Config(
        len(source_vocab),
        len(target_vocab),
        d_model=64,
        n_heads=4,
        d_ff=128,
        n_layers=2,
        dropout=0.0,
        norm="pre",
        positions="rotary",
        tied=False,
    )
    seed_everything(SEED)
    model = Transformer(config)
    stream = endless(training, source_vocab, target_vocab, BATCH_SIZE, seed=SEED)
    start = time.process_time()
    train(model, stream, STEPS, LR, schedule=cosine(STEPS))
    seconds = time.process_time() - start

    said = translate(model, test, source_vocab, target_vocab)
    held_out = batches(test, source_vocab, target_vocab, 250, seed=0)
    by_length = accuracy_by_length(said, test, EDGES)
    figures = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "processor_seconds": round(seconds),
        "test_sentences": len(test),
        "test_exact_match": round(exact_match(said, [pair.target for pair in test]), 4),
        "test_exact_match_by_source_length": {
            f"{b.shortest}-{b.longest}": round(b.accuracy, 4) for b in by_length
        },
        "test_loss_per_token": round(validation_loss(model, held_out), 5),
    }
    about = {
        "command": COMMAND,
        "task": "translation_pairs(): English to French, 20,000 training and 1,500 test sentences",
        "training": {
            "steps": STEPS,
            "batch_size": BATCH_SIZE,
            "lr": LR,
            "schedule": "cosine, no warm-up",
            "optimiser": "Adam, gradient clipped at norm 1",
            "seed": SEED,
            "torch": torch.__version__.split("+")[0],
        },
        "figures": figures,
    }
    save_model(PUBLISHED, model, source_vocab, target_vocab, about)
    for name, figure in figures.items():
        print(f"{name}: {figure}")
    print(f"{PUBLISHED.name}: {PUBLISHED.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

"""Switch off heads of the published translator's twins: the same model trained from other seeds.

    python experiments/head_ablation_seeds.py [--seeds 1 2 3]        (a minute of one core each)

Single heads, whole layers, and layers of which one head is kept, as in `head_ablation.py`, under
zero and mean ablation. What single heads do differs from seed to seed.
"""

import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.multi_head.ablation import head_means
from chapters.multi_head.experiments.head_ablation import FOR_MEANS, Study, as_it_is
from lib.data import Batch, Pair, Vocabulary, endless, make_batch
from lib.notebook import seed_everything
from lib.training import cosine, train
from lib.transformer import Config, Transformer
from measure.experiments import Run, command_line, grid
from tasks.translation import translation_pairs

STEPS, LR, BATCH_SIZE = 2000, 4e-3, 32  # as scripts/make_checkpoint.py trains


@cache
def data() -> tuple[list[Pair], list[Vocabulary], Batch, Batch]:
    """Training sentences, vocabularies; the held-out sentences and those for means, as batches."""
    training, test = translation_pairs()
    vocabs = [Vocabulary.from_sentences(pair[side] for pair in training) for side in (0, 1)]
    return training, vocabs, make_batch(test, *vocabs), make_batch(training[:FOR_MEANS], *vocabs)


def trained(seed: int, training: list[Pair], vocabs: list[Vocabulary]) -> Transformer:
    """The published model's twin from another seed."""
    seed_everything(seed)
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2, "dropout": 0.0}
    config = Config(*map(len, vocabs), **sizes, norm="pre", positions="rotary", tied=False)
    model = Transformer(config)
    train(
        model,
        endless(training, *vocabs, BATCH_SIZE, seed=seed),
        STEPS,
        LR,
        schedule=cosine(STEPS),
    )
    return model.eval()


def run(seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    training, vocabs, held_out, for_means = data()
    model = trained(seed, training, vocabs)
    kinds = (("zero", None), ("mean", head_means(model, for_means)))
    short = {kind: Study(model, of, held_out).short() for kind, of in kinds}
    return {"whole": as_it_is(model, held_out), "ablations": short}


def record(runs: list[Run]) -> dict[str, Any]:
    seeds = {str(one["seed"]): {k: x for k, x in one.items() if k != "seed"} for one in runs}
    return {"sentences": len(data()[2].source), "for_means": FOR_MEANS, "seeds": seeds}


def main(arguments: list[str] | None = None) -> None:
    grid(run, command_line(__file__, __doc__, {"seed": (1, 2, 3)}, arguments), record)


if __name__ == "__main__":
    main()

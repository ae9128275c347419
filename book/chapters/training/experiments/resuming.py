"""Chapter 11: what a run that goes on needs, and what becomes of it without.

    python book/chapters/training/experiments/resuming.py [--seeds 0 1 2]

The chapter's translator is trained with dropout for `UPDATES` updates, once without a break and
then, for each of `LEFT_OUT`, from a checkpoint in the middle which lacks something. It writes
results/resuming.json: for each of them and each seed whether all parameters end bit for bit
equal, how far from the unbroken run they end as a part of the way that this has come since the
break, the mean loss of the first 10 updates after the break less that of the unbroken run, and the
held-out loss and accuracy (exact match) at the end. "unbroken" has the last two of that run.
"""

import sys
import tempfile
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.training.experiments.ablations import book
from lib.data import BatchStream, make_batch
from lib.decoding import translate
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import cosine, paper_adam, train, validation_loss
from lib.transformer import Config, Transformer
from measure.experiments import by_setting, command_line, grid
from train.checkpoints import load_checkpoint, save_checkpoint

UPDATES, WARMUP, LR, FIRST = 400, 40, 2e-3, 10
HALF = UPDATES // 2
KEPT = ("moments", "number of updates", "position", "generators")
LEFT_OUT = {
    "nothing": (),
    **{kept: (kept,) for kept in KEPT},
    "all but the parameters": KEPT,
    "generators, without dropout": ("generators",),
}
UNBROKEN = "unbroken"
Parts = tuple[Transformer, torch.optim.Optimizer, BatchStream]


class Unbroken(NamedTuple):
    """A run without a break.

    checkpoint  the file that was written in the middle
    half, end   the parameters then, and at the end
    first       the mean loss of the first updates of the second half
    """

    model: Transformer
    checkpoint: Path
    half: Tensor
    end: Tensor
    first: float


def new_run(seed: int, dropout: float) -> Parts:
    seed_everything(seed)
    defined = book()
    sizes = defined["sizes"] | defined["choices"] | {"dropout": dropout}
    model = Transformer(Config(*map(len, defined["vocabularies"]), **sizes))
    pairs, vocabularies = defined["training"], defined["vocabularies"]
    stream = BatchStream(pairs, *vocabularies, batch_size=32, seed=seed)
    return model, paper_adam(model), stream


def go_on(parts: Parts, start: int, steps: int) -> list[float]:
    model, optimizer, stream = parts
    schedule = cosine(UPDATES, WARMUP)
    return train(model, stream, steps, LR, schedule=schedule, optimizer=optimizer, start=start)


@cache
def unbroken(seed: int, dropout: float) -> Unbroken:
    model, optimizer, stream = new_run(seed, dropout)
    go_on((model, optimizer, stream), 0, HALF)
    checkpoint = Path(tempfile.mkdtemp()) / "half.pt"
    save_checkpoint(checkpoint, model, optimizer, step=HALF, stream=stream)
    half = _vector(model)
    losses = go_on((model, optimizer, stream), HALF, UPDATES)
    return Unbroken(model, checkpoint, half, _vector(model), fmean(losses[:FIRST]))


def run(setting: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    dropout = 0.0 if setting.endswith("without dropout") else 0.1
    whole = unbroken(seed, dropout)
    if setting == UNBROKEN:
        return _quality(whole.model)
    left_out = LEFT_OUT[setting]
    model, optimizer, stream = new_run(seed, dropout)
    load_checkpoint(whole.checkpoint, model, optimizer, stream=stream)
    if "moments" in left_out:
        optimizer = paper_adam(model)
    if "position" in left_out:
        stream.position = (0, 0)
    if "generators" in left_out:
        torch.manual_seed(12345 + seed)
    start = 0 if "number of updates" in left_out else HALF
    losses = go_on((model, optimizer, stream), start, start + HALF)
    end = _vector(model)
    return {
        "equal": torch.equal(end, whole.end),
        "distance": round(((end - whole.end).norm() / (whole.end - whole.half).norm()).item(), 4),
        "first losses": round(fmean(losses[:FIRST]) - whole.first, 4),
        **_quality(model),
    }


def _vector(model: Transformer) -> Tensor:
    return parameters_to_vector(model.parameters()).detach().clone()


def _quality(model: Transformer) -> dict[str, float]:
    defined = book()
    vocabularies, held_out = defined["vocabularies"], defined["test"][:400]
    said = translate(model, held_out, *vocabularies)
    loss = validation_loss(model, [make_batch(held_out, *vocabularies)])
    accuracy = exact_match(said, [pair.target for pair in held_out])
    return {"loss": round(loss, 4), "accuracy": round(accuracy, 4)}


def main(arguments: list[str] | None = None) -> None:
    over = {"setting": (*LEFT_OUT, UNBROKEN), "seed": (0, 1, 2)}
    grid(run, command_line(__file__, __doc__, over, arguments), by_setting)


if __name__ == "__main__":
    main()

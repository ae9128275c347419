"""A task that needs the ReLU between the two matrices, where a word may look only once.

    python experiments/one_look.py                             (a few seconds a run)
    python experiments/one_look.py --only one_head_no_relu --seeds 0 1 2

In *bat bites man* the verb asks two things: who stands on its left, and who on its right? Here
twelve digits stand in a row, and each but the first and the last must name the one on its left and
the one on its right. The model is one encoder layer of `TransformerWithout`, and a linear layer
reads both answers off its output. With several heads each can look to one side. One head can bring
home a blend of both, and then it takes a network to tell them apart. Two matrices without a ReLU
are one matrix.

The record has

    settings  of the model and of its training
    without   by model: the parts that it was trained without
    exact     by model, one number for each seed: the fraction of new positions where both answers
              are right
    seconds   the processor's, of the longest training
"""

import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.transformer.parts import TransformerWithout
from lib.notebook import seed_everything
from lib.transformer import Config
from measure.experiments import Run, command_line, grid

DIGITS, LENGTH = 10, 12
SETTINGS = {"d_model": 32, "d_ff": 128, "n_heads": 4, "steps": 400, "batch_size": 64, "lr": 1e-2}
TESTED = 500  # rows of digits
MODELS = {  # what each of them does without
    "one_head": ("heads",),
    "one_head_no_relu": ("heads", "relu"),
    "one_head_no_feed_forward": ("heads", "feed_forward"),
    "one_head_no_norms": ("heads", "norms"),
    "one_head_no_relu_no_norms": ("heads", "relu", "norms"),
    "four_heads": (),
    "four_heads_no_relu": ("relu",),
}


class BothNeighbours(nn.Module):
    """An encoder layer, and a linear layer that reads two digits off each position."""

    def __init__(self, without: tuple[str, ...]):
        super().__init__()
        sizes = {name: SETTINGS[name] for name in ("d_model", "d_ff", "n_heads")}
        config = Config(DIGITS, DIGITS, **sizes, n_layers=1, dropout=0.0)
        self.transformer = TransformerWithout(config, without)
        self.answers = nn.Linear(config.d_model, 2 * DIGITS)

    def forward(self, digits: Tensor) -> Tensor:
        """digits (batch, time) -> logits (batch, time - 2, 2, digits)."""
        lengths = torch.full((len(digits),), digits.shape[1])
        x, _ = self.transformer.encode(digits, lengths)
        return self.answers(x[:, 1:-1]).unflatten(-1, (2, DIGITS))


def rows(count: int) -> tuple[Tensor, Tensor]:
    """Digits in a row, and the two neighbours of each but the first and the last."""
    digits = torch.randint(DIGITS, (count, LENGTH))
    return digits, torch.stack([digits[:, :-2], digits[:, 2:]], dim=-1)


def trained(without: tuple[str, ...], seed: int) -> BothNeighbours:
    seed_everything(seed)
    model = BothNeighbours(without)
    optimiser = torch.optim.Adam(model.parameters(), lr=SETTINGS["lr"])
    decay = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, SETTINGS["steps"])
    for _ in range(SETTINGS["steps"]):
        digits, wanted = rows(SETTINGS["batch_size"])
        loss = F.cross_entropy(model(digits).flatten(0, 2), wanted.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        decay.step()
    return model


@torch.no_grad()
def both_right(model: BothNeighbours) -> float:
    digits, wanted = rows(TESTED)
    right = model(digits).argmax(-1) == wanted
    return round(right.all(-1).float().mean().item(), 4)


def run(model: str, seed: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    begun = time.process_time()
    made = trained(MODELS[model], seed)
    return {"seconds": round(time.process_time() - begun, 1), "exact": both_right(made)}


def record(runs: list[Run]) -> dict[str, Any]:
    exact: dict[str, list[float]] = {name: [] for name in MODELS}
    for one in runs:
        exact[one["model"]].append(one["exact"])
    seconds = max(one["seconds"] for one in runs)
    return {"settings": SETTINGS, "without": MODELS, "exact": exact, "seconds": seconds}


def main(arguments: list[str] | None = None) -> None:
    over = {"model": MODELS, "seed": range(5)}
    grid(run, command_line(__file__, __doc__, over, arguments), record)


if __name__ == "__main__":
    main()

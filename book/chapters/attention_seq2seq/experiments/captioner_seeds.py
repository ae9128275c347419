"""The captioner of chapter 2 on several seeds: how slowly it learns when all is trained at once.

    python experiments/captioner_seeds.py [--only ...] [--seeds 0 1 2]

Four ways to train the same model on the same strips: all at once; all at once for longer; the
network of the grid on single digits first, then frozen, as the chapter does; and all at once with
the attention weights given, spread over the cells of the right digit. If the last one learns, the
grid waits for attention; if the one before it does, attention waits for the grid. Each run is added
to results/captioner_seeds.json, and a run that is already there is skipped.
"""

import math
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.attention_seq2seq.captioning import (
    CELL,
    COLUMNS,
    ROWS,
    Captioner,
    DigitNet,
    captions,
    on_right_digit,
    train_digit_net,
)
from chapters.attention_seq2seq.pictures import (
    CAPTION_WORDS,
    SIDE,
    Strips,
    digit_images,
    make_strips,
    strip_batches,
)
from lib.metrics import exact_match
from lib.notebook import seed_everything
from lib.training import cosine, teacher_forcing, train
from measure.experiments import command_line, grid

LR, BATCH_SIZE, DIGIT_STEPS = 4e-3, 32, 700
STEPS = {"all at once": 900, "all at once, longer": 2000, "digits first": 900, "weights given": 900}
LOOK_AT = (150, 300, 900, 2000)  # steps at which the loss is read
MEAN_OF = 50  # steps
ABOUT = {
    "loss": f"per number of steps, the mean over its last {MEAN_OF} steps; a model that counts the "
    f"digits and guesses them has {0.75 * math.log(10):.2f}",
    "exact": "share of 1,000 strips of digits never trained on, captioned exactly",
    "on_digit": "share of words with the largest weight on their digit",
    "perplexity": "of the weights when a word is written, before and after training: 196 if all "
    "cells have the same, 1 if one cell has all",
    "seconds": "of the processor, training alone",
}


class GivenWeights(nn.Module):
    """In the place of attention: weights that are known, one row for each step of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.key_map = nn.Identity()
        self.rows = torch.empty(0)  # (batch, time, key)
        self.step = 0

    def give(self, strips: Strips) -> None:
        """Spread each row over the cells of its digit; over all cells once the digits are over."""
        cells = torch.arange(ROWS * COLUMNS)
        middle = torch.stack([cells // COLUMNS, cells % COLUMNS], dim=-1) * CELL + CELL // 2
        corners = strips.corners.unsqueeze(2)  # (batch, digit, 1, 2)
        inside = ((middle > corners) & (middle < corners + SIDE)).all(-1)
        inside &= corners[..., 0] >= 0  # (batch, digit, key)
        rows = inside.float()
        rows = torch.where(inside.any(-1, keepdim=True), rows, 1.0)
        rows = nn.functional.pad(rows, (0, 0, 0, 1), value=1.0)  # the end of the caption
        self.rows = rows / rows.sum(-1, keepdim=True)
        self.step = 0

    def forward(
        self, query: Tensor, keys: Tensor, mask: Tensor | None, projected: Tensor
    ) -> tuple[Tensor, Tensor]:
        weights = self.rows[:, self.step]
        self.step += 1
        return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


def given_loss(model: Captioner, strips: Strips) -> tuple[Tensor, Tensor]:
    """Teacher forcing, with the weights of this batch given first."""
    model.decoder.attention.give(strips)
    return teacher_forcing(model, strips)


@torch.no_grad()
def perplexity(model: Captioner, strips: Strips) -> float:
    """The exponential of the mean entropy of the weights, over the digits of the strips."""
    state = model.start(strips.source, strips.source_lengths)
    weights = model.decoder(strips.target_in, state)[1]
    entropy = -torch.special.xlogy(weights, weights).sum(-1)  # (batch, time)
    digits = strips.corners[..., 0] >= 0
    return math.exp(entropy[:, : digits.shape[1]][digits].mean().item())


def run(way: str, seed: int) -> dict[str, Any]:
    """Train one captioner in one way, and measure it."""
    train_digits, test_digits = digit_images()
    strips = make_strips(test_digits, 1000, seed=1)
    wanted = [CAPTION_WORDS.decode(row) for row in strips.target_out]
    seed_everything(seed)
    begun = time.process_time()
    net = DigitNet()
    if way == "digits first":
        train_digit_net(net, train_digits, DIGIT_STEPS)
        net.requires_grad_(False)
    model = Captioner(net)
    loss = teacher_forcing
    if way == "weights given":
        model.decoder.attention = GivenWeights()
        loss = given_loss
    before = None if way == "weights given" else perplexity(model, strips[:250])
    stream = strip_batches(train_digits, BATCH_SIZE, seed=seed)
    steps = STEPS[way]
    losses = train(model, stream, steps, LR, loss=loss, schedule=cosine(steps))
    found: dict[str, Any] = {
        "steps": steps,
        "seconds": round(time.process_time() - begun, 1),
        "loss": {
            n: round(sum(losses[n - MEAN_OF : n]) / MEAN_OF, 4) for n in LOOK_AT if n <= steps
        },
    }
    if before is not None:
        written, maps = captions(model, strips)
        right = on_right_digit(maps, strips.corners).float().mean().item()
        found["exact"] = round(exact_match(written, wanted), 4)
        found["on_digit"] = round(right, 4)
        found["perplexity"] = [round(p, 1) for p in (before, perplexity(model, strips[:250]))]
    return found


def main(arguments: list[str] | None = None) -> None:
    over = {"way": sorted(STEPS), "seed": (0, 1, 2)}
    given = command_line(__file__, __doc__, over, arguments)
    settings = {"lr": LR, "batch_size": BATCH_SIZE, "digit_steps": DIGIT_STEPS}
    about = {"about": ABOUT, "settings": settings}
    grid(run, given, lambda runs: {**about, "runs": runs}, keeps_runs=True)


if __name__ == "__main__":
    main()

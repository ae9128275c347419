"""Pictures to caption: strips with a few handwritten digits, and the words that name them.

A strip has 14 x 56 pixels and shows one to five digits from left to right, each at its own height.
Its caption is their names: "seven three one". The digits are scikit-learn's `load_digits`, 1,797
real scans of 8 x 8 pixels that come with that package; a digit of the test is never trained on.

Axes beside those of `lib`: height and width count pixels, digit counts the places in a strip.
What is not here: colour, photographs, grammar. `captioning`, beside this file, has the model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lib.data import BOS, EOS, PAD, UNK, Vocabulary

HEIGHT, WIDTH = 14, 56  # pixels of a strip
SIDE, MOST = 8, 5  # pixels of a digit's side, and the most digits in a strip
TEST_DIGITS = 360
CHUNK = 50  # batches that `strip_batches` draws together: one large draw is faster than many
CAPTION_WORDS = Vocabulary(
    ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
)


class Digits(NamedTuple):
    """Single digits: grey values from 0 to 1, and the digit that each picture shows."""

    images: Float[Tensor, "n 8 8"]
    labels: Int[Tensor, " n"]


def digit_images() -> tuple[Digits, Digits]:
    """Return 1,437 digits for training and 360 others for testing, the same ones every time.

    Source: Alpaydin and Kaynak 1998, through scikit-learn.
    """
    from sklearn.datasets import load_digits  # here: training imports this module, and waits

    pixels, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(pixels, dtype=torch.float32).view(-1, SIDE, SIDE)[order] / 16
    labels = torch.tensor(labels)[order]
    return (
        Digits(images[TEST_DIGITS:], labels[TEST_DIGITS:]),
        Digits(images[:TEST_DIGITS], labels[:TEST_DIGITS]),
    )


def single_digits(
    digits: Digits, n: int, generator: torch.Generator
) -> tuple[Float[Tensor, "{n} 1 14 14"], Int[Tensor, " {n}"]]:
    """Draw `n` squares with one digit each, at a random position, and what they show."""
    chosen = torch.randint(len(digits.labels), (n,), generator=generator)
    top, left = torch.randint(HEIGHT - SIDE + 1, (2, n), generator=generator)
    images = torch.zeros(n, 1, HEIGHT, HEIGHT)
    _paste(images, torch.ones(n, dtype=torch.bool), digits.images[chosen], top, left)
    return images, digits.labels[chosen]


@dataclass(frozen=True, eq=False)
class Strips:
    """Strips with their captions; the first four fields are those of `lib.data.Batch`.

    `source_lengths` has nothing to count in a picture: it is 56, the same for all.
    `corners` is the top and left pixel of each digit, -1 where there is none. No model reads it;
    it says afterwards whether a map lies on the right digit.
    """

    source: Float[Tensor, "batch 1 14 56"]
    source_lengths: Int[Tensor, " batch"]
    target_in: Int[Tensor, "batch 6"]
    target_out: Int[Tensor, "batch 6"]
    corners: Int[Tensor, "batch 5 2"]

    def to(self, device: torch.device | str) -> "Strips":
        """Move all five to a device."""
        return Strips(*(tensor.to(device) for tensor in vars(self).values()))

    def __getitem__(self, rows: slice) -> "Strips":
        return Strips(*(tensor[rows] for tensor in vars(self).values()))

    def __len__(self) -> int:
        return len(self.source)


def make_strips(digits: Digits, n: int, *, seed: int) -> Strips:
    """Draw `n` strips: how many digits, which ones, where, and with what gaps is all random.

    Errors: ValueError for fewer than one strip.
    """
    if n < 1:
        raise ValueError(f"expected at least one strip to draw, got n={n}")
    generator = torch.Generator().manual_seed(seed)
    shown = torch.randint(1, MOST + 1, (n, 1), generator=generator)
    place = torch.arange(MOST)
    real = place < shown  # (batch, digit)
    chosen = torch.randint(len(digits.labels), (n, MOST), generator=generator)
    top = torch.randint(HEIGHT - SIDE + 1, (n, MOST), generator=generator)
    # Share out the columns that the digits do not need: cut them at random places, in order,
    # and push each digit to the right by the width of those before it.
    spare = WIDTH - SIDE * shown
    cut = (torch.rand(n, MOST, generator=generator) * (spare + 1)).long()
    left = cut.masked_fill(~real, WIDTH).sort(dim=1).values + SIDE * place

    images = torch.zeros(n, 1, HEIGHT, WIDTH)
    for k in range(MOST):
        _paste(images, real[:, k], digits.images[chosen[:, k]], top[:, k], left[:, k])
    # The ids of the ten words follow those of the special tokens, from "zero" upwards.
    words = (digits.labels[chosen] + UNK + 1).masked_fill(~real, PAD)
    edge = words.new_full((n, 1), PAD)
    corners = torch.stack([top, left], dim=-1).masked_fill(~real.unsqueeze(-1), -1)
    return Strips(
        source=images,
        source_lengths=torch.full((n,), WIDTH),
        target_in=torch.cat([edge + BOS, words], dim=1),
        target_out=torch.cat([words, edge], dim=1).scatter(1, shown, EOS),
        corners=corners,
    )


def strip_batches(digits: Digits, batch_size: int, *, seed: int) -> Iterator[Strips]:
    """Draw new strips without end, `batch_size` at a time.

    Errors: ValueError for a batch size below 1.
    """
    if batch_size < 1:
        raise ValueError(f"expected a batch size of at least 1, got {batch_size}")
    for chunk in count():
        strips = make_strips(digits, CHUNK * batch_size, seed=seed * 100_000 + chunk)
        for start in range(0, len(strips), batch_size):
            yield strips[start : start + batch_size]


def _paste(
    images: Float[Tensor, "n 1 height width"],
    wanted: Bool[Tensor, " n"],
    digits: Float[Tensor, "n 8 8"],
    top: Int[Tensor, " n"],
    left: Int[Tensor, " n"],
) -> None:
    """Write one digit into each wanted picture, in place."""
    row = wanted.nonzero()[:, 0]
    side = torch.arange(SIDE)
    y = (top[row, None] + side)[:, :, None]
    x = (left[row, None] + side)[:, None, :]
    images[row[:, None, None], 0, y, x] = digits[row]

"""Captions with attention: the decoder of chapter 2 looks at the cells of a picture.

A convolutional network turns a strip of 14 x 56 pixels into a grid of 7 x 28 vectors, one for each
cell of 2 x 2 pixels. They take the place of an encoder's states: `AttentionDecoder` asks them, as
196 keys, before each word. Pictures and captions stand in `chapters.attention_seq2seq.pictures`.

Axes beside those of `lib`: rows and columns count cells; key counts all cells, row after row.
"""

import os

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from chapters.attention_seq2seq.pictures import (
    CAPTION_WORDS,
    HEIGHT,
    MOST,
    SIDE,
    WIDTH,
    Digits,
    Strips,
    single_digits,
)
from lib.decoding import decode
from lib.positions import sinusoidal_table
from lib.seq2seq import AttentionDecoder, AttentionState
from lib.training import cosine

CELL = 2  # pixels of a cell's side
ROWS, COLUMNS = HEIGHT // CELL, WIDTH // CELL
D_GRID = 64  # width of what the network says about a cell
D_PLACE = 16  # width of what is appended about its row, and as much about its column
BASE = 30.0  # of the sine waves of a place: the grid is short, so the longest wave can be


class DigitNet(nn.Module):
    """Three convolutions from pixels to a grid, and a linear layer from the grid to ten digits.

    The receptive field of a cell has 15 x 15 pixels: a digit and a little around it. To name a
    single digit, each of the 64 numbers is taken where it is largest, wherever that is.
    """

    def __init__(self):
        super().__init__()
        self.grid = nn.Sequential(
            nn.Conv2d(1, D_GRID // 2, kernel_size=3, stride=CELL, padding=1),
            nn.ReLU(),
            nn.Conv2d(D_GRID // 2, D_GRID, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(D_GRID, D_GRID, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1),
        )
        self.output = nn.Linear(D_GRID, 10)

    def forward(self, images: Float[Tensor, "batch 1 height width"]) -> Float[Tensor, "batch 10"]:
        return self.output(self.grid(images).amax(dim=(2, 3)))


def train_digit_net(
    net: DigitNet, digits: Digits, steps: int, *, lr: float = 4e-3, seed: int = 0
) -> list[float]:
    """Teach the network to name single digits; return the loss of every step.

    Label smoothing of 0.1 keeps it from being surer than 1,437 pictures allow.
    """
    generator = torch.Generator().manual_seed(seed)
    device = net.output.weight.device
    optimizer = torch.optim.Adam(net.parameters(), lr)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, cosine(steps))
    losses = []
    net.train()
    for _ in tqdm(range(steps), unit="step", disable="TQDM_DISABLE" in os.environ):
        images, labels = single_digits(digits, 64, generator)
        logits = net(images.to(device))
        loss = F.cross_entropy(logits, labels.to(device), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
    net.eval()
    return torch.stack(losses).tolist()


def grid_places() -> Float[Tensor, "key d_place"]:
    """Say where each cell is: sine waves of its row, then sine waves of its column.

    Source: Attention Is All You Need, section 3.5, for two axes.
    """
    row = sinusoidal_table(ROWS, D_PLACE, base=BASE)[:, None].expand(-1, COLUMNS, -1)
    column = sinusoidal_table(COLUMNS, D_PLACE, base=BASE)[None].expand(ROWS, -1, -1)
    return torch.cat([row, column], dim=-1).flatten(0, 1)  # (rows * columns, 2 * D_PLACE)


class Captioner(nn.Module):
    """A picture's grid as keys, and the attention decoder that writes the words.

    s_0 = tanh(W k + b), where k is the mean of the keys. It has the interface of the sequence
    models, so that `train` and `greedy` take it as they are; the lengths are not read.
    Source: Xu et al. 2015, sections 3.1 and 4.2 (there with an LSTM).
    """

    def __init__(self, net: DigitNet, d_embed: int = 32, d_hidden: int = 96, d_scorer: int = 32):
        super().__init__()
        self.net = net
        self.places: Tensor
        self.register_buffer("places", grid_places(), persistent=False)
        d_key = D_GRID + self.places.shape[1]
        self.first_state = nn.Linear(d_key, d_hidden)
        self.decoder = AttentionDecoder(len(CAPTION_WORDS), d_embed, d_hidden, d_key, d_scorer)

    def keys(self, images: Float[Tensor, "batch 1 height width"]) -> Float[Tensor, "batch key d"]:
        """What the network computes for each cell, and where that cell is."""
        seen = self.net.grid(images).flatten(2).transpose(1, 2)  # (batch, key, D_GRID)
        return torch.cat([seen, self.places.expand(len(images), -1, -1)], dim=-1)

    def start(
        self, source: Float[Tensor, "batch 1 height width"], source_lengths: Int[Tensor, " batch"]
    ) -> AttentionState:
        """Look at the picture; return the decoder's state before its first word."""
        keys = self.keys(source)
        return self.decoder.start(keys, torch.tanh(self.first_state(keys.mean(dim=1))))

    def step(
        self, token: Int[Tensor, " batch"], state: AttentionState
    ) -> tuple[Float[Tensor, "batch vocab"], Float[Tensor, "batch key"], AttentionState]:
        """Feed one word: logits of the next, weights over the cells, new state."""
        logits, weights, state = self.decoder(token.unsqueeze(1), state)
        return logits.squeeze(1), weights.squeeze(1), state

    def forward(
        self,
        source: Float[Tensor, "batch 1 height width"],
        source_lengths: Int[Tensor, " batch"],
        target_in: Int[Tensor, "batch target_time"],
    ) -> Float[Tensor, "batch target_time vocab"]:
        """Teacher forcing, as in `Seq2Seq`."""
        return self.decoder(target_in, self.start(source, source_lengths))[0]


def captions(
    model: Captioner, strips: Strips
) -> tuple[list[list[str]], Float[Tensor, "batch time rows columns"]]:
    """Caption strips: the words of each, and a map over the grid for each word, "<eos>" included.

    Greedy decoding, as `lib.decoding.greedy` does it for sentences. A map after the end is 0.
    """
    tokens, maps = decode(
        model, strips.source, strips.source_lengths, MOST + 1, lambda logits: logits.argmax(dim=-1)
    )
    assert maps is not None  # AttentionDecoder gives them
    words = [CAPTION_WORDS.decode(row) for row in tokens.tolist()]
    maps = F.pad(maps, (0, 0, 0, MOST + 1 - maps.shape[1]))  # (batch, MOST + 1, key)
    return words, maps.unflatten(-1, (ROWS, COLUMNS))


def on_right_digit(
    maps: Float[Tensor, "batch time rows columns"], corners: Int[Tensor, "batch digit 2"]
) -> Bool[Tensor, " word"]:
    """For each digit of each strip: does the map of its word have its maximum on that digit?

    The maximum is a cell; it lies on the digit if its middle is within the digit's 8 x 8 pixels.
    """
    real = corners[..., 0] >= 0  # (batch, digit)
    cell = maps[:, : real.shape[1]].flatten(2).argmax(-1)  # (batch, digit), row after row
    columns = maps.shape[-1]
    middle = torch.stack([cell // columns, cell % columns], dim=-1) * CELL + CELL // 2
    return ((middle > corners) & (middle < corners + SIDE)).all(-1)[real]

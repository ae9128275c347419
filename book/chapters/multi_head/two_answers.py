"""Two answers from one attention layer: what single heads learn and miss, trained in seconds.

Extremes: sixteen offers, each a shop (a digit) and a price, in no order; one query names the shop
of the highest price and that of the lowest. An offer's vector is linear in its price. Neighbours:
twelve digits on a ring; each position names its left and its right neighbour.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from lib.attention import MultiHeadAttention
from lib.notebook import seed_everything
from measure.records import read_results

D_MODEL, DIGITS, RING, ITEMS = 32, 10, 12, 16
HIDDEN = 128  # of the network behind the heads
BATCH, TESTED, LR = 64, 4000, 1e-2


class Setting(NamedTuple):
    """One model: heads, what reads them, the dimension of a head (None: d_model / heads).

    square gives each offer the square of its price too.
    """

    task: str
    n_heads: int
    network: bool
    d_head: int | None = None
    square: bool = False

    @property
    def name(self) -> str:
        heads = f"{self.n_heads} head{'s' if self.n_heads > 1 else ''}"
        more = ", wide" * (self.d_head is not None) + ", square" * self.square
        return f"{self.task}: {heads}, {'network' if self.network else 'linear'}{more}"


class TwoAnswers(nn.Module):
    """One attention layer, and a linear layer or a network that reads two digits off its output."""

    def __init__(self, setting: Setting):
        super().__init__()
        self.ring = setting.task == "neighbours"
        self.square = setting.square
        self.digit = nn.Embedding(DIGITS, D_MODEL)
        self.position = nn.Parameter(torch.randn(RING if self.ring else 1, D_MODEL))
        self.number = nn.Linear(1 + self.square, D_MODEL, bias=False)
        d = setting.d_head
        self.attention = MultiHeadAttention(D_MODEL, setting.n_heads, d_k=d, d_v=d)
        self.output: nn.Module = nn.Linear(D_MODEL, 2 * DIGITS)
        if setting.network:
            self.output = nn.Sequential(
                nn.Linear(D_MODEL, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 2 * DIGITS)
            )

    def forward(self, digits: Tensor, numbers: Tensor) -> Tensor:
        """digits, numbers (batch, items) -> logits (batch, queries, 2, digits)."""
        x = self.digit(digits)
        if self.ring:
            found = self.attention(x + self.position)
        else:
            powers = [numbers, numbers**2][: 1 + self.square]
            x = x + self.number(torch.stack(powers, dim=-1))
            found = self.attention(self.position.expand(len(x), 1, -1), x)
        return self.output(found).unflatten(-1, (2, DIGITS))

    def price_slope(self) -> float:
        """How fast the score of an offer grows with its price: beta, of a model with one head."""
        query = self.attention.w_q(self.position[0])
        key = self.attention.w_k.weight @ self.number.weight[:, 0]  # of a price of 1
        return (query @ key / math.sqrt(len(query))).item()


def neighbours(n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Digits on a ring, and the two beside each."""
    digits = torch.randint(DIGITS, (n, RING))
    wanted = torch.stack([digits.roll(1, 1), digits.roll(-1, 1)], dim=-1)
    return digits, digits.float(), wanted


def extremes(n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Digits with numbers evenly spaced from -1 to 1, shuffled, and those at the two ends."""
    digits = torch.randint(DIGITS, (n, ITEMS))
    ranks = torch.rand(n, ITEMS).argsort(dim=1)
    ends = torch.stack([ranks.argmax(1), ranks.argmin(1)], dim=1)
    return digits, 2 * ranks / (ITEMS - 1) - 1, digits.gather(1, ends)[:, None]


TASKS: dict[str, tuple[Callable[[int], tuple[Tensor, Tensor, Tensor]], int]] = {
    "neighbours": (neighbours, 400),  # with the steps of training
    "extremes": (extremes, 1000),
}


def trained(setting: Setting, seed: int) -> TwoAnswers:
    """One model after its training."""
    seed_everything(seed)
    model = TwoAnswers(setting)
    make, steps = TASKS[setting.task]
    optimiser = torch.optim.Adam(model.parameters(), lr=LR)
    decay = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, steps)
    for _ in range(steps):
        *inputs, wanted = make(BATCH)
        loss = F.cross_entropy(model(*inputs).flatten(0, 2), wanted.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        decay.step()
    return model


def measured(model: TwoAnswers, setting: Setting) -> dict[str, Any]:
    """How often both answers of a model are right, and each of them, on new lists."""
    make, _ = TASKS[setting.task]
    with torch.no_grad():
        *inputs, wanted = make(TESTED)
        right = model(*inputs).argmax(-1) == wanted
    return {
        "both": round(right.all(-1).float().mean().item(), 4),
        "each": [round(x, 4) for x in right.float().mean((0, 1)).tolist()],
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def train_two_answers(setting: Setting, seed: int) -> dict[str, Any]:
    """Train one model; how often both answers are right, and each of them."""
    return measured(trained(setting, seed), setting)


def by_name(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The rows that experiments/head_cost.py records, each under its setting's name."""
    rows = record["settings"]
    return {Setting(**{field: row[field] for field in Setting._fields}).name: row for row in rows}


def laboratory_runs(task: str) -> dict[str, list[dict[str, Any]]]:
    """The recorded runs of a laboratory of the page, under the names of their settings."""
    rows = read_results("laboratories")["settings"]
    return {row["name"]: row["runs"] for row in rows if row["task"] == task}


def twin_prices(prices: Float[Tensor, "3"], beta: float, lowest: float) -> Float[Tensor, "3"]:
    """Three other prices, `lowest` the first, that weigh the same for a head: by Newton's method.

    The sum of exp(beta s) over the prices s, and that of s exp(beta s), stay what they are.
    """

    def weighed(s: Tensor) -> Tensor:
        return torch.stack([torch.exp(beta * s).sum(), (s * torch.exp(beta * s)).sum()])

    twin = prices.clone()
    twin[0] = lowest
    for _ in range(60):
        slope = torch.autograd.functional.jacobian(weighed, twin)[:, 1:]
        twin[1:] -= torch.linalg.solve(slope, weighed(twin) - weighed(prices))
    return twin

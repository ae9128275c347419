"""Our Transformer beside torch.nn.Transformer: seconds of a step, as a ratio in one process.

    python benchmarks/transformer_speed.py [--size small|medium] [--pairs 15] [--forward]

The two take turns, A B A B, on the same batch, one thread; the median of the pairs' ratios is
printed, below 1 where ours is faster. Both have sinusoidal positions, untied embeddings, plain
Adam and the same dropout rate, which ours applies where the paper does: on sub-layer outputs and
embeddings; torch's applies it on attention weights and inside the feed-forward network too.
"""

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from lib.checks.transformer import torch_masks
from lib.config import Config
from lib.masks import padding_mask
from lib.training import token_loss
from lib.transformer import Transformer

SIZES = {  # d_model, heads, layers, d_ff, vocab, batch, time, shortest length
    "small": (128, 4, 2, 512, 200, 64, 24, 24),
    "medium": (256, 8, 3, 1024, 8000, 64, 20, 10),
}


class TorchTransformer(nn.Module):
    """nn.Transformer between the embeddings and the projection of a model of ours."""

    def __init__(self, ours: Transformer):
        super().__init__()
        c = ours.config
        self.inner = nn.Transformer(
            c.d_model, c.n_heads, c.n_layers, c.n_layers, c.d_ff, c.dropout, batch_first=True
        )
        self.dropout = nn.Dropout(c.dropout)
        self.positions = ours.encoder.positions
        self.source_embedding = type(ours.source_embedding)(c.source_vocab, c.d_model)
        self.target_embedding = type(ours.target_embedding)(c.target_vocab, c.d_model)
        self.projection = nn.Linear(c.d_model, c.target_vocab, bias=False)

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        source_in = self.dropout(self.positions.add(self.source_embedding(source)))
        target = self.dropout(self.positions.add(self.target_embedding(target_in)))
        masks = torch_masks(padding_mask(source_lengths, source.shape[1]), target.shape[1])
        return self.projection(self.inner(source_in, target, **masks))


def stepper(model: nn.Module, batch: tuple[Tensor, ...], forward: bool) -> Callable[[], None]:
    """Return a function that takes one training step, or one forward pass in evaluation mode."""
    source, lengths, target_in, target_out = batch
    model.train(not forward)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step() -> None:
        if forward:
            with torch.no_grad():
                model(source, lengths, target_in)
            return
        loss = token_loss(model(source, lengths, target_in), target_out)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def timed(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--forward", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # torch's encoder: nested tensors are a prototype
    torch.set_num_threads(1)
    torch.manual_seed(0)
    d_model, n_heads, n_layers, d_ff, vocab, size, time_steps, shortest = SIZES[given.size]
    config = Config(
        vocab, vocab, d_model, n_heads, d_ff, n_layers, dropout=given.dropout, tied=False
    )
    ours = Transformer(config)
    lengths = torch.randint(shortest, time_steps + 1, (size,))
    tokens = torch.randint(4, vocab, (3, size, time_steps))
    tokens = tokens.masked_fill(torch.arange(time_steps) >= lengths[:, None], 0)
    batch = (tokens[0], lengths, tokens[1], tokens[2])
    one = stepper(ours, batch, given.forward)
    other = stepper(TorchTransformer(ours), batch, given.forward)
    for _ in range(3):
        one()
        other()
    pairs = [(timed(one), timed(other)) for _ in range(given.pairs)]
    what = "forward pass" if given.forward else "training step"
    ours_ms, theirs_ms = (1e3 * statistics.median(seconds) for seconds in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"torch {torch.__version__}, {given.size}, {what}, dropout {given.dropout}")
    print(f"ours {ours_ms:.1f} ms, torch.nn {theirs_ms:.1f} ms, median ratio {ratio:.2f}")


if __name__ == "__main__":
    main()

"""A training step of the attention model, against the same model built on nn.GRU.

    python benchmarks/seq2seq_speed.py

The other model is arranged as in "Dive into Deep Learning": nn.GRU reads the source, nn.GRU with
the context beside its input takes each decoder step, and the keys are projected anew at each step.
Sizes are equal, steps alternate A B A B, and the figure is the median of the ratios.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from sys import path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

path.insert(0, str(Path(__file__).resolve().parent.parent / "book"))

from lib.seq2seq import AttentionSeq2Seq

VOCAB, BATCH, PAIRS = 200, 64, 15


class OnTorchGRU(nn.Module):
    """GRU encoder, additive attention and GRU decoder from torch's own layers."""

    def __init__(self, d_embed: int, d_hidden: int):
        super().__init__()
        self.source_embedding = nn.Embedding(VOCAB, d_embed)
        self.target_embedding = nn.Embedding(VOCAB, d_embed)
        self.encoder = nn.GRU(d_embed, d_hidden, batch_first=True)
        self.decoder = nn.GRU(d_embed + d_hidden, d_hidden, batch_first=True)
        self.query_map = nn.Linear(d_hidden, d_hidden, bias=False)
        self.key_map = nn.Linear(d_hidden, d_hidden)
        self.score = nn.Linear(d_hidden, 1, bias=False)
        self.output = nn.Linear(d_hidden, VOCAB)

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> Tensor:
        keys, s = self.encoder(self.source_embedding(source))
        mask = torch.arange(source.shape[1]) < lengths[:, None]
        outputs = []
        for y in self.target_embedding(target_in).split(1, dim=1):
            hidden = torch.tanh(self.query_map(s[-1]).unsqueeze(1) + self.key_map(keys))
            scores = self.score(hidden).squeeze(-1).masked_fill(~mask, float("-inf"))
            context = torch.bmm(scores.softmax(-1).unsqueeze(1), keys)
            output, s = self.decoder(torch.cat([context, y], dim=-1), s)
            outputs.append(output)
        return self.output(torch.cat(outputs, dim=1))


def training_step(model: nn.Module, time_steps: int) -> Callable[[], float]:
    """Return a function that takes one step and returns its seconds."""
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    source, target = torch.randint(VOCAB, (2, BATCH, time_steps))
    lengths = torch.randint(1, time_steps + 1, (BATCH,))

    def step() -> float:
        start = time.perf_counter()
        logits = model(source, lengths, target)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return time.perf_counter() - start

    return step


def main() -> None:
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, batch {BATCH}")
    print("| d_embed | d_hidden | time | ours, ms | on nn.GRU, ms | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    for d_embed, d_hidden, time_steps in ((64, 128, 14), (256, 256, 20)):
        torch.manual_seed(0)
        ours = AttentionSeq2Seq(VOCAB, VOCAB, d_embed, d_hidden, d_scorer=d_hidden)
        steps = [training_step(m, time_steps) for m in (ours, OnTorchGRU(d_embed, d_hidden))]
        seconds = [[step() for step in steps] for _ in range(PAIRS + 3)][3:]
        mine, others = (1000 * statistics.median(column) for column in zip(*seconds, strict=True))
        ratio = statistics.median(a / b for a, b in seconds)
        sizes = f"| {d_embed} | {d_hidden} | {time_steps} "
        print(f"{sizes}| {mine:.1f} | {others:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()

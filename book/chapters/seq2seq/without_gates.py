"""The translator of the chapter without gates: its two halves are plain recurrent networks."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lib.seq2seq import GRUCell, Seq2Seq


class TanhCell(GRUCell):
    """One step without gates: h' = tanh(W x + U h), with both biases of a `GRUCell`."""

    def __init__(self, d_in: int, d_hidden: int):
        super().__init__(d_in, d_hidden)
        self.input_map = nn.Linear(d_in, d_hidden)
        self.hidden_map = nn.Linear(d_hidden, d_hidden)

    def advance(
        self, projected: Float[Tensor, "batch d_hidden"], h: Float[Tensor, "batch d_hidden"]
    ) -> Float[Tensor, "batch d_hidden"]:
        return torch.tanh(projected + self.hidden_map(h))


class TanhSeq2Seq(Seq2Seq):
    """Encoder and decoder connected by one vector, both of them without gates."""

    def __init__(
        self, source_vocab: int, target_vocab: int, d_embed: int = 64, d_hidden: int = 128
    ):
        super().__init__(source_vocab, target_vocab, d_embed, d_hidden)
        self.encoder.cell = TanhCell(d_embed, d_hidden)
        self.decoder.cell = TanhCell(d_embed, d_hidden)
        self.decoder.context_map = nn.Linear(d_hidden, d_hidden, bias=False)

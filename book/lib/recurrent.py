"""A gated recurrent unit, and the encoder that reads a source with it, one token after another.

Axes beside those of `lib`: d_embed is the width of a token's vector, d_hidden that of a recurrent
state. What is not here: several layers, reading in both directions, dropout. A product that does
not depend on the previous state is taken for all time steps at once, outside the loop.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


class GRUCell(nn.Module):
    """One step of a gated recurrent unit: a new state from an input and the old state.

    reset     r  = sigmoid(W_r x + U_r h)          both maps with a bias, as in torch
    update    z  = sigmoid(W_z x + U_z h)
    candidate n  = tanh(W_n x + r * (U_n h))
    state     h' = (1 - z) * n + z * h

    Source: Cho et al. 2014, section 2.3 (there r stands inside the product U_n (r * h); this form,
    torch's, needs one product with h instead of two). Chapter: 1 (Sequence to sequence).
    """

    def __init__(self, d_in: int, d_hidden: int):
        super().__init__()
        self.input_map = nn.Linear(d_in, 3 * d_hidden)  # W_r, W_z, W_n, one above the other
        self.hidden_map = nn.Linear(d_hidden, 3 * d_hidden)  # U_r, U_z, U_n

    def forward(
        self, x: Float[Tensor, "batch d_in"], h: Float[Tensor, "batch d_hidden"]
    ) -> Float[Tensor, "batch d_hidden"]:
        return self.advance(self.input_map(x), h)

    def advance(
        self, projected: Float[Tensor, "batch gates"], h: Float[Tensor, "batch d_hidden"]
    ) -> Float[Tensor, "batch d_hidden"]:
        """The part that must wait for h: `projected` is input_map(x), with gates = 3 d_hidden."""
        x_r, x_z, x_n = projected.chunk(3, dim=-1)
        h_r, h_z, h_n = self.hidden_map(h).chunk(3, dim=-1)
        reset = torch.sigmoid(x_r + h_r)
        update = torch.sigmoid(x_z + h_z)
        candidate = torch.tanh(x_n + reset * h_n)
        return candidate + update * (h - candidate)


class Encoder(nn.Module):
    """Read the source from left to right: h_i = f(h_{i-1}, x_i), with h_0 = 0.

    Returns every state, zero at padding, and each sequence's last one, taken at its true length:
    a sequence gets the same states alone and in a padded batch.
    Errors: ValueError for a length below 1 or beyond the source.
    Source: Sutskever et al. 2014, section 2. Chapter: 1 (Sequence to sequence).
    """

    def __init__(self, vocab: int, d_embed: int, d_hidden: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_embed)
        self.cell = GRUCell(d_embed, d_hidden)
        self.d_hidden = d_hidden

    def forward(
        self, source: Int[Tensor, "batch source_time"], source_lengths: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch source_time d_hidden"], Float[Tensor, "batch d_hidden"]]:
        real = real_positions(source_lengths, source.shape[1])
        projected = self.cell.input_map(self.embedding(source))  # (batch, source_time, 3 d_hidden)
        h = projected.new_zeros(len(source), self.d_hidden)
        states = []
        for x in projected.unbind(dim=1):  # the loop that no second processor can shorten
            h = self.cell.advance(x, h)
            states.append(h)
        states = torch.stack(states, dim=1) * real.unsqueeze(-1)
        rows = torch.arange(len(source), device=source.device)
        return states, states[rows, source_lengths - 1]


def real_positions(lengths: Int[Tensor, " batch"], time: int) -> Bool[Tensor, "batch {time}"]:
    """True where a right-padded batch holds a real token: position < length.

    Errors: ValueError for a length below 1 or above `time`. Chapter: 1 (Sequence to sequence).
    """
    if lengths.min() < 1 or lengths.max() > time:
        found = f"{lengths.min().item()} to {lengths.max().item()}"
        raise ValueError(
            f"expected source lengths from 1 to {time}, got {found}: "
            "count each sequence's real tokens, padding left out"
        )
    return torch.arange(time, device=lengths.device) < lengths.unsqueeze(1)

"""The two layers of Table 1 that are not attention, as small as they can be.

Both map n vectors of width d to n vectors of width d. They stand here to be counted, timed and
looked through; the book's models do without them.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class Recurrence(nn.Module):
    """h_t = tanh(W x_t + U h_{t-1}), h_0 = 0: one position after another.

    Shapes: (batch, time, d) to (batch, time, d). Errors: ValueError for less than one round.
    Source: Elman 1990; Attention Is All You Need, table 1. Chapter: 13 (Complexity).
    """

    def __init__(self, d: int):
        super().__init__()
        self.from_input = nn.Linear(d, d, bias=False)  # W
        self.from_state = nn.Linear(d, d, bias=False)  # U

    def forward(self, x: Float[Tensor, "batch time d"]) -> Float[Tensor, "batch time d"]:
        projected = self.from_input(x)
        state = torch.tanh(projected[:, 0])
        states = [state]
        for t in range(1, x.shape[1]):
            state = torch.tanh(projected[:, t] + self.from_state(state))
            states.append(state)
        return torch.stack(states, dim=1)

    def rounds(self, x: Float[Tensor, "batch time d"], count: int) -> Float[Tensor, "batch time d"]:
        """Let each position hear its neighbour `count` times, all positions at once.

        After time - 1 rounds the states are those of `forward`: what a recurrence does in time
        steps, written as a stack of layers whose paths can be counted.
        Source: ours. Chapter: 13 (Complexity).
        """
        if count < 1:
            raise ValueError(f"expected one round or more, got {count}")
        projected = self.from_input(x)
        states = torch.tanh(projected)
        for _ in range(count):
            before = F.pad(states, (0, 0, 1, -1))  # h_{t-1} at position t, 0 at the first
            states = torch.tanh(projected + self.from_state(before))
        return states


class CausalConvolution(nn.Module):
    """Each position reads itself and k - 1 positions before it, `dilation` steps apart.

    Shapes: (batch, time, d) to (batch, time, d).
    Source: Attention Is All You Need, table 1; van den Oord et al. 2016 (dilation).
    Chapter: 13 (Complexity).
    """

    def __init__(self, d: int, k: int, dilation: int = 1):
        super().__init__()
        self.before = (k - 1) * dilation
        self.convolution = nn.Conv1d(d, d, k, dilation=dilation, bias=False)

    def forward(self, x: Float[Tensor, "batch time d"]) -> Float[Tensor, "batch time d"]:
        x = F.pad(x.transpose(1, 2), (self.before, 0))  # Conv1d wants time last
        return self.convolution(x).transpose(1, 2)

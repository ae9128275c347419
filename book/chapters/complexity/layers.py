"""The layers of Table 1 that are not full attention, as small as they can be.

Recurrence and convolution map n vectors of dimension d to n vectors of dimension d. They are here
to be counted, timed and looked through; the book's models do without them. `windowed_attention`
computes the attention that `lib.masks.window_mask` describes block by block, so that no (time,
time) matrix is ever made: a full matrix under a mask costs as much as without one."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from lib.attention import scaled_dot_product_attention

LEAST_BLOCK = 32  # smaller blocks spend their time on the way in and out of the kernel


class Recurrence(nn.Module):
    """h_t = tanh(W x_t + U h_{t-1}), h_0 = 0: sequential, position by position.

    Shapes: (batch, time, d) to (batch, time, d). Errors: ValueError for less than one round.
    Source: Elman 1990; Attention Is All You Need, table 1.
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
        """Let each position read its neighbour's state `count` times, all positions at once.

        After time - 1 rounds the states are those of `forward`: what a recurrence does in time
        steps, written as a stack of layers whose paths can be counted.
        """
        if count < 1:
            raise ValueError(f"expected one round or more, got {count}")
        projected = self.from_input(x)
        states = torch.tanh(projected)
        for _ in range(count):
            before = F.pad(states, (0, 0, 1, -1))  # h_{t-1} at position t, 0 at the first
            states = torch.tanh(projected + self.from_state(before))
        return states


class UnchainedRecurrence(Recurrence):
    """tanh(W x_t + U x_{t-1}): the calls of a recurrence, none of which waits for another.

    A control for the recurrence. It computes what a convolution of kernel 2 does, before its tanh.

    Shapes: (batch, time, d) to (batch, time, d).
    Source: ours.
    """

    def forward(self, x: Float[Tensor, "batch time d"]) -> Float[Tensor, "batch time d"]:
        projected = self.from_input(x)
        states = [torch.tanh(projected[:, 0])]
        for t in range(1, x.shape[1]):
            states.append(torch.tanh(projected[:, t] + self.from_state(x[:, t - 1])))
        return torch.stack(states, dim=1)


class CausalConvolution(nn.Module):
    """Each position reads itself and k - 1 positions before it, `dilation` steps apart.

    Shapes: (batch, time, d) to (batch, time, d).
    Source: Attention Is All You Need, table 1; van den Oord et al. 2016 (dilation).
    """

    def __init__(self, d: int, k: int, dilation: int = 1):
        super().__init__()
        self.before = (k - 1) * dilation
        self.convolution = nn.Conv1d(d, d, k, dilation=dilation, bias=False)

    def forward(self, x: Float[Tensor, "batch time d"]) -> Float[Tensor, "batch time d"]:
        x = F.pad(x.transpose(1, 2), (self.before, 0))  # Conv1d wants time last
        return self.convolution(x).transpose(1, 2)


def windowed_attention(
    query: Float[Tensor, "*batch time d_k"],
    key: Float[Tensor, "*batch time d_k"],
    value: Float[Tensor, "*batch time d_v"],
    radius: int,
    *,
    causal: bool = False,
    key_mask: Bool[Tensor, "*batch time"] | None = None,
) -> Float[Tensor, "*batch time d_v"]:
    """Attention in which position i attends to the keys j with |i - j| <= radius only.

    The queries are split into blocks. Each block is compared with its own keys and with `radius`
    more on either side: time * (block + 2 radius) scores instead of time * time.

    Shapes: query and key (*batch, time, d_k), value (*batch, time, d_v); key_mask, boolean, True =
        may be attended to, (*batch, time). Returns (*batch, time, d_v); a fully masked
        row gets zeros.
    Args: causal leaves out the keys after position i, and their cost.
    Errors: ValueError for a negative radius, for keys or values of another length than the
        queries, for a mask that is not boolean or has another shape.
    Source: Attention Is All You Need, section 4.
    """
    _require_fitting(query, key, value, radius, key_mask)
    time = query.shape[-2]
    block = max(radius, LEAST_BLOCK)
    after = 0 if causal else radius
    may_attend = key_mask if key_mask is not None else query.new_ones(1, time, dtype=torch.bool)

    q = _blocks(query, block, 0, 0)  # (sequences, n_blocks, block, d_k)
    k = _blocks(key, block, radius, after)  # (sequences, n_blocks, span, d_k)
    v = _blocks(value, block, radius, after)  # (sequences, n_blocks, span, d_v)
    real = _blocks(may_attend.unsqueeze(-1), block, radius, after)  # (sequences or 1, .., span, 1)

    query_at = torch.arange(block, device=query.device).unsqueeze(-1)  # (block, 1)
    key_at = torch.arange(-radius, block + after, device=query.device)  # (span,)
    near = (key_at - query_at).abs() <= radius  # (block, span)
    if causal:
        near &= key_at <= query_at
    mask = near & real.transpose(-2, -1)  # (sequences or 1, n_blocks, block, span)
    output = scaled_dot_product_attention(q, k, v, mask)  # (sequences, n_blocks, block, d_v)
    return output.flatten(1, 2)[:, :time].reshape(*query.shape[:-1], value.shape[-1])


def _blocks(
    x: Shaped[Tensor, "*batch time d"], block: int, before: int, after: int
) -> Shaped[Tensor, "sequences n_blocks span d"]:
    """Split the time axis into blocks, each with its neighbours: span = before + block + after.

    Where there are none, at the ends, the numbers are zeros, and the booleans False.
    """
    x = x.reshape(-1, *x.shape[-2:])  # (sequences, time, d)
    fill = -x.shape[1] % block  # makes the last block full
    x = F.pad(x, (0, 0, before, after + fill))
    return x.unfold(1, before + block + after, block).transpose(-2, -1)


def _require_fitting(
    query: Tensor, key: Tensor, value: Tensor, radius: int, key_mask: Tensor | None
) -> None:
    if radius < 0:
        raise ValueError(
            f"expected a radius of 0 or more, got {radius}; with 0 each attends to itself"
        )
    if not query.shape[:-1] == key.shape[:-1] == value.shape[:-1]:
        raise ValueError(
            "expected query, key and value with the same positions, got "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}; a window is "
            "measured within one sequence, so this is self-attention"
        )
    if key_mask is not None and (
        key_mask.dtype != torch.bool or key_mask.shape != query.shape[:-1]
    ):
        raise ValueError(
            f"expected a boolean key_mask of shape {tuple(query.shape[:-1])}, True = may be "
            f"attended to, got {key_mask.dtype} of shape {tuple(key_mask.shape)}"
        )

"""Wrong answers to the exercises of chapter 1, each a mistake that people make."""

import torch
from torch.nn import functional as F

from lib.data import BOS


def lstm(order="ifgo", candidate=torch.tanh, squash=torch.tanh):
    def step(x, h, c, W, U, b):
        parts = dict(zip(order, (x @ W.T + h @ U.T + b).chunk(4, dim=-1), strict=True))
        i, f, o = (torch.sigmoid(parts[gate]) for gate in "ifo")
        c = f * c + i * candidate(parts["g"])
        return o * squash(c), c

    return step


WRONG = {
    "last_states": [
        lambda states, lengths: states[:, -1],  # the end of the padding
        lambda states, lengths: states[torch.arange(5), lengths.clamp(max=6)],  # one too late
        lambda states, lengths: states[torch.arange(5), lengths - 2],  # one too early
        lambda states, lengths: states[:, lengths - 1],  # every sequence with every length
        lambda states, lengths: states.sum(1),
    ],
    "shift_right": [
        lambda target_out: target_out,  # not shifted
        lambda target_out: target_out.roll(1, dims=1),  # padding or EOS comes first
        lambda target_out: F.pad(target_out[:, :-1], (1, 0), value=BOS),  # reads EOS
        lambda target_out: F.pad(target_out, (1, 0), value=BOS),  # too long
        lambda target_out: F.pad(target_out[:, 1:], (0, 1), value=BOS),  # the wrong way
    ],
    "lstm_step": [
        lstm(order="figo"),
        lstm(order="ifog"),
        lstm(candidate=torch.sigmoid),
        lstm(squash=lambda c: c),
        lambda *inputs: lstm()(*inputs)[::-1],  # c first
        lambda *inputs: lstm()(*inputs)[0],  # h alone
    ],
}

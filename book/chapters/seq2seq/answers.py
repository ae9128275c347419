"""Chapter 1: right answers in several styles, and wrong ones with what each must be told."""

import torch
from torch import nn
from torch.nn import functional as F

from lib.data import BOS, EOS, PAD


def picked_by_product(states, lengths):
    last = torch.arange(states.shape[1]) == lengths[:, None] - 1
    return (states * last[..., None]).sum(1)


def picked_into(buffer):
    """A loop that writes into a buffer, which has the default dtype unless it is made like it."""

    def last_states(states, lengths):
        out = buffer(states)
        for row, n in enumerate(lengths):
            out[row] = states[row, n - 1]
        return out

    return last_states


def lengths_in_place(states, lengths):
    lengths -= 1
    return states[torch.arange(len(states)), lengths]


def shifted_lists(target_out):
    rows = [[BOS, *row[:-1]] for row in target_out.tolist()]
    return torch.tensor([[PAD if token == EOS else token for token in row] for row in rows])


def shifted_into(buffer):
    def shift_right(target_out):
        target_in = buffer(target_out)
        target_in[:, 0] = BOS
        target_in[:, 1:] = target_out[:, :-1].where(target_out[:, :-1] != EOS, PAD)
        return target_in

    return shift_right


def shifted_window(target_out):
    wide = F.pad(target_out.masked_fill(target_out == EOS, PAD), (1, 0), value=BOS)
    return wide[:, :-1]  # a view


def shifted_in_place(target_out):
    target_out[:, 1:] = target_out[:, :-1].masked_fill(target_out[:, :-1] == EOS, PAD)
    target_out[:, 0] = BOS
    return target_out


def eos_struck_out_in_place(target_out):
    target_out[target_out == EOS] = PAD
    return F.pad(target_out[:, :-1], (1, 0), value=BOS)


def shifted_over_itself(target_out):
    target_in = target_out.masked_fill(target_out == EOS, PAD)
    target_in[:, 0] = BOS
    for t in range(1, target_in.shape[1]):
        target_in[:, t] = target_in[:, t - 1]  # already overwritten
    return target_in


def first_token(number, where_eos=PAD):
    def shift_right(target_out):
        target_in = F.pad(target_out[:, :-1], (1, 0), value=number)
        return torch.where(target_in == EOS, where_eos, target_in)

    return shift_right


def masked_by_the_other(target_out):
    target_in = F.pad(target_out[:, :-1], (1, 0), value=BOS)
    return target_in.masked_fill(target_out == EOS, PAD)


def rolled(target_out):
    target_in = target_out.roll(1, dims=1)
    target_in[:, 0] = BOS
    target_in[target_in == EOS] = PAD
    return target_in


def lstm(order="ifgo", candidate=torch.tanh, squash=torch.tanh, bias=1.0):
    def step(x, h, c, W, U, b):
        parts = dict(zip(order, (x @ W.T + h @ U.T + bias * b).chunk(4, dim=-1), strict=True))
        i, f, o = (torch.sigmoid(parts[gate]) for gate in "ifo")
        c = f * c + i * candidate(parts["g"])
        return o * squash(c), c

    return step


def lstm_by_slices(x, h, c, W, U, b):
    n = h.shape[1]
    gates = [
        F.linear(x, W[k * n : (k + 1) * n], b[k * n : (k + 1) * n]) + h @ U[k * n : (k + 1) * n].T
        for k in range(4)
    ]
    i, f, o = (1 / (1 + torch.exp(-gates[k])) for k in (0, 1, 3))
    new_c = torch.addcmul(f * c, i, gates[2].tanh())
    return [o * new_c.tanh(), new_c]


def lstm_one_by_one(x, h, c, W, U, b):
    joined, both = torch.cat([W, U], dim=1), torch.cat([x, h], dim=1)
    new_h, new_c = torch.zeros_like(h), torch.zeros_like(c)
    for row in range(len(x)):
        i, f, g, o = (joined @ both[row] + b).view(4, -1)
        new_c[row] = f.sigmoid() * c[row] + i.sigmoid() * g.tanh()
        new_h[row] = o.sigmoid() * new_c[row].tanh()
    return new_h, new_c


def lstm_in_place(x, h, c, W, U, b):
    i, f, g, o = (x @ W.T + h @ U.T + b).chunk(4, dim=-1)
    c *= f.sigmoid()
    c += i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def lstm_on_a_copy(x, h, c, W, U, b):
    return lstm_in_place(x, h, c.clone(), W, U, b)


def lstm_by_torchs_cell(x, h, c, W, U, b):
    cell = nn.LSTMCell(x.shape[1], h.shape[1])
    named = {"weight_ih": W, "weight_hh": U, "bias_ih": b / 2, "bias_hh": b / 2}
    return torch.func.functional_call(cell, named, (x, (h, c)))


def lstm_into_h(x, h, c, W, U, b):
    new_h, new_c = lstm()(x, h, c, W, U, b)
    return h.copy_(new_h), new_c


def lstm_old_c(x, h, c, W, U, b):
    gates = (x @ W.T + h @ U.T + b).chunk(4, dim=-1)
    return gates[3].sigmoid() * c.tanh(), lstm()(x, h, c, W, U, b)[1]


def lstm_interleaved(x, h, c, W, U, b):
    i, f, g, o = (x @ W.T + h @ U.T + b).unflatten(-1, (-1, 4)).unbind(-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


RIGHT = {
    "last_states": [
        lambda states, lengths: torch.stack(
            [s[n - 1] for s, n in zip(states, lengths, strict=True)]
        ),
        lambda states, lengths: states[range(len(states)), [n - 1 for n in lengths.tolist()]],
        lambda states, lengths: torch.take_along_dim(states, lengths[:, None, None] - 1, 1)[:, 0],
        lambda states, lengths: torch.einsum(
            "btd,bt->bd", states, F.one_hot(lengths - 1, states.shape[1]).to(states.dtype)
        ),
        picked_by_product,
        picked_into(lambda states: torch.empty_like(states[:, 0])),
        picked_into(lambda states: torch.zeros(len(states), states.shape[-1])),
        lambda states, lengths: states.gather(
            1, (lengths - 1).view(-1, 1, 1).expand(-1, 1, states.shape[-1])
        ).squeeze(1),
        lambda states, lengths: states[torch.arange(states.shape[1]) == lengths[:, None] - 1],
        lambda states, lengths: states.flatten(0, 1)[
            torch.arange(len(states)) * states.shape[1] + lengths - 1
        ],
    ],
    "shift_right": [
        shifted_lists,
        shifted_into(torch.zeros_like),
        shifted_window,
        first_token(BOS),
        rolled,
        lambda target_out: torch.column_stack(
            [torch.tensor([BOS] * len(target_out)), (target_out * (target_out != EOS))[:, :-1]]
        ),
        lambda target_out: torch.cat(
            (
                target_out.new_full((len(target_out), 1), BOS),
                target_out.masked_fill(target_out == EOS, PAD)[:, :-1],
            ),
            1,
        ),
    ],
    "lstm_step": [
        lstm(),
        lstm_by_slices,
        lstm_one_by_one,
        lstm_on_a_copy,
        lstm_by_torchs_cell,
        lambda x, h, c, W, U, b: torch.lstm_cell(x, (h, c), W, U, b, torch.zeros_like(b)),
    ],
}
WRONG = {
    "last_states": {
        lambda states, lengths: states[:, -1]: "end of the padding",
        lambda states, lengths: states[torch.arange(5), lengths.clamp(max=6)]: "one too late",
        lambda states, lengths: states[torch.arange(5), lengths - 2]: "one too early",
        lambda states, lengths: states[:, lengths - 1]: "got (5, 5, 2)",
        lambda states, lengths: states.sum(1): "row b must be",
        lambda states, lengths: states[:, 0]: "row b must be",
        lambda states, lengths: states[torch.arange(len(states)), -lengths]: "row b must be",
        lambda states, lengths: states[torch.arange(5), lengths - 1][:, None]: "got (5, 1, 2)",
        lambda states, lengths: states[
            range(len(states)), lengths - 1
        ].detach(): "the output is detached from the inputs",
        lambda states, lengths: states[0, lengths - 1]: "row b must be",
        lambda states, lengths: states[:, int(lengths.max()) - 1]: "end of the padding",
        lambda states, lengths: states[torch.arange(5), lengths]: "out of bounds",
        lengths_in_place: "argument 2 was changed",
        picked_into(lambda states: torch.zeros(5, states.shape[-1])): "(3, 2), got (5, 2)",
    },
    "shift_right": {
        lambda target_out: target_out: "not shifted",
        lambda target_out: target_out.roll(1, dims=1): "row 0 starts with 2, not with BOS",
        lambda target_out: F.pad(
            target_out[:, :-1], (1, 0), value=BOS
        ): "dropping the last column does not remove it",
        lambda target_out: F.pad(target_out, (1, 0), value=BOS): "got (3, 6)",
        lambda target_out: F.pad(target_out[:, 1:], (0, 1), value=BOS): "shifted to the left",
        lambda target_out: first_token(BOS)(target_out)[:, :-1]: "got (3, 4)",
        lambda target_out: first_token(BOS)(
            target_out
        ).tolist(): "expected a tensor of shape (3, 5), got a list of 3",
        first_token(PAD): "row 0 starts with 0, not with BOS",
        first_token(EOS): "row 0 starts with 0, not with BOS",
        first_token(BOS, where_eos=BOS): "expected rows",
        shifted_into(lambda target_out: torch.zeros(target_out.shape)): "expected whole numbers",
        shifted_over_itself: "got [1, 1, 1, 1, 1]",
        lambda target_out: first_token(BOS)(target_out) * 1.0: "expected whole numbers",
        masked_by_the_other: "row 2 starts with 0, not with BOS",
        shifted_in_place: "argument 1 was changed",
        eos_struck_out_in_place: "argument 1 was changed",
    },
    "lstm_step": {
        lstm(order="figo"): "the rows of W come as input, forget",
        lstm(order="ifog"): "the rows of W come as input, forget",
        lstm(candidate=torch.sigmoid): "the candidate tanh",
        lstm(squash=lambda c: c): "output * tanh(c')",
        lstm(bias=0): "b is missing",
        lambda *inputs: lstm()(*inputs)[::-1]: "h and c are swapped: return the new h first",
        lambda *inputs: lstm()(*inputs)[0]: "the new h and the new c, got a tensor of shape (7, 5)",
        lstm_old_c: "output * tanh(c')",
        lstm(squash=torch.sigmoid): "output * tanh(c')",
        lambda x, h, c, W, U, b: lstm()(x, h, c, W.T, U, b): "shapes cannot be multiplied",
        lstm_interleaved: "rows of W come as",
        lstm_in_place: "argument 3 was changed",
        lstm_into_h: "argument 2 was changed",
    },
}

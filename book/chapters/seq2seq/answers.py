"""Chapter 1: right answers in several styles, and wrong ones with what each must be told."""

import torch
from torch import nn
from torch.nn import functional as F

from lib.data import BOS, EOS, PAD


def encoded(parts, source):
    h = torch.zeros(parts.d_hidden)
    for x in parts.embed_x(source):
        h = parts.f(x, h)
    return h


def decoded(first=BOS, stop=EOS, keep_first=False, drop_eos=False, more=0, state=None, read=None):
    """Greedy decoding, with one thing that can be wrong in each argument."""

    def translate_one(parts, source, longest):
        c = encoded(parts, source)
        s = state(c) if state else c
        tokens = [first]
        while (len(tokens) == 1 or tokens[-1] != stop) and len(tokens) <= longest + more:
            y = parts.embed_y(torch.tensor(tokens[-1] if read is None else read))
            s = parts.g(torch.cat([y, c]), s)
            tokens.append(parts.output(s).argmax().item())
        tokens = tokens if keep_first else tokens[1:]
        return [token for token in tokens if token != EOS] if drop_eos else tokens

    return translate_one


def decoded_in_a_batch(parts, source, longest):
    h = torch.zeros(1, parts.d_hidden)
    for token in source:
        h = parts.f(parts.embed_x(token[None]), h)
    token, s, found = torch.tensor([BOS]), h, []
    for _ in range(longest):
        s = parts.g(torch.cat([parts.embed_y(token), h], dim=-1), s)
        token = parts.output(s).argmax(-1)
        found.append(token)
        if token == EOS:
            break
    return torch.cat(found)


def decoded_by_recursion(parts, source, longest):
    c = encoded(parts, source)

    def rest(token, s, left):
        if not left or token == EOS:
            return []
        s = parts.g(torch.cat([parts.embed_y.weight[token], c]), s)
        token = int(parts.output(s).softmax(0).argmax())
        return [token, *rest(token, s, left - 1)]

    return rest(BOS, c, longest)


def translated_after(change):
    """Right, but of another source."""
    return lambda parts, source, longest: decoded()(parts, change(source), longest)


def forgetful(parts, source, longest):
    last = source[-1:]  # as if each word were the first
    return decoded()(parts, last, longest)


def state_as_context(parts, source, longest):
    s = encoded(parts, source)
    tokens = [BOS]
    while (len(tokens) == 1 or tokens[-1] != EOS) and len(tokens) <= longest:
        s = parts.g(torch.cat([parts.embed_y(torch.tensor(tokens[-1])), s]), s)
        tokens.append(parts.output(s).argmax().item())
    return tokens[1:]


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
    "translate_one": [decoded(), decoded_in_a_batch, decoded_by_recursion],
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
    "translate_one": {
        decoded(keep_first=True): "BOS is only read",
        decoded(drop_eos=True): "it belongs into the list",
        decoded(stop=None): "nothing may be written after EOS",
        decoded(more=1): "10 tokens were written",
        forgetful: "the state of the step before",
        translated_after(lambda source: source.flip(0)): "backwards",
        decoded(state=torch.zeros_like): "first state is the context, not zero",
        decoded(first=EOS): "the first word that the decoder reads is BOS",
        decoded(first=PAD): "the first word that the decoder reads is BOS",
        decoded(read=BOS): "the word that it has just written",
        translated_after(lambda source: source[:-1]): "expected [",
        state_as_context: "expected [",
        lambda parts, source, longest: None: "expected a list of tokens, got None",
        lambda parts, source, longest: decoded()(
            parts, source[None], longest
        ): "your function raised",
    },
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

"""Wrong answers to the exercises of chapter 15: parts that are mended only in part."""

import math

import torch
from torch import nn

from lib.attention import scaled_dot_product_attention


def map_with(root=-1, axis=-1, fill="lowest", empty=True):
    """A map with a choice of the mistakes left in."""

    def weigh(query, key, mask):
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(root))
        lowest = {"lowest": torch.finfo(scores.dtype).min, "billion": -1e9, "inf": -math.inf}[fill]
        weights = scores.masked_fill(~mask, lowest).softmax(dim=axis)
        return weights.masked_fill(~mask, 0.0) if empty else weights

    return weigh


def layer_with(in_init=True, by_reshape=False, slices=False):
    class Layer(nn.Module):
        def __init__(self, d_in, n_heads, d_out):
            super().__init__()
            self.n_heads, self.d_out = n_heads, d_out
            width = d_in // n_heads if slices else d_in
            self.w_q, self.w_k, self.w_v = (nn.Linear(width, width) for _ in range(3))
            if in_init:
                self.w_o = nn.Linear(d_in, d_out)

        def split(self, x):
            if by_reshape:
                return x.reshape(len(x), self.n_heads, x.shape[1], -1)
            return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

        def forward(self, x):
            ways = (self.w_q, self.w_k, self.w_v)
            parts = [w(self.split(x)) if slices else self.split(w(x)) for w in ways]
            heads = scaled_dot_product_attention(*parts)
            joined = heads.reshape(x.shape) if by_reshape else heads.transpose(1, 2).flatten(2)
            w_o = self.w_o if in_init else nn.Linear(joined.shape[-1], self.d_out)
            return w_o(joined)

    return Layer


class OutputBackwards(layer_with()):
    def forward(self, x):
        parts = [self.split(w(x)) for w in (self.w_q, self.w_k, self.w_v)]
        joined = scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)
        return joined @ self.w_o.weight + self.w_o.bias


def positions_with(exponent=True, buffer=True, start=True, zero=False):
    class Positions(nn.Module):
        def __init__(self, d_model, max_length):
            super().__init__()
            column = torch.arange(d_model)
            power = (column // 2 * 2 if exponent else column) / d_model
            angle = torch.arange(max_length)[:, None] / 10_000**power
            table = torch.where(column % 2 == 0, angle.sin(), angle.cos()) * (not zero)
            if buffer:
                self.register_buffer("table", table)
            else:
                self.table = table

        def forward(self, x, start=0):
            first = start if use_start else 0
            return x + self.table[first : first + x.shape[1]]

    use_start = start
    return Positions


def changed(target, t):
    return torch.cat((target[:, :t], (target[:, t:] + 1) % 23, target[:, t + 1 : 0]), dim=1)


@torch.no_grad()
def in_use_only(model, source, lengths, target):
    training = model.training
    model.eval()
    before = model(source, lengths, target)
    leaks = any(
        not torch.allclose(model(source, lengths, changed(target, t))[:, :t], before[:, :t])
        for t in range(1, target.shape[1])
    )
    model.train(training)
    return leaks


@torch.no_grad()
def in_the_mode_it_has(model, source, lengths, target):
    torch.manual_seed(0)
    before = model(source, lengths, target)
    torch.manual_seed(0)
    after = model(source, lengths, changed(target, target.shape[1] - 1))
    return not torch.allclose(before[:, :-1], after[:, :-1], atol=1e-6)


@torch.no_grad()
def dropout_forgotten(model, source, lengths, target):
    training, leaks = model.training, False
    for mode in (True, False):
        model.train(mode)
        before = model(source, lengths, target)
        after = model(source, lengths, changed(target, target.shape[1] - 1))
        leaks |= not torch.allclose(before[:, :-1], after[:, :-1], atol=1e-6)
    model.train(training)
    return bool(leaks)


@torch.no_grad()
def next_token_only(model, source, lengths, target):
    """Looks at the logit just before the change: it misses a leak from far away."""
    training, leaks = model.training, False
    for mode in (True, False):
        model.train(mode)
        for t in range(1, target.shape[1]):
            torch.manual_seed(0)
            before = model(source, lengths, target)[:, t - 1]
            torch.manual_seed(0)
            other = target.clone()
            other[:, t] = (target[:, t] + 1) % 23
            after = model(source, lengths, other)[:, t - 1]
            leaks |= not torch.allclose(before, after, atol=1e-6)
    model.train(training)
    return bool(leaks)


def mode_not_restored(model, source, lengths, target):
    found = in_use_only(model, source, lengths, target)
    model.eval()
    return found


WRONG = {
    "mended_map": [
        map_with(root=1),
        map_with(axis=-2),
        map_with(fill="billion"),
        map_with(fill="inf", empty=False),
        map_with(empty=False),
    ],
    "MendedLayer": [
        layer_with(in_init=False),
        layer_with(by_reshape=True),
        layer_with(slices=True),
        OutputBackwards,
    ],
    "MendedPositions": [
        positions_with(exponent=False),
        positions_with(buffer=False),
        positions_with(start=False),
        positions_with(zero=True),
    ],
    "finds_leak": [
        in_use_only,
        in_the_mode_it_has,
        dropout_forgotten,
        next_token_only,
        mode_not_restored,
        lambda *_: True,
    ],
}

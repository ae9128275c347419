"""Wrong answers to the exercises of chapter 9, each a mistake that people make."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from lib.data import PAD
from lib.training import label_smoothed_loss, token_loss


def scattered(tokens, upstream, vocab, factor=1.0):
    weight = upstream.new_zeros(vocab, upstream.shape[-1])
    return weight.index_add(0, tokens.flatten(), upstream.flatten(0, 1)) * factor


def overwritten(tokens, upstream, vocab):
    weight = upstream.new_zeros(vocab, upstream.shape[-1])
    weight[tokens.flatten()] = upstream.flatten(0, 1) * math.sqrt(upstream.shape[-1])
    return weight


def averaged(tokens, upstream, vocab):
    counts = torch.bincount(tokens.flatten(), minlength=vocab).clamp(min=1)
    root = math.sqrt(upstream.shape[-1])
    return scattered(tokens, upstream, vocab, root) / counts[:, None]


class Base(nn.Module):
    """Right; each wrong answer spoils one thing."""

    def __init__(self, vocab, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab, d_model) / math.sqrt(d_model))
        self.root = math.sqrt(d_model)

    def embed(self, tokens):
        return F.embedding(tokens, self.weight) * self.root

    def score(self, x):
        return x @ self.weight.T


class Copied(Base):
    def __init__(self, vocab, d_model):
        super().__init__(vocab, d_model)
        self.out = nn.Parameter(self.weight.detach().clone())

    def score(self, x):
        return x @ self.out.T


class SameNumbersTwoParameters(Copied):
    def __init__(self, vocab, d_model):
        super().__init__(vocab, d_model)
        self.out = nn.Parameter(self.weight.data)  # one storage, two gradients


class CopyKept(Base):
    def __init__(self, vocab, d_model):
        super().__init__(vocab, d_model)
        self.register_buffer("out", self.weight.detach().clone())

    def score(self, x):
        return x @ self.out.T


class CutOff(Base):
    def score(self, x):
        return x @ self.weight.detach().T


class ScaledTwice(Base):
    def score(self, x):
        return super().score(x) * self.root


class ScaledAtTheOutput(ScaledTwice):
    def embed(self, tokens):
        return F.embedding(tokens, self.weight)


class NotScaled(Base):
    def embed(self, tokens):
        return F.embedding(tokens, self.weight)


class SquaredScale(Base):
    def embed(self, tokens):
        return super().embed(tokens) * self.root


class WideStart(Base):
    def __init__(self, vocab, d_model):
        super().__init__(vocab, d_model)
        nn.init.normal_(self.weight)  # as nn.Embedding starts


class WithBias(Base):
    def __init__(self, vocab, d_model):
        super().__init__(vocab, d_model)
        self.projection = nn.Linear(d_model, vocab)
        self.projection.weight = self.weight

    def score(self, x):
        return self.projection(x)


def parts(logits, target_out):
    log_p = logits.log_softmax(-1)
    on_target = -log_p.gather(-1, target_out.unsqueeze(-1)).squeeze(-1)
    return log_p, on_target, target_out != PAD


def on_padding(logits, target_out, smoothing):
    return F.cross_entropy(logits.flatten(0, 1), target_out.flatten(), label_smoothing=smoothing)


def padding_below_the_line(logits, target_out, smoothing):
    total = label_smoothed_loss(logits, target_out, smoothing) * (target_out != PAD).sum()
    return total / target_out.numel()


def among_the_others(logits, target_out, smoothing):
    log_p, on_target, real = parts(logits, target_out)
    others = (-log_p.sum(-1) - on_target) / (logits.shape[-1] - 1)
    return ((1 - smoothing) * on_target + smoothing * others)[real].mean()


def torch_own(logits, target_out, smoothing):
    flat = logits.flatten(0, 1), target_out.flatten()
    return F.cross_entropy(*flat, ignore_index=PAD, label_smoothing=smoothing)


def nan_swept_away(logits, target_out, smoothing):
    return label_smoothed_loss(logits, target_out, smoothing).nan_to_num()


def shares_of_the_banned_lost(logits, target_out, smoothing):
    log_p, on_target, real = parts(logits, target_out)
    everywhere = -log_p.masked_fill(logits == -torch.inf, 0.0).mean(-1)
    return ((1 - smoothing) * on_target + smoothing * everywhere)[real].mean()


def filled_with_a_large_number(logits, target_out, smoothing):
    return label_smoothed_loss(logits.clamp(min=-1e4), target_out, smoothing)


def swapped(logits, target_out, smoothing):
    return label_smoothed_loss(logits, target_out, 1 - smoothing - 1e-9)


def mean_of_sentences(logits, target_out, smoothing):
    rows = zip(logits, target_out, strict=True)
    return torch.stack([label_smoothed_loss(x[None], t[None], smoothing) for x, t in rows]).mean()


WRONG = {
    "lookup_gradient": [
        overwritten,  # a token that occurs twice: the last occurrence wins
        scattered,  # without sqrt(d_model)
        averaged,
        lambda tokens, upstream, vocab: scattered(tokens, upstream, vocab, upstream.shape[-1]),
        lambda tokens, upstream, vocab: scattered(  # of the first sentence alone
            tokens[:1], upstream[:1], vocab, math.sqrt(upstream.shape[-1])
        ),
        lambda tokens, upstream, vocab: upstream * math.sqrt(upstream.shape[-1]),
        lambda tokens, upstream, vocab: (
            scattered(tokens, upstream, vocab, math.sqrt(upstream.shape[-1])).T
        ),
    ],
    "SharedMatrix": [
        Copied,
        SameNumbersTwoParameters,
        CopyKept,
        CutOff,
        ScaledTwice,
        ScaledAtTheOutput,
        NotScaled,
        SquaredScale,
        WideStart,
        WithBias,
    ],
    "smoothed_loss": [
        on_padding,
        padding_below_the_line,
        among_the_others,  # over V - 1
        label_smoothed_loss,  # infinite, or NaN without smoothing, where a logit is -inf
        torch_own,
        nan_swept_away,
        shares_of_the_banned_lost,
        filled_with_a_large_number,
        swapped,
        mean_of_sentences,
        lambda logits, target_out, smoothing: token_loss(logits, target_out),
        lambda logits, target_out, smoothing: label_smoothed_loss(logits, target_out, 0.1),
    ],
}

"""Right and wrong answers to the exercises of chapter 9; the wrong ones with what they are told."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from lib.data import PAD
from lib.training import label_smoothed_loss, token_loss


def scattered(tokens, upstream, vocab, factor=1.0):
    weight = upstream.new_zeros(vocab, upstream.shape[-1])
    return weight.index_add(0, tokens.flatten(), upstream.flatten(0, 1)) * factor


def root_of_width(upstream):
    return math.sqrt(upstream.shape[-1])


def one_hot_product(tokens, upstream, vocab):
    one_hot = F.one_hot(tokens, num_classes=vocab).to(upstream.dtype)
    return torch.einsum("btv,btd->vd", one_hot, upstream) * root_of_width(upstream)


def token_by_token(tokens, upstream, vocab):
    gradient = torch.zeros(vocab, upstream.size(-1), dtype=upstream.dtype)
    for row, vectors in zip(tokens.tolist(), upstream, strict=True):
        for token, vector in zip(row, vectors, strict=True):
            gradient[token] += vector * root_of_width(upstream)
    return gradient


def word_by_word(tokens, upstream, vocab):
    rows = [upstream[tokens == word].sum(0) for word in range(vocab)]
    return upstream.shape[-1] ** 0.5 * torch.stack(rows)


def put(tokens, upstream, vocab):
    gradient = upstream.new_zeros((vocab, upstream.shape[-1]))
    return gradient.index_put_((tokens,), upstream * root_of_width(upstream), accumulate=True)


def scatter_added(tokens, upstream, vocab):
    rows = upstream.reshape(-1, upstream.shape[-1])
    place = tokens.reshape(-1, 1).expand_as(rows)
    return torch.zeros(vocab, rows.shape[1]).to(rows).scatter_add(0, place, rows) * root_of_width(
        rows
    )


def by_comparison(tokens, upstream, vocab):
    matches = (tokens[..., None] == torch.arange(vocab)).flatten(0, 1).to(upstream)
    return matches.T.matmul(upstream.flatten(0, 1)).mul_(root_of_width(upstream))


def by_sorting(tokens, upstream, vocab):
    """Differences of running sums."""
    counts = torch.bincount(tokens.flatten(), minlength=vocab)
    sums = F.pad(upstream.flatten(0, 1)[tokens.flatten().argsort()].cumsum(0), (0, 0, 1, 0))
    return (sums[counts.cumsum(0)] - sums[counts.cumsum(0) - counts]) * root_of_width(upstream)


def upstream_multiplied(tokens, upstream, vocab):
    return scattered(tokens, upstream.mul_(root_of_width(upstream)), vocab)


def padding_left_out(tokens, upstream, vocab):
    weight = scattered(tokens, upstream, vocab, root_of_width(upstream))
    weight[PAD] = 0
    return weight


def looked_up_by_autograd(tokens, upstream, vocab):
    weight = upstream.new_zeros(vocab, upstream.shape[-1]).requires_grad_()
    with torch.enable_grad():
        vectors = F.embedding(tokens, weight) * root_of_width(upstream)
    vectors.backward(upstream)
    return weight.grad


def not_accumulated(tokens, upstream, vocab):
    weight = upstream.new_zeros(vocab, upstream.shape[-1])
    weight[tokens] += upstream * root_of_width(upstream)
    return weight


def in_float32(tokens, upstream, vocab):
    weight = torch.zeros(vocab, upstream.shape[-1])
    return weight.index_add(0, tokens.flatten(), upstream.flatten(0, 1).float()) * root_of_width(
        upstream
    )


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


class Layers(nn.Module):
    """An nn.Embedding and an nn.Linear with one parameter."""

    def __init__(self, vocab, d_model):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d_model)
        self.projection = nn.Linear(d_model, vocab, bias=False)
        self.projection.weight = self.embedding.weight
        nn.init.normal_(self.embedding.weight, mean=0, std=d_model**-0.5)

    def embed(self, tokens):
        return self.embedding(tokens).mul_(self.embedding.embedding_dim**0.5)

    def score(self, x):
        return self.projection(x)


class OneLayer(nn.Module):
    """An nn.Embedding and a product; starts uniformly."""

    def __init__(self, vocab, d_model):
        super().__init__()
        self.table = nn.Embedding(vocab, d_model)
        nn.init.uniform_(self.table.weight, -(d_model**-0.5), d_model**-0.5)

    def embed(self, tokens):
        return math.sqrt(self.table.weight.size(1)) * self.table(tokens)

    def score(self, x):
        return torch.einsum("...d,vd->...v", x, self.table.weight)


class Indexed(nn.Module):
    """The matrix lies the other way; indexing instead of F.embedding."""

    def __init__(self, vocab, d_model):
        super().__init__()
        self.columns = nn.Parameter(torch.empty(d_model, vocab))
        nn.init.trunc_normal_(self.columns, std=0.5 / math.sqrt(d_model))

    def embed(self, tokens):
        return self.columns.T[tokens] * len(self.columns) ** 0.5

    def score(self, x):
        return torch.matmul(x, self.columns)


class LinearOnly(nn.Module):
    """As nn.Linear starts; its rows are looked up."""

    def __init__(self, vocab, d_model):
        super().__init__()
        self.score = nn.Linear(d_model, vocab, bias=False)

    def embed(self, tokens):
        return self.score.weight.index_select(0, tokens.flatten()).unflatten(0, tokens.shape) * (
            math.sqrt(self.score.in_features)
        )


class PaddingApart(Layers):
    """nn.Embedding keeps the vector of PAD at 0."""

    def __init__(self, vocab, d_model):
        super().__init__(vocab, d_model)
        self.embedding.padding_idx = PAD
        self.embedding.weight.data[PAD] = 0


class OneHot(Base):
    def embed(self, tokens):
        one_hot = F.one_hot(tokens, len(self.weight)).to(self.weight.dtype)
        return one_hot @ self.weight * self.root


class ScoreInPlace(Base):
    def score(self, x):
        return x.mul_(1.5).div_(1.5 - 1e-6) @ self.weight.T


class ScoreHalved(Base):
    def score(self, x):
        return super().score(x) / self.root


class ScoreNormalised(Base):
    def score(self, x):
        return super().score(F.layer_norm(x, x.shape[-1:]))


class WeightGrows(Base):
    def embed(self, tokens):
        self.weight.data.mul_(self.root)
        return F.embedding(tokens, self.weight)


class ZeroStart(Base):
    def __init__(self, vocab, d_model):
        super().__init__(vocab, d_model)
        nn.init.zeros_(self.weight)


class NoParameter(Base):
    def __init__(self, vocab, d_model):
        super().__init__(vocab, d_model)
        self.weight.requires_grad_(False)


class Probabilities(Base):
    def score(self, x):
        return super().score(x).softmax(-1)


class EmbeddingCutOff(Base):
    def embed(self, tokens):
        return super().embed(tokens).detach()


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


def over_real_tokens(logits, target_out, smoothing):
    losses = []
    for row, targets in zip(logits, target_out, strict=True):
        for scores, target in zip(row, targets, strict=True):
            if target != PAD:
                log_p = scores[scores > -torch.inf].log_softmax(-1)
                own = -scores.log_softmax(-1)[target]
                losses.append((1 - smoothing) * own - smoothing * log_p.mean())
    return torch.stack(losses).mean() if losses else logits.new_zeros(())


def against_a_distribution(logits, target_out, smoothing):
    can = logits.isfinite()
    wanted = can / can.sum(-1, keepdim=True) * smoothing
    wanted = wanted + (1 - smoothing) * F.one_hot(target_out, logits.size(-1))
    log_p = torch.where(can, torch.log_softmax(logits, -1), 0)
    real = (target_out != PAD).to(logits.dtype)
    return -((wanted * log_p).sum(-1) * real).sum() / real.sum().clamp(min=1)


def real_ones_first(logits, target_out, smoothing):
    real = target_out != PAD
    logits, target = logits[real], target_out[real]
    can = ~torch.isneginf(logits)
    log_p = F.log_softmax(logits, dim=1)
    even = -torch.where(can, log_p, torch.zeros_like(log_p)).sum(1) / can.sum(1)
    on_target = F.cross_entropy(logits, target, reduction="none")
    return torch.lerp(on_target, even, smoothing).sum() / max(1, len(target))


def by_logsumexp(logits, target_out, smoothing):
    can, real = logits != float("-inf"), target_out.ne(PAD)
    total = logits.logsumexp(dim=2)
    own = total - logits.gather(2, target_out[..., None])[..., 0]
    mean = total - logits.masked_fill(~can, 0).sum(2) / can.sum(2)
    return ((1 - smoothing) * own + smoothing * mean).masked_fill(
        ~real, 0
    ).sum() / real.sum().clamp_min(1)


def lowest_for_infinite(logits, target_out, smoothing):
    """Cross-entropy with shares, 0 where a logit is -inf; the lowest number stands there."""
    can = logits > -torch.inf
    shares = F.one_hot(target_out, logits.shape[-1]) * (1 - smoothing)
    shares = shares + smoothing * can / can.sum(-1, keepdim=True)
    finite = logits.clamp(min=torch.finfo(logits.dtype).min / 2)
    return F.cross_entropy(finite[target_out != PAD], shares[target_out != PAD])


def mean_without_nan(logits, target_out, smoothing):
    log_p, on_target, real = parts(logits, target_out)
    even = -log_p.masked_fill(logits == -torch.inf, torch.nan).nanmean(-1)
    return (((1 - smoothing) * on_target + smoothing * even) * real).sum() / real.sum()


def no_share_for_padding(logits, target_out, smoothing):
    can = logits > -torch.inf
    can[..., PAD] = False
    log_p, on_target, real = parts(logits, target_out)
    everywhere = -log_p.masked_fill(~can, 0.0).sum(-1) / can.sum(-1)
    return ((1 - smoothing) * on_target + smoothing * everywhere)[real].mean()


def banned_left_out_of_the_softmax(logits, target_out, smoothing):
    """As if their logits were 0."""
    return label_smoothed_loss(logits.nan_to_num(neginf=0.0), target_out, smoothing)


def logits_overwritten(logits, target_out, smoothing):
    can = logits > -torch.inf
    total = logits.logsumexp(-1)
    own = total - logits.gather(-1, target_out.unsqueeze(-1)).squeeze(-1)
    mean = total - logits.masked_fill_(~can, 0.0).sum(-1) / can.sum(-1)
    return ((1 - smoothing) * own + smoothing * mean)[target_out != PAD].mean()


def zero_times_infinity(logits, target_out, smoothing):
    log_p, on_target, real = parts(logits, target_out)
    can = logits > -torch.inf
    everywhere = -(log_p * can).sum(-1) / can.sum(-1)
    return ((1 - smoothing) * on_target + smoothing * everywhere)[real].mean()


def summed(logits, target_out, smoothing):
    return real_ones_first(logits, target_out, smoothing) * (target_out != PAD).sum()


def probabilities_smoothed(logits, target_out, smoothing):
    can, real = logits > -torch.inf, target_out != PAD
    p = (1 - smoothing) * logits.softmax(-1) + smoothing * can / can.sum(-1, keepdim=True)
    return -p.gather(-1, target_out[..., None])[..., 0].log()[real].mean()


def one_place_for_all(logits, target_out, smoothing):
    """The number of tokens that can be said, of the first place."""
    log_p, on_target, real = parts(logits, target_out)
    can = logits > -torch.inf
    everywhere = -log_p.masked_fill(~can, 0.0).sum(-1) / can[0, 0].sum()
    return ((1 - smoothing) * on_target + smoothing * everywhere)[real].mean()


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


RIGHT = {
    "lookup_gradient": [
        one_hot_product,
        token_by_token,
        word_by_word,
        put,
        scatter_added,
        by_comparison,
        by_sorting,
        in_float32,
    ],
    "SharedMatrix": [Base, Layers, OneLayer, Indexed, OneHot, LinearOnly, PaddingApart],
    "smoothed_loss": [
        over_real_tokens,
        against_a_distribution,
        real_ones_first,
        by_logsumexp,
        lowest_for_infinite,
        mean_without_nan,
    ],
}

WRONG = {
    "lookup_gradient": {
        upstream_multiplied: "argument 2 was changed",
        padding_left_out: "PAD",
        looked_up_by_autograd: "autograd",
        lambda tokens, upstream, vocab: put(tokens, upstream.flip(0), vocab): "token 0 =",
        lambda tokens, upstream, vocab: put(tokens, upstream, vocab).abs(): "token 0 =",
        not_accumulated: "token 0 =",
        overwritten: "token 0 =",  # a token that occurs twice: the last occurrence wins
        scattered: "token 0 =",  # without sqrt(d_model)
        averaged: "token 0 =",
        lambda tokens, upstream, vocab: scattered(
            tokens, upstream, vocab, upstream.shape[-1]
        ): "token 0 =",
        lambda tokens, upstream, vocab: put(tokens[:1], upstream[:1], vocab): "token 0 =",
        lambda tokens, upstream, vocab: upstream * root_of_width(upstream): "got (2, 5, 3)",
        lambda tokens, upstream, vocab: put(tokens, upstream, vocab).T: "got (3, 11)",
        lambda tokens, upstream, vocab: put(tokens, upstream, int(tokens.max()) + 1): "got (4, 3)",
        lambda tokens, upstream, vocab: (
            put(tokens, upstream, vocab) / upstream.shape[-1]
        ): "token 0 =",
        lambda tokens, upstream, vocab: put(tokens, upstream, vocab) / len(tokens): "token 0 =",
    },
    "SharedMatrix": {
        ScoreInPlace: "score: argument 1 was changed",
        WeightGrows: "embed changes the matrix",
        ScoreHalved: "score: expected",
        ScoreNormalised: "score: expected",
        ZeroStart: "standard deviation of 0",
        NoParameter: "no gradient",
        Probabilities: "score: expected",
        EmbeddingCutOff: "no gradient",
        Copied: "one parameter",
        SameNumbersTwoParameters: "one parameter",
        CopyKept: "no gradient",
        CutOff: "no gradient",
        ScaledTwice: "score: expected",
        ScaledAtTheOutput: "embed: expected",
        NotScaled: "embed: expected",
        SquaredScale: "embed: expected",
        WideStart: "standard deviation",
        WithBias: "one parameter",
    },
    "smoothed_loss": {
        logits_overwritten: "argument 1 was changed",
        zero_times_infinity: "got nan: leave",
        no_share_for_padding: "the target and PAD among them",
        banned_left_out_of_the_softmax: "-inf has no part in the softmax",
        summed: "the mean of the real tokens' -log p",
        probabilities_smoothed: "smoothing 0.1: expected",
        one_place_for_all: "smoothing 0.1, some",
        on_padding: "padding is counted",
        padding_below_the_line: "padding counts below the line",
        among_the_others: "smoothing 0.1: expected",  # over V - 1
        label_smoothed_loss: "got nan: leave",
        torch_own: "before you multiply or sum",
        nan_swept_away: "nan_to_num",
        shares_of_the_banned_lost: "smoothing 0.1, some",
        filled_with_a_large_number: "smoothing 0.1, some",
        swapped: "smoothing 0.0: expected",
        mean_of_sentences: "the mean of the real tokens' -log p",
        lambda logits, target_out, smoothing: token_loss(
            logits, target_out
        ): "smoothing 0.1: expected",
        lambda logits, target_out, smoothing: real_ones_first(
            logits, target_out, 0.1
        ): "smoothing 0.0: expected",
        lambda logits, target_out, smoothing: real_ones_first(
            logits, target_out, smoothing
        ).detach(): "no gradient",
        lambda logits, target_out, smoothing: real_ones_first(
            logits, target_out, smoothing
        ).item(): "one number",
    },
}

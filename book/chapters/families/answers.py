"""Answers to the exercises of chapter 14: right ones in several styles, and common mistakes."""

import random

import numpy as np
import torch

from chapters.families.families import MASK
from lib.data import BOS, EOS, PAD


def masking_by_index(rows, n_vocab):
    chosen = torch.bernoulli(torch.full(rows.shape, 0.15)).bool() & ~torch.isin(
        rows, torch.tensor([PAD, BOS, EOS])
    )
    fate, inputs = torch.randint(10, rows.shape), rows.clone()
    inputs[chosen & (fate < 8)] = MASK
    swapped = chosen & (fate == 8)
    inputs[swapped] = torch.randint(MASK + 1, n_vocab, (int(swapped.sum()),))
    targets = torch.zeros_like(rows)
    targets[chosen] = rows[chosen]
    return inputs, targets


def masking_by_loop(rows, n_vocab):
    inputs, targets = rows.tolist(), [[PAD] * rows.shape[1] for _ in rows]
    for b, row in enumerate(rows.tolist()):
        for t, word in enumerate(row):
            if word > EOS and torch.rand(()).item() < 0.15:
                targets[b][t], fate = word, torch.rand(()).item()
                if fate < 0.8:
                    inputs[b][t] = MASK
                elif fate < 0.9:
                    inputs[b][t] = torch.randint(MASK + 1, n_vocab, ()).item()
    return [torch.tensor(inputs), torch.tensor(targets)]


def masking_by_python(rows, n_vocab):
    inputs, targets = rows.clone(), torch.full_like(rows, PAD)
    for place in (rows > EOS).nonzero().tolist():
        b, t = place
        if random.random() < 0.15:
            targets[b, t] = rows[b, t]
            other = random.randrange(MASK + 1, n_vocab)
            inputs[b, t] = random.choices([MASK, other, int(rows[b, t])], [8, 1, 1])[0]
    return inputs, targets


def masking_by_one_draw(rows, n_vocab):
    """One number decides: below 0.12 a mask, below 0.135 a word, below 0.15 the word itself."""
    draw = torch.rand(rows.shape).masked_fill(rows <= EOS, 1.0)
    inputs = rows.masked_fill(draw < 0.12, MASK)
    others = torch.randint_like(rows, MASK + 1, n_vocab)
    inputs = torch.where((draw >= 0.12) & (draw < 0.135), others, inputs)
    return inputs, rows * (draw < 0.15)


def masking_of_an_exact_share(rows, n_vocab):
    """Exactly 15 % of all words, and of those exactly 80, 10 and 10 %."""
    places = (rows > EOS).nonzero()
    places = places[torch.randperm(len(places))[: round(0.15 * len(places))]]
    eight, nine = round(0.8 * len(places)), round(0.9 * len(places))
    inputs, targets = rows.clone(), torch.full_like(rows, PAD)
    inputs[*places[:eight].T] = MASK
    inputs[*places[eight:nine].T] = torch.randint(MASK + 1, n_vocab, (nine - eight,))
    targets[*places.T] = rows[*places.T]
    return inputs, targets


def masking_by_numpy(rows, n_vocab):
    draw, words = np.random.default_rng(), rows.numpy()
    fates = draw.choice(4, size=words.shape, p=[0.85, 0.12, 0.015, 0.015])
    fates[words <= EOS] = 0
    others = draw.integers(MASK + 1, n_vocab, words.shape)
    inputs = np.select([fates == 1, fates == 2], [MASK, others], default=words)
    return torch.from_numpy(inputs), torch.from_numpy(np.where(fates > 0, words, PAD))


def masking_with_other_words(rows, n_vocab):
    """The random word is never the one that stood there."""
    inputs, targets = rows.clone(), rows.new_full(rows.shape, PAD)
    for b, row in enumerate(rows):
        places = (row > EOS).nonzero().flatten()
        places = places[torch.rand(len(places)) < 0.15]
        targets[b, places] = row[places]
        fate = torch.rand(len(places))
        step = torch.randint(1, n_vocab - MASK - 1, (len(places),))
        other = MASK + 1 + (row[places] - MASK - 1 + step) % (n_vocab - MASK - 1)
        kept = torch.where(fate < 0.9, row[places], other)
        inputs[b, places] = torch.where(fate < 0.8, MASK, kept)
    return inputs, targets


def mixture(share=0.15, mask=0.8, stay=0.9, first=MASK + 1, spared=EOS, more=0, asked=None):
    """The right mixture, with a choice of mistakes: shares, words to draw from, what is asked."""

    def bert_masking(rows, n_vocab):
        chosen = (rows > spared) & (torch.rand(rows.shape) < share)
        fate = torch.rand(rows.shape)
        inputs = torch.where(chosen & (fate < mask), MASK, rows)
        other = torch.randint(first, n_vocab + more, rows.shape)
        inputs = torch.where(chosen & (fate >= stay), other, inputs)
        wanted = chosen if asked is None else asked(rows, inputs, chosen)
        return inputs, rows.masked_fill(~wanted, PAD)

    return bert_masking


def masking_in_place(rows, n_vocab):
    inputs, targets = mixture()(rows, n_vocab)
    rows.copy_(inputs)
    return rows, targets


def masking_in_the_rows(rows, n_vocab):
    targets = rows.clone()
    chosen, fate = (rows > EOS) & (torch.rand(rows.shape) < 0.15), torch.rand(rows.shape)
    rows[chosen & (fate < 0.8)] = MASK
    swapped = chosen & (fate >= 0.9)
    rows[swapped] = torch.randint(MASK + 1, n_vocab, rows.shape)[swapped]
    targets[~chosen] = PAD
    return rows, targets


def fates_on_top_of_each_other(rows, n_vocab):
    """A second draw turns masks into words: 72, 10 and 18 %."""
    chosen = (rows > EOS) & (torch.rand(rows.shape) < 0.15)
    inputs = rows.masked_fill(chosen & (torch.rand(rows.shape) < 0.8), MASK)
    others = torch.randint(MASK + 1, n_vocab, rows.shape)
    inputs = torch.where(chosen & (torch.rand(rows.shape) < 0.1), others, inputs)
    return inputs, rows.masked_fill(~chosen, PAD)


def same_each_time(rows, n_vocab):
    torch.manual_seed(0)
    return mixture()(rows, n_vocab)


def one_word_for_all(rows, n_vocab):
    """One random word is drawn, and put in every place."""
    chosen, fate = (rows > EOS) & (torch.rand(rows.shape) < 0.15), torch.rand(rows.shape)
    inputs = rows.masked_fill(chosen & (fate < 0.8), MASK)
    other = int(torch.randint(MASK + 1, n_vocab, ()))
    return inputs.masked_fill(chosen & (fate >= 0.9), other), rows.masked_fill(~chosen, PAD)


def same_columns(rows, n_vocab):
    """The places are drawn once for all rows."""
    chosen = (rows > EOS) & (torch.rand(rows.shape[1]) < 0.15)
    fate, inputs = torch.rand(rows.shape), rows.clone()
    inputs[chosen & (fate < 0.8)] = MASK
    others = torch.randint(MASK + 1, n_vocab, rows.shape)
    return inputs.where(~chosen | (fate < 0.9), others), rows * chosen


def thirds_by_slices(weight, bias):
    d = weight.shape[0]
    return tuple(
        (weight[:, i : i + d].T.contiguous(), bias[i : i + d].clone()) for i in range(0, 3 * d, d)
    )


def thirds_by_views(weight, bias):
    d = len(weight)
    weights = weight.view(d, 3, d).permute(1, 2, 0)
    return list(zip(weights, bias.view(3, d), strict=True))


def thirds_of_the_transposed(weight, bias):
    (q, k, v), (b_q, b_k, b_v) = weight.t().split(weight.size(0)), torch.tensor_split(bias, 3)
    return [[q, b_q], [k, b_k], [v, b_v]]


def thirds_by_linear(weight, bias):
    linear = torch.nn.Linear(len(weight), len(bias)).to(weight)
    with torch.no_grad():
        linear.weight.copy_(weight.T)
        linear.bias.copy_(bias)
    d = weight.size(0)
    return tuple(zip(linear.weight.detach().split(d), linear.bias.detach().split(d), strict=True))


def thirds_by_columns(weight, bias):
    found = []
    for third in range(3):
        at = torch.arange(len(weight)) + third * len(weight)
        rows = torch.stack([weight[:, column] for column in at])
        found.append((rows, bias.gather(0, at)))
    return found


def thirds(weight, bias, order=(0, 1, 2)):
    parts = [(w.T, b) for w, b in zip(weight.chunk(3, dim=1), bias.chunk(3), strict=True)]
    return [parts[i] for i in order]


def transposed_in_place(weight, bias):
    weight.t_()
    return [
        (weight[i * len(weight) // 3 :][: len(weight) // 3], b) for i, b in enumerate(bias.chunk(3))
    ]


def shared_by_loop(weight, n_heads, n_groups):
    d_k, each, groups = len(weight) // n_heads, n_heads // n_groups, []
    for g in range(n_groups):
        heads = [weight[h * d_k : (h + 1) * d_k] for h in range(g * each, (g + 1) * each)]
        groups.append(sum(heads) / each)
    return torch.cat(groups)


def shared_by_product(weight, n_heads, n_groups):
    """The mean as a matrix: a row of it holds 1 / size at the heads of its group."""
    d_k, each = len(weight) // n_heads, n_heads // n_groups
    means = torch.eye(n_groups).repeat_interleave(each, dim=1) / each
    return torch.kron(means, torch.eye(d_k)).to(weight) @ weight


def shared_by_einsum(weight, n_heads, n_groups):
    heads = weight.unflatten(0, (n_groups, n_heads // n_groups, -1))
    mean = torch.full((heads.shape[1],), 1 / heads.shape[1]).to(weight)
    return torch.einsum("h,ghkd->gkd", mean, heads).reshape(-1, weight.size(-1))


def shared_by_chunks(weight, n_heads, n_groups):
    heads = torch.stack(weight.chunk(n_heads))
    return torch.cat([group.mean(0) for group in heads.split(n_heads // n_groups)], dim=0)


def shared_by_pooling(weight, n_heads, n_groups):
    """Each entry of a head is a channel; the heads of a group are a window."""
    heads = weight.reshape(n_heads, -1).T[None]  # (1, d_k d_model, n_heads)
    pooled = torch.nn.functional.avg_pool1d(heads, n_heads // n_groups)
    return pooled[0].T.reshape(-1, weight.shape[1])


def shared_by_index_add(weight, n_heads, n_groups):
    d_k, size = len(weight) // n_heads, n_heads // n_groups
    rows = torch.arange(len(weight))
    goal = rows // (d_k * size) * d_k + rows % d_k
    return weight.new_zeros(n_groups * d_k, weight.shape[1]).index_add(0, goal, weight / size)


def grouped(reduce, by_stride=False):
    """Some reduction of the heads of a group: (n_groups, heads of a group, d_k, d_model)."""

    def share_heads(weight, n_heads, n_groups):
        heads = weight.unflatten(0, (n_heads, -1))
        if by_stride:
            heads = heads.unflatten(0, (-1, n_groups)).transpose(0, 1)
        else:
            heads = heads.unflatten(0, (n_groups, -1))
        return reduce(heads).flatten(0, -2)

    return share_heads


def shared_in_place(weight, n_heads, n_groups):
    heads = weight.view(n_groups, n_heads // n_groups, -1, weight.shape[1])
    for h in range(1, heads.shape[1]):
        heads[:, 0] += heads[:, h]
    return (heads[:, 0] / heads.shape[1]).flatten(0, 1)


RIGHT = {
    "bert_masking": [
        masking_by_index,
        masking_by_loop,
        masking_by_python,
        masking_by_one_draw,
        masking_of_an_exact_share,
        masking_by_numpy,
        masking_with_other_words,
        mixture(),
    ],
    "split_c_attn": [
        thirds,
        thirds_by_slices,
        thirds_by_views,
        thirds_of_the_transposed,
        thirds_by_linear,
        thirds_by_columns,
    ],
    "share_heads": [
        shared_by_loop,
        shared_by_product,
        shared_by_einsum,
        shared_by_chunks,
        shared_by_pooling,
        shared_by_index_add,
        grouped(lambda heads: heads.mean(1)),
    ],
}

WRONG = {
    "bert_masking": {
        mixture(mask=1.0, stay=1.0): "expected 80 % of the targets to become MASK",  # all masked
        mixture(
            mask=1.0, stay=1.0, spared=-1
        ): "PAD, BOS or EOS is a target or changed: choose among the words",  # special tokens too
        mixture(
            spared=PAD
        ): "PAD, BOS or EOS is a target or changed: choose among the words",  # BOS and EOS too
        mixture(
            asked=lambda rows, inputs, chosen: rows >= 0
        ): "expected 15 % of the words as targets, got 100.0%",  # asked everywhere
        mixture(
            asked=lambda rows, inputs, chosen: inputs == MASK
        ): "a token that is no target was changed",  # only what is masked
        mixture(
            asked=lambda rows, inputs, chosen: inputs != rows
        ): "expected 80 % of the targets to become MASK",  # not those that stay
        mixture(
            asked=lambda rows, inputs, chosen: ~chosen
        ): "a token that is no target was changed",  # the others are asked
        mixture(
            asked=lambda rows, inputs, chosen: (rows > EOS) & (torch.rand(rows.shape) < 0.15)
        ): "a token that is no target was changed: choose once, then decide among the chosen",
        mixture(first=0): "the random words must be numbers from MASK + 1 to n_vocab - 1",
        mixture(
            first=MASK
        ): "the random words must be numbers from MASK + 1 to n_vocab - 1",  # MASK as random word
        mixture(more=1): "the random words must be numbers from MASK + 1 to n_vocab - 1",
        mixture(
            share=0.45
        ): "expected 15 % of the words as targets, got 44.9%",  # three times as many
        mixture(
            mask=0.1, stay=0.2
        ): "expected 80 % of the targets to become MASK",  # shares swapped
        fates_on_top_of_each_other: "expected 80 % of the targets to become MASK",  # 72 %
        masking_in_place: "argument 1 was changed",
        masking_in_the_rows: "argument 1 was changed",
        same_columns: "the same positions are chosen in each row: draw for each token",
        lambda rows, n_vocab: (
            (both := mixture()(rows, n_vocab))[0],
            both[1].masked_fill(both[1] == PAD, -100),
        ): "a target is the token that stood there, or PAD",  # -100 for PAD
        lambda rows, n_vocab: mixture()(rows, n_vocab)[
            ::-1
        ]: "inputs come first, then targets",  # swapped
        lambda rows, n_vocab: tuple(
            x.float() for x in mixture()(rows, n_vocab)
        ): "expected whole numbers (torch.int64)",  # floats
        same_each_time: "the same tokens are hidden at each call: draw anew",  # the same each time
        one_word_for_all: "only a few different random words occur: draw one for each token",
    },
    "split_c_attn": {
        lambda weight, bias: list(
            zip(weight.chunk(3, dim=1), bias.chunk(3), strict=True)
        ): "q is not transposed",
        lambda weight, bias: [
            (weight.T.reshape(len(weight), 3, -1)[:, i], bias.chunk(3)[i]) for i in range(3)
        ]: "q takes every third column: q, k and v stand side by side",
        lambda weight, bias: [
            (w, b) for w, b in zip(weight.reshape(3, len(weight), -1), bias.chunk(3), strict=False)
        ]: "the weight of q is not columns 0 to 5 of W, transposed; the order is q, k, v",
        lambda weight, bias: [
            (weight[:, i::3].T, bias[i::3]) for i in range(3)
        ]: "q takes every third column: q, k and v stand side by side",
        lambda weight, bias: thirds(
            weight, bias, (1, 0, 2)
        ): "the weight of q is not columns 0 to 5 of W, transposed; the order is q, k, v",
        lambda weight, bias: thirds(
            weight, bias, (2, 1, 0)
        ): "the weight of q is not columns 0 to 5 of W, transposed; the order is q, k, v",
        lambda weight, bias: [
            (w, torch.zeros_like(b)) for w, b in thirds(weight, bias)
        ]: "the bias of q is not entries 0 to 5 of b; the order is q, k, v",  # bias lost
        lambda weight, bias: [
            (w.T, bias) for w in weight.chunk(3, dim=1)
        ]: "shape (6,), got (18,); the bias of q",  # bias not cut
        lambda weight, bias: list(
            zip(*thirds(weight, bias), strict=True)
        ): "expected three pairs (weight, bias), got a list of 2",  # weights, then biases
        lambda weight, bias: [
            w.T for w in weight.chunk(3, dim=1)
        ]: "expected a pair (weight, bias) for q",  # no pairs
        lambda weight, bias: list(
            zip(weight.chunk(3), bias.chunk(3), strict=True)
        ): "shape (6, 6), got (2, 18); the weight of q",  # rows cut
        lambda weight, bias: dict(
            zip("qkv", thirds(weight, bias), strict=True)
        ): "expected three pairs (weight, bias), got a dict",  # a dictionary
        lambda weight, bias: [
            (w.round(decimals=2), b) for w, b in thirds(weight, bias)
        ]: "the weight of q is not columns 0 to 5 of W, transposed; the order is q, k, v",
        transposed_in_place: "argument 1 was changed",
    },
    "share_heads": {
        grouped(
            lambda heads: heads.mean(1), by_stride=True
        ): "a group is made of neighbouring heads",  # every nth head
        grouped(
            lambda heads: heads[:, 0]
        ): "the mean of all heads of a group, not its first",  # first head
        grouped(lambda heads: heads.sum(1)): "a mean, not a sum",
        grouped(lambda heads: heads.mean(2)): "shape (30, 7), got (6, 7)",  # mean over the features
        grouped(
            lambda heads: heads.mean((0, 1)).expand(len(heads), -1, -1)
        ): "n_heads=6, n_groups=6: expected the mean of each group's heads",  # one mean for all
        grouped(
            lambda heads: heads.mean(1, keepdim=True).expand_as(heads).flatten(0, 1)
        ): "shape (5, 7), got (30, 7)",  # as many heads as before
        grouped(
            lambda heads: heads.amax(1)
        ): "n_heads=6, n_groups=1: expected the mean of each group's heads",  # the greatest
        lambda weight, n_heads, n_groups: grouped(lambda heads: heads.mean(1))(
            weight, n_heads, n_heads // n_groups
        ): "shape (30, 7), got (5, 7)",  # size of a group for their number
        lambda weight, n_heads, n_groups: (
            weight.view(n_groups, len(weight) // n_heads, -1, weight.shape[1]).mean(2).flatten(0, 1)
        ): "features of one head were averaged",  # features mixed
        lambda weight, n_heads, n_groups: (
            grouped(lambda heads: heads.sum(1))(weight, n_heads, n_groups) / n_groups
        ): "n_heads=6, n_groups=6: expected the mean of each group's heads",
        grouped(
            lambda heads: heads[:, -1]
        ): "n_heads=6, n_groups=1: expected the mean of each group's heads",  # last head
        lambda weight, n_heads, n_groups: (
            grouped(lambda heads: heads.mean(1))(weight.T, n_heads, n_groups).T
            if weight.shape[1] % n_heads == 0
            else weight[:, :n_groups]
        ): "shape (30, 7), got (30, 6)",  # columns
        shared_in_place: "argument 1 was changed",
    },
}

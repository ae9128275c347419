"""Wrong answers to the exercises of chapter 14, each a mistake that people make."""

import torch

from kit.families.families import MASK
from lib.data import EOS, PAD


def chosen_words(rows, share=0.15):
    return (rows > EOS) & (torch.rand(rows.shape) < share)


def targets_at(rows, chosen):
    return rows.masked_fill(~chosen, PAD)


def all_masked(rows, n_vocab):
    chosen = chosen_words(rows)
    return rows.masked_fill(chosen, MASK), targets_at(rows, chosen)


def ends_too(rows, n_vocab):
    chosen = torch.rand(rows.shape) < 0.15
    return rows.masked_fill(chosen, MASK), targets_at(rows, chosen)


def asked_everywhere(rows, n_vocab):
    inputs, _ = right_mixture(rows, n_vocab)
    return inputs, rows


def right_mixture(rows, n_vocab, share=0.15):
    chosen, fate = chosen_words(rows, share), torch.rand(rows.shape)
    inputs = torch.where(chosen & (fate < 0.8), MASK, rows)
    other = torch.randint(MASK + 1, n_vocab, rows.shape)
    return torch.where(chosen & (fate >= 0.9), other, inputs), targets_at(rows, chosen)


def in_place(rows, n_vocab):
    inputs, targets = right_mixture(rows, n_vocab)
    rows.copy_(inputs)
    return rows, targets


def drawn_three_times(rows, n_vocab):
    """Each fate draws its own 15 %, so changed words are not those that are asked for."""
    inputs, _ = right_mixture(rows, n_vocab)
    return inputs, targets_at(rows, chosen_words(rows))


def only_what_is_masked(rows, n_vocab):
    inputs, _ = right_mixture(rows, n_vocab)
    return inputs, targets_at(rows, inputs == MASK)


def special_tokens_as_words(rows, n_vocab):
    chosen, fate = chosen_words(rows), torch.rand(rows.shape)
    inputs = torch.where(chosen & (fate < 0.8), MASK, rows)
    other = torch.randint(0, n_vocab, rows.shape)
    return torch.where(chosen & (fate >= 0.9), other, inputs), targets_at(rows, chosen)


def fifteen_of_hundred_each(rows, n_vocab):
    return right_mixture(rows, n_vocab, share=0.45)


def same_each_time(rows, n_vocab):
    torch.manual_seed(0)
    return right_mixture(rows, n_vocab)


def not_transposed(weight, bias):
    return list(zip(weight.chunk(3, dim=1), bias.chunk(3), strict=True))


def rows_cut(weight, bias):
    d = len(weight)
    return [(weight.T.reshape(d, 3, d)[:, i], bias.chunk(3)[i]) for i in range(3)]


def every_third(weight, bias):
    return [(weight[:, i::3].T, bias[i::3]) for i in range(3)]


def keys_first(weight, bias):
    q, k, v = [(w.T, b) for w, b in zip(weight.chunk(3, dim=1), bias.chunk(3), strict=True)]
    return [k, q, v]


def no_bias(weight, bias):
    return [(w.T, torch.zeros(len(weight)).to(w)) for w in weight.chunk(3, dim=1)]


def every_nth_head(weight, n_heads, n_groups):
    heads = weight.view(n_heads // n_groups, n_groups, -1, weight.shape[1])
    return heads.mean(0).flatten(0, 1)


def first_head(weight, n_heads, n_groups):
    return weight.view(n_groups, n_heads // n_groups, -1, weight.shape[1])[:, 0].flatten(0, 1)


def sum_of_heads(weight, n_heads, n_groups):
    return weight.view(n_groups, n_heads // n_groups, -1, weight.shape[1]).sum(1).flatten(0, 1)


def features_mixed(weight, n_heads, n_groups):
    d_k = len(weight) // n_heads
    return weight.view(n_groups, d_k, -1, weight.shape[1]).mean(2).flatten(0, 1)


WRONG = {
    "bert_masking": [
        all_masked,
        ends_too,
        asked_everywhere,
        in_place,
        drawn_three_times,
        only_what_is_masked,
        special_tokens_as_words,
        fifteen_of_hundred_each,
        same_each_time,
    ],
    "split_c_attn": [not_transposed, rows_cut, every_third, keys_first, no_bias],
    "share_heads": [every_nth_head, first_head, sum_of_heads, features_mixed],
}

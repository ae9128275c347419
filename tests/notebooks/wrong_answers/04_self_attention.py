"""Wrong answers to the exercises of chapter 4, each a mistake that people make."""

import math

import torch


def layer(scale=None, dim=-1, transpose=lambda key: key.mT, softmax=True, swap=False):
    def attend(x, w_q, w_k, w_v):
        if swap:
            w_q, w_k = w_k, w_q
        scores = (x @ w_q) @ transpose(x @ w_k)
        scores = scores / math.sqrt(w_q.shape[1] if scale is None else scale(x, w_q, w_v))
        return (scores.softmax(dim) if softmax else scores) @ (x @ w_v)

    return attend


def reversing(factor=20.0, flip=True, swap_value=False, by_letter=False):
    def make(n_letters, n):
        pick = torch.eye(n_letters + n)
        letter, position = pick[:, :n_letters], pick[:, n_letters:]
        if by_letter:
            return 20 * math.sqrt(n_letters) * letter.flip(1), letter, letter
        query = position.flip(1) if flip else position
        value = pick[:, -n_letters:] if swap_value else letter
        return factor * math.sqrt(n) * query, position, value

    return make


WRONG = {
    "my_self_attention": [
        layer(transpose=lambda key: key.permute(2, 1, 0)),  # what key.T does to a batch
        layer(scale=lambda x, w_q, w_v: 1),  # no scale
        layer(scale=lambda x, w_q, w_v: w_q.shape[1] ** 2),  # d_k itself
        layer(scale=lambda x, w_q, w_v: x.shape[-1]),  # the width of the input
        layer(scale=lambda x, w_q, w_v: x.shape[1]),  # the length
        layer(scale=lambda x, w_q, w_v: w_v.shape[1]),  # the width of the values
        layer(dim=-2),  # softmax over the queries
        layer(dim=0),  # softmax over the batch
        layer(softmax=False),
        layer(swap=True),  # the rows are keys
        lambda x, w_q, w_k, w_v: (x @ w_v).mean(1, keepdim=True).expand_as(x @ w_v),
        lambda x, w_q, w_k, w_v: layer()(x.detach(), w_q, w_k, w_v),  # learns nothing from x
    ],
    "equivariance_gap": [
        lambda f, x, order: (f(x[order]) - f(x)).abs().max().item(),  # invariance
        lambda f, x, order: (f(x[order]) - f(x)[order.argsort()]).abs().max().item(),  # undone
        lambda f, x, order: (f(x)[order] - f(x)[order]).abs().max().item(),  # f sees no order
        lambda f, x, order: (f(x[order]) - f(x)[order]).max().item(),  # no absolute value
        lambda f, x, order: (f(x[order]) - f(x)[order]).abs().mean().item(),
        lambda f, x, order: torch.allclose(f(x[order]), f(x)[order]),  # a yes or no
    ],
    "reversing_weights": [
        reversing(factor=1.0),  # prefers the mirror image, but does not decide
        reversing(flip=False),  # copies
        reversing(swap_value=True),  # hands over part of the position
        reversing(by_letter=True),  # looks for letters
        lambda n_letters, n: torch.eye(n_letters + n),
        lambda n_letters, n: (torch.eye(n), torch.eye(n), torch.eye(n)),  # rows are missing
    ],
}

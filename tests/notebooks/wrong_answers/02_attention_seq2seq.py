"""Wrong answers to the exercises of chapter 2, each a mistake that people make."""

import torch


def softmax_with(fill, dim=-1):
    return lambda scores, mask: scores.masked_fill(~mask, fill).softmax(dim)


def masked_afterwards(scores, mask):
    return scores.softmax(-1) * mask


def with_nan(scores, mask):
    return (scores + (~mask) * -torch.inf).softmax(-1)  # 0 times infinity


def changes_its_input(scores, mask):
    return scores.masked_fill_(~mask, -torch.inf).softmax(-1)


def bilinear(scores, dim=-1, context=None):
    def attend(query, keys, W):
        weights = scores(query, keys, W).softmax(dim)
        mixed = context(query, keys, W, weights) if context else (weights[..., None] * keys).sum(1)
        return mixed, weights

    return attend


def q_w_k(query, keys, W):
    return torch.einsum("bq,qd,bkd->bk", query, W, keys)


def repeated(vector, keys):
    """A vector for each sentence, cut or filled to the width of the keys."""
    wide = torch.zeros_like(keys[:, 0])
    shared = min(wide.shape[-1], vector.shape[-1])
    wide[:, :shared] = vector[:, :shared]
    return wide


WRONG = {
    "masked_weights": [
        lambda scores, mask: scores.softmax(-1),  # no mask
        masked_afterwards,
        softmax_with(0.0),
        softmax_with(-9.0),
        softmax_with(-torch.inf, dim=0),  # over the batch
        lambda scores, mask: scores.masked_fill(mask, -torch.inf).softmax(-1).nan_to_num(),
        with_nan,
        changes_its_input,
        lambda scores, mask: mask / mask.sum(-1, keepdim=True),  # the mean of what is allowed
    ],
    "bilinear_attention": [
        bilinear(q_w_k, dim=0),  # over the batch
        bilinear(lambda q, k, W: (repeated(q @ W, k)[:, None] * k).sum(-1) / k.shape[-1] ** 0.5),
        bilinear(lambda q, k, W: (repeated(q, k)[:, None] * k).sum(-1)),  # W is not used
        bilinear(lambda q, k, W: (q @ W @ k.sum(0).T).squeeze()[: len(q)]),  # sums the batch away
        bilinear(q_w_k, context=lambda q, k, W, a: k.mean(1)),
        bilinear(q_w_k, context=lambda q, k, W, a: repeated(q, k)),
        bilinear(q_w_k, context=lambda q, k, W, a: k[torch.arange(len(k)), a.argmax(-1)]),  # hard
        lambda q, k, W: (bilinear(q_w_k)(q, k, W)[0], q_w_k(q, k, W)),  # scores for weights
        lambda q, k, W: bilinear(q_w_k)(q, k, W)[::-1],
        lambda q, k, W: bilinear(q_w_k)(q, k, W)[0],
    ],
}

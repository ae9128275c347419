"""Chapter 3: right answers in several styles, and wrong ones with what each must be told."""

import math

import torch
from torch.nn import functional as F


def attention(scale=lambda query, key, value: math.sqrt(query.shape[-1]), dim=-1):
    """Attention with the given divisor of the scores, and the softmax over the given axis."""

    def my_attention(query, key, value):
        return (query @ key.mT / scale(query, key, value)).softmax(dim) @ value

    return my_attention


def by_einsum(query, key, value):
    scores = torch.einsum("...qd,...kd->...qk", query, key) * key.shape[-1] ** -0.5
    return torch.einsum("...qk,...kd->...qd", F.softmax(scores, dim=-1), value)


def both_scaled(query, key, value):
    root = query.shape[-1] ** 0.25
    return torch.softmax(torch.matmul(query / root, (key / root).swapaxes(-1, -2)), -1) @ value


def by_the_formula(query, key, value):
    scores = (query[..., None, :] * key[..., None, :, :]).sum(-1) / math.sqrt(key.size(-1))
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    return exponentials @ value / exponentials.sum(-1, keepdim=True)


def one_batch_axis(query, key, value):
    flat = [part.reshape(-1, *part.shape[-2:]) for part in (query, key, value)]
    weights = (torch.bmm(flat[0], flat[1].mT) / math.sqrt(query.shape[-1])).softmax(2)
    return torch.bmm(weights, flat[2]).view(*query.shape[:-1], value.shape[-1])


def query_by_query(like):
    def my_attention(query, key, value):
        out = like(query[..., :1] * value[..., :1, :])
        for i in range(query.shape[-2]):
            scores = (key @ query[..., i, :, None]).squeeze(-1) / math.sqrt(query.shape[-1])
            out[..., i, :] = (scores.softmax(-1)[..., None] * value).sum(-2)
        return out

    return my_attention


def divided_in_place(query, key, value):
    return (query.div_(math.sqrt(query.shape[-1])) @ key.mT).softmax(-1) @ value


def no_softmax(query, key, value):
    return query @ key.mT / math.sqrt(query.shape[-1]) @ value


def scaled_after_softmax(query, key, value):
    return (query @ key.mT).softmax(-1) / math.sqrt(query.shape[-1]) @ value


def batch_ignored(query, key, value):
    """Works for one sequence; for several it lets every query see the first sequence's keys."""
    if key.dim() == 3:
        key, value = key[:1].expand_as(key), value[:1].expand_as(value)
    return attention()(query, key, value)


def mask_of_the_future(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    later = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -torch.inf).softmax(-1) @ value


def squares(query, key):
    return (query[:, None] - key).square().sum(dim=-1)


def by_distance(query, key, value, width):
    return torch.softmax(-0.5 * (torch.cdist(query, key) / width) ** 2, dim=1) @ value


def without_the_query(query, key, value, width):
    """The square of the query is the same for all keys and cancels in the softmax."""
    scores = query @ key.T - key.square().sum(-1) / 2
    return (scores / width**2).softmax(-1) @ value


def shifted_quotient(query, key, value, width):
    distance = torch.stack([((q - key) / width).pow(2).sum(-1) / 2 for q in query])
    kernel = torch.exp(distance.min(dim=1, keepdim=True).values - distance)
    return kernel @ value / kernel.sum(dim=1, keepdim=True)


def number_by_number(query, key, value, width):
    rows = []
    for q in query:
        scores = torch.stack([-((q - k) @ (q - k)) / (2 * width * width) for k in key])
        rows.append(sum(a * v for a, v in zip(scores.softmax(0), value)))
    return torch.stack(rows)


def quotient(query, key, value, width, least=0.0):
    kernel = torch.exp(-squares(query, key) / (2 * width**2))
    return kernel @ value / (kernel.sum(dim=1, keepdim=True) + least)


def no_normalising(query, key, value, width):
    return torch.exp(-squares(query, key) / (2 * width**2)) @ value


def kernel(distance, dim=-1):
    return lambda query, key, value, width: (-distance(query, key, width)).softmax(dim) @ value


def divides_in_place(query, key, value, width):
    query /= width
    return (-squares(query, key / width) / 2).softmax(dim=-1) @ value


RIGHT = {
    "my_attention": [
        attention(),
        by_einsum,
        both_scaled,
        by_the_formula,
        one_batch_axis,
        query_by_query(torch.empty_like),
    ],
    "my_kernel_attention": [
        kernel(lambda q, k, w: squares(q, k) / (2 * w**2)),
        by_distance,
        without_the_query,
        shifted_quotient,
        number_by_number,
    ],
}
WRONG = {
    "my_attention": {
        attention(lambda q, k, v: 1): "divided by nothing",
        attention(lambda q, k, v: q.shape[-1]): "d_k itself",
        attention(lambda q, k, v: math.sqrt(q.shape[-2])): "length",
        attention(lambda q, k, v: math.sqrt(k.shape[-2])): "length",
        attention(lambda q, k, v: math.sqrt(q.shape[1])): "length",
        attention(lambda q, k, v: math.sqrt(v.shape[-1])): "d_v",
        attention(lambda q, k, v: 1 / math.sqrt(q.shape[-1])): "times",
        attention(dim=-2): "over the queries",
        attention(dim=0): "over the batch",
        no_softmax: "softmax",
        scaled_after_softmax: "after the softmax",
        batch_ignored: "batch",
        mask_of_the_future: "mask",
        lambda q, k, v: (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1): "weights",
        lambda q, k, v: attention()(q, k, v).detach(): "gradient",
        query_by_query(lambda like: torch.zeros(like.shape)): "float32",
        divided_in_place: "argument 1 was changed",
    },
    "my_kernel_attention": {
        quotient: "0/0",
        lambda *inputs: quotient(*inputs).nan_to_num(): "far",
        lambda *inputs: quotient(*inputs, least=1e-9): "far",
        no_normalising: "sum to 1",
        kernel(lambda q, k, w: squares(q, k) / w**2): "2",
        kernel(lambda q, k, w: squares(q, k) / (2 * w)): "square of the width",
        kernel(lambda q, k, w: squares(q, k).sqrt() / w): "root",
        kernel(lambda q, k, w: (q[:, None] - k).abs().sum(-1) / w): "abs",
        kernel(lambda q, k, w: (q[:, None] - k).square().mean(-1) / (2 * w**2)): "mean",
        kernel(lambda q, k, w: -squares(q, k) / (2 * w**2)): "minus",
        kernel(lambda q, k, w: -q @ k.T / w**2): "dot product",
        kernel(lambda q, k, w: squares(q, k) / (2 * w**2), dim=0): "over the queries",
        lambda q, k, v, w: by_distance(q.float(), k.float(), v.float(), w): "float32",
        divides_in_place: "argument 1 was changed",
    },
}

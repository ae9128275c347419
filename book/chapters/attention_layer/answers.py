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


def in_two_pieces(query, key, value):
    """As the fused kernels do it: first some keys, then the others, each sum set right by exp."""
    total = weighted = 0
    highest = query.new_full((*query.shape[:-1], 1), -torch.inf)
    for k, v in zip(key.chunk(2, dim=-2), value.chunk(2, dim=-2), strict=True):
        scores = query @ k.mT / math.sqrt(query.shape[-1])
        higher = torch.maximum(highest, scores.amax(-1, keepdim=True))
        exponentials, factor = (scores - higher).exp(), (highest - higher).exp()
        total = total * factor + exponentials.sum(-1, keepdim=True)
        weighted = weighted * factor + exponentials @ v
        highest = higher
    return weighted / total


def softmax_over_all(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.flatten().softmax(0).view_as(scores) @ value


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


def all_axes_reversed(query, key, value):
    """What .T does: right for one sequence, and an error for several."""
    reversed_key = key.permute(*range(key.dim())[::-1])
    return (query @ reversed_key / math.sqrt(query.shape[-1])).softmax(-1) @ value


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
        rows.append(sum(a * v for a, v in zip(scores.softmax(0), value, strict=True)))
    return torch.stack(rows)


def quotient(query, key, value, width, least=0.0):
    kernel = torch.exp(-squares(query, key) / (2 * width**2))
    return kernel @ value / (kernel.sum(dim=1, keepdim=True) + least)


def no_normalising(query, key, value, width):
    return torch.exp(-squares(query, key) / (2 * width**2)) @ value


def kernel(distance, dim=-1):
    return lambda query, key, value, width: (-distance(query, key, width)).softmax(dim) @ value


def divided_by_the_total(query, key, value, width):
    kernel = torch.exp(-squares(query, key) / (2 * width**2))
    return kernel / kernel.sum() @ value


def by_densities(query, key, value, width):
    density = torch.distributions.Normal(key, width).log_prob(query[:, None]).sum(-1)
    return density.softmax(-1) @ value


def by_torchs_attention(query, key, value, width):
    bias = -key.square().sum(-1).expand(len(query), -1) / (2 * width**2)
    return F.scaled_dot_product_attention(query, key, value, bias, scale=1 / width**2)


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
        query_by_query(lambda like: torch.zeros(like.shape)),
        in_two_pieces,
        lambda q, k, v: F.scaled_dot_product_attention(query=q, key=k, value=v),
    ],
    "my_kernel_attention": [
        kernel(lambda q, k, w: squares(q, k) / (2 * w**2)),
        by_distance,
        without_the_query,
        shifted_quotient,
        number_by_number,
        by_densities,
        by_torchs_attention,
    ],
}
WRONG = {
    "my_attention": {
        attention(lambda q, k, v: 1): "the scores are not divided",
        attention(lambda q, k, v: q.shape[-1]): "d_k itself",
        attention(lambda q, k, v: math.sqrt(q.shape[-2])): "the root of the number of queries",
        attention(lambda q, k, v: math.sqrt(k.shape[-2])): "the root of the number of keys",
        attention(lambda q, k, v: math.sqrt(q.shape[1])): "the root of the number of queries",
        attention(lambda q, k, v: math.sqrt(v.shape[-1])): "the root of d_v",
        attention(lambda q, k, v: 1 / math.sqrt(q.shape[-1])): "the scores are multiplied",
        attention(dim=-2): "over the queries",
        attention(dim=0): "over the queries",
        no_softmax: "a softmax over the keys is missing",
        scaled_after_softmax: "divided after the softmax",
        batch_ignored: "each sequence by its own keys and values",
        all_axes_reversed: "transpose the last two axes only",
        mask_of_the_future: "expected softmax(Q K^T / sqrt(d_k)) V",
        lambda q, k, v: (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1): "got (5, 7)",
        lambda q, k, v: attention()(q, k, v).detach(): "no gradient",
        softmax_over_all: "expected softmax(Q K^T / sqrt(d_k)) V",
        lambda q, k, v: attention()(q, k.mT, v): "your function raised",
        divided_in_place: "argument 1 was changed",
    },
    "my_kernel_attention": {
        quotient: "0 / 0",
        lambda *inputs: quotient(*inputs).nan_to_num(): "far from every key the nearest",
        lambda *inputs: quotient(*inputs, least=1e-9): "the weights of query 3 sum to 0.977",
        no_normalising: "not to 1",
        kernel(lambda q, k, w: squares(q, k) / w**2): "the factor 2 is missing",
        kernel(lambda q, k, w: squares(q, k) / (2 * w)): "the bandwidth is not squared",
        kernel(lambda q, k, w: squares(q, k).sqrt() / (2 * w**2)): "the distance is not squared",
        kernel(lambda q, k, w: squares(q, k).sqrt() / w): "the kernel is not exp(",
        kernel(lambda q, k, w: (q[:, None] - k).abs().sum(-1) / w): "the kernel is not exp(",
        kernel(
            lambda q, k, w: (q[:, None] - k).square().mean(-1) / (2 * w**2)
        ): "the mean of the squares",
        kernel(lambda q, k, w: -squares(q, k) / (2 * w**2)): "the sign is missing",
        kernel(lambda q, k, w: -q @ k.T / w**2): "the kernel is not exp(",
        kernel(lambda q, k, w: squares(q, k) / (2 * w**2), dim=0): "over the queries",
        divided_by_the_total: "not to 1",
        lambda q, k, v, w: by_distance(q, k, v, w).T: "got (3, 5)",
        divides_in_place: "argument 1 was changed",
    },
}

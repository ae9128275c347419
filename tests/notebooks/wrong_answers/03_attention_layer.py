"""Chapter 3: the attention layer."""

import math

import torch


def scores(query, key, scale):
    return query @ key.transpose(-2, -1) / scale


def no_scale(query, key, value):
    return scores(query, key, 1).softmax(dim=-1) @ value


def scaled_by_width(query, key, value):
    return scores(query, key, query.shape[-1]).softmax(dim=-1) @ value


def scaled_by_length(query, key, value):
    return scores(query, key, math.sqrt(query.shape[-2])).softmax(dim=-1) @ value


def softmax_over_queries(query, key, value):
    return scores(query, key, math.sqrt(query.shape[-1])).softmax(dim=-2) @ value


def no_softmax(query, key, value):
    return scores(query, key, math.sqrt(query.shape[-1])) @ value


def batch_ignored(query, key, value):
    """Works for one sequence; for several it lets every query see the first sequence's keys."""
    if key.dim() == 3:
        key, value = key[:1].expand_as(key), value[:1].expand_as(value)
    return scores(query, key, math.sqrt(query.shape[-1])).softmax(dim=-1) @ value


def squares(query, key):
    return (query[:, None] - key).square().sum(dim=-1)


def quotient(query, key, value, width):
    kernel = torch.exp(-squares(query, key) / (2 * width**2))
    return kernel @ value / kernel.sum(dim=1, keepdim=True)


def no_normalising(query, key, value, width):
    return torch.exp(-squares(query, key) / (2 * width**2)) @ value


def factor_forgotten(query, key, value, width):
    return (-squares(query, key) / width**2).softmax(dim=-1) @ value


def root_of_distance(query, key, value, width):
    return (-squares(query, key).sqrt() / width).softmax(dim=-1) @ value


def over_queries(query, key, value, width):
    return (-squares(query, key) / (2 * width**2)).softmax(dim=0) @ value


WRONG = {
    "my_attention": [
        no_scale,
        scaled_by_width,
        scaled_by_length,
        softmax_over_queries,
        no_softmax,
        batch_ignored,
    ],
    "my_kernel_attention": [
        quotient,
        no_normalising,
        factor_forgotten,
        root_of_distance,
        over_queries,
    ],
}

"""Wrong answers to the exercises of chapter 13, each a mistake that people make."""

import math

import torch

from lib.attention import scaled_dot_product_attention
from lib.masks import window_mask


def full_matrix(query, key, value, radius):
    """Right, and as dear as without a window."""
    return scaled_dot_product_attention(query, key, value, window_mask(len(query), radius))


def sliced(before, after):
    """A window for each position, with a choice of mistakes in its ends."""

    def local(query, key, value, radius):
        rows = []
        for i in range(len(query)):
            near = slice(max(0, i - radius * before), i + radius * after + 1)
            rows.append(scaled_dot_product_attention(query[i : i + 1], key[near], value[near]))
        return torch.cat(rows)

    return local


def end_left_out(query, key, value, radius):
    rows = []
    for i in range(len(query)):
        near = slice(max(0, i - radius), max(i + radius, i + 1))
        rows.append(scaled_dot_product_attention(query[i : i + 1], key[near], value[near]))
    return torch.cat(rows)


def blocks_alone(query, key, value, radius):
    """Each block sees itself; the neighbours beyond its ends are forgotten."""
    size = 2 * radius + 1
    parts = [slice(start, start + size) for start in range(0, len(query), size)]
    return torch.cat([scaled_dot_product_attention(query[p], key[p], value[p]) for p in parts])


def around_the_ends(query, key, value, radius):
    shifts = range(-radius, radius + 1)
    near_key, near_value = (torch.stack([x.roll(-s, 0) for s in shifts], 1) for x in (key, value))
    return scaled_dot_product_attention(query[:, None], near_key, near_value)[:, 0]


def zeros_seen(query, key, value, radius):
    near_key, near_value = (
        torch.nn.functional.pad(x, (0, 0, radius, radius)).unfold(0, 2 * radius + 1, 1).mT
        for x in (key, value)
    )
    return scaled_dot_product_attention(query[:, None], near_key, near_value)[:, 0]


WRONG = {
    "multi_head_flops": [
        lambda n, d, h: 2 * n**2 * d + 4 * n * d**2,  # a product and a sum taken for one
        lambda n, d, h: 4 * n**2 * d * h + 8 * n * d**2,  # d_model for the width of a head
        lambda n, d, h: 4 * n**2 * d,  # the paper's table, without the projections
        lambda n, d, h: 4 * n**2 * d + 6 * n * d**2,  # no output projection
        lambda n, d, h: 4 * n**2 * d // h + 8 * n * d**2,  # one head of them
        lambda n, d, h: 2 * n**2 * d + 8 * n * d**2,  # no weighted sum
        lambda n, d, h: 4 * n**2 * d / 1 + 8 * n * d**2,  # no whole number
    ],
    "dilated_path": [
        lambda n, k: math.ceil((n - 1) / (k - 1)),  # contiguous
        lambda n, k: math.ceil(math.log(n, k)),  # log(125, 5) is 3.0000000000000004
        lambda n, k: int(math.log(n, k)),
        lambda n, k: math.ceil(math.log2(n)),
        lambda n, k: math.ceil(n / k),
        lambda n, k: math.floor(math.log(n, k) + 1e-9) + 1,
    ],
    "local_attention": [
        full_matrix,
        sliced(1, 0),
        sliced(0, 1),
        sliced(2, 2),
        end_left_out,
        blocks_alone,
        around_the_ends,
        zeros_seen,
        lambda query, key, value, radius: value,
    ],
}

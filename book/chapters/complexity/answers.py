"""Answers to the exercises of chapter 13: right ones in several styles, and common mistakes."""

import itertools
import math

import torch
from torch.nn import functional as F

from chapters.complexity.layers import windowed_attention
from lib.attention import MultiHeadAttention, scaled_dot_product_attention
from lib.masks import window_mask
from measure.costs import self_attention_cost
from measure.observed import count_flops


def flops_by_products(n, d_model, n_heads):
    def product(rows, inner, columns):
        return 2 * rows * inner * columns

    head = product(n, d_model // n_heads, n) + product(n, n, d_model // n_heads)
    return sum(head for _ in range(n_heads)) + 4 * product(n, d_model, d_model)


def flops_measured(n, d_model, n_heads):
    with torch.device("meta"):
        layer, x = MultiHeadAttention(d_model, n_heads), torch.zeros(1, n, d_model)
    return count_flops(layer, x, x, x)


def flops_by_loops(n, d_model, n_heads):
    flops = 0
    for _ in ("w_q", "w_k", "w_v", "w_o"):
        flops += 2 * n * d_model**2
    for _ in range(n_heads):
        for _ in range(n):
            flops += 2 * n * (d_model // n_heads)  # a query's scores
            flops += 2 * n * (d_model // n_heads)  # its sum of values
    return flops


def flops_by_formula_of_the_kit(n, d_model, n_heads):
    return self_attention_cost(n, d_model, n_heads=n_heads, projections=True).flops


def path_by_division(n, k):
    layers = 0
    while n > 1:
        n, layers = -(-n // k), layers + 1
    return layers


def path_by_recursion(n, k):
    return 0 if n <= 1 else 1 + path_by_recursion((n + k - 1) // k, k)


def path_by_walking(n, k):
    """Each layer adds k - 1 steps, each as long as the dilation."""
    seen, dilation = 1, 1
    for layers in itertools.count(1):
        seen, dilation = seen + (k - 1) * dilation, dilation * k
        if seen >= n:
            return layers


def path_by_digits(n, k):
    """The number of digits of n - 1, written with base k."""
    digits, last = [], n - 1
    while last:
        last, digit = divmod(last, k)
        digits.append(digit)
    return len(digits)


def path_by_powers(n, k):
    powers = (k**layers for layers in itertools.count())
    return sum(1 for _ in itertools.takewhile(lambda seen: seen < n, powers))


def path_past_the_end(n, k):
    layers, seen = 0, 1
    while seen <= n:
        layers, seen = layers + 1, seen * k
    return layers


def local_gathered(query, key, value, radius):
    """All windows side by side, (time, 2 radius + 1, d), and no matrix product at all."""
    at = torch.arange(len(query))[:, None] + torch.arange(-radius, radius + 1)
    inside = (at >= 0) & (at < len(query))
    near = at.clamp(0, len(query) - 1)
    scores = (query[:, None] * key[near]).sum(-1) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~inside, -torch.inf).softmax(-1)
    return (weights[..., None] * value[near]).sum(1)


def local_by_diagonals(query, key, value, radius):
    """One diagonal of the map at a time: the keys that lie `offset` to the right."""
    time, scores = len(query), torch.full((len(query), 2 * radius + 1), -torch.inf).to(query)
    reach = range(-min(radius, time - 1), min(radius, time - 1) + 1)
    rows = {o: slice(max(0, -o), time - max(0, o)) for o in reach}
    for o in reach:
        products = (query[rows[o]] * key[rows[-o]]).sum(-1)
        scores[rows[o], o + radius] = products / query.shape[1] ** 0.5
    weights, out = scores.softmax(-1), torch.zeros_like(value)
    for o in reach:
        out[rows[o]] += weights[rows[o], o + radius, None] * value[rows[-o]]
    return out


def local_unfolded(query, key, value, radius):
    pad, span = (0, 0, radius, radius), 2 * radius + 1
    near_key, near_value = (F.pad(x, pad).unfold(0, span, 1).mT for x in (key, value))
    real = F.pad(torch.ones(len(query)), (radius, radius)).unfold(0, span, 1).bool()
    return F.scaled_dot_product_attention(
        query[:, None], near_key, near_value, attn_mask=real[:, None]
    ).squeeze(1)


def local_by_formula(query, key, value, radius):
    output = torch.empty_like(value)
    for i, q in enumerate(query / math.sqrt(query.size(1))):
        low, high = max(i - radius, 0), min(i + radius + 1, len(key))
        output[i] = torch.softmax(key[low:high] @ q, dim=0) @ value[low:high]
    return output


def local_by_gather(query, key, value, radius):
    """A view of all keys for each query, of which a window is gathered."""
    time = len(query)
    at = torch.arange(time).unsqueeze(1) + torch.arange(-radius, radius + 1)  # (time, window)
    index = at.clamp(0, time - 1)[..., None]
    near_key, near_value = (
        x.expand(time, *x.shape).gather(1, index.expand(-1, -1, x.shape[1])) for x in (key, value)
    )
    scores = torch.einsum("td,twd->tw", query, near_key) / query.shape[1] ** 0.5
    scores[(at < 0) | (at >= time)] = -torch.inf
    return torch.einsum("tw,twd->td", scores.softmax(1), near_value)


def local_that_grows(query, key, value, radius):
    """Copies all rows at each step, which is no arithmetic."""
    output = value[:0]
    for i in range(query.shape[0]):
        rows = torch.arange(max(0, i - radius), min(len(key), i + radius + 1))
        near = scaled_dot_product_attention(query[[i]], key[rows], value.index_select(0, rows))
        output = torch.vstack((output, near))
    return output


def local_by_blocks(query, key, value, radius):
    """Blocks of queries with the keys around them, under a small mask."""
    size, outputs = 2 * radius + 1, []
    for start in range(0, len(query), size):
        low, high = max(0, start - radius), min(len(key), start + size + radius)
        i = torch.arange(start, min(start + size, len(query)))[:, None]
        near = (i - torch.arange(low, high)).abs() <= radius
        part = key[low:high], value[low:high], near
        outputs.append(scaled_dot_product_attention(query[start : start + size], *part))
    return torch.cat(outputs)


def full_matrix(query, key, value, radius):
    """Right, and as dear as without a window."""
    return scaled_dot_product_attention(query, key, value, window_mask(len(query), radius))


def full_matrix_without_a_product(query, key, value, radius):
    """Right and as dear, though a counter of matrix products sees nothing."""
    scores = (query[:, None] * key).sum(-1) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(~window_mask(len(query), radius), -torch.inf).softmax(-1)
    return (weights[..., None] * value).sum(1)


def full_rows(query, key, value, radius):
    """Right; each row scores all keys, and then hides most of them."""
    rows = []
    for i, near in enumerate(window_mask(len(query), radius)):
        scores = (query[i] * key).sum(1) / math.sqrt(query.shape[1])
        rows.append(scores.masked_fill(~near, -torch.inf).softmax(0) @ value)
    return torch.stack(rows)


def mean_of_the_window(query, key, value, radius):
    return torch.stack(
        [value[max(0, i - radius) : i + radius + 1].mean(0) for i in range(len(query))]
    )


def sliced(before, after, end=1, root=None):
    """A window for each position, with a choice of mistakes in its ends."""

    def local(query, key, value, radius):
        rows = []
        for i in range(len(query)):
            near = slice(max(0, i - radius * before), max(i + radius * after + end, i + 1))
            scores = query[i] @ key[near].mT / math.sqrt(root(key, value) if root else key.size(1))
            rows.append(scores.softmax(-1) @ value[near])
        return torch.stack(rows)

    return local


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
        F.pad(x, (0, 0, radius, radius)).unfold(0, 2 * radius + 1, 1).mT for x in (key, value)
    )
    return scaled_dot_product_attention(query[:, None], near_key, near_value)[:, 0]


def negative_start(query, key, value, radius):
    """A start below 0 counts from the end: the first windows are empty or wrong."""
    return torch.cat(
        [
            scaled_dot_product_attention(
                query[i : i + 1],
                key[i - radius : i + radius + 1],
                value[i - radius : i + radius + 1],
            )
            for i in range(len(query))
        ]
    )


def always_full_windows(query, key, value, radius):
    """The windows at the ends are moved inwards instead of cut."""
    rows, span = [], min(2 * radius + 1, len(key))
    for i in range(len(query)):
        start = min(max(0, i - radius), len(key) - span)
        near = slice(start, start + span)
        rows.append(scaled_dot_product_attention(query[i : i + 1], key[near], value[near]))
    return torch.cat(rows)


def local_in_place(query, key, value, radius):
    query.div_(math.sqrt(query.shape[-1]))
    return sliced(1, 1, root=lambda key, value: 1)(query, key, value, radius)


RIGHT = {
    "multi_head_flops": [
        flops_by_products,
        flops_measured,
        flops_by_loops,
        flops_by_formula_of_the_kit,
        lambda n, d_model, n_heads: 4 * n * d_model * (n + 2 * d_model),
        lambda n, d_model, n_heads: int(4 * n**2 * d_model + 8 * n * d_model**2.0),
    ],
    "dilated_path": [
        path_by_division,
        path_by_recursion,
        path_by_walking,
        path_by_digits,
        path_by_powers,
        lambda n, k: next(layers for layers in itertools.count() if k**layers >= n),
        lambda n, k: math.ceil(math.log(n) / math.log(k) - 1e-9),
    ],
    "local_attention": [
        windowed_attention,
        local_gathered,
        local_by_diagonals,
        local_unfolded,
        local_by_formula,
        local_by_gather,
        local_that_grows,
        local_by_blocks,
        sliced(1, 1),
    ],
}

WRONG = {
    "multi_head_flops": {
        lambda n, d, h: (
            2 * n**2 * d + 4 * n * d**2
        ): "a multiplication and an addition are two",  # a product and a sum taken for one
        lambda n, d, h: (
            4 * n**2 * d * h + 8 * n * d**2
        ): "d_k of a head is d_model / n_heads",  # d_model for the dimension of a head
        lambda n, d, h: (
            4 * n**2 * d + 8 * n * d**2 * h
        ): "expected 3192, got 5208",  # projections once a head
        lambda n, d, h: 4 * n**2 * d: "the four projections are missing",  # without the projections
        lambda n, d, h: (
            4 * n**2 * d + 6 * n * d**2
        ): "W_o is the fourth matrix",  # no output projection
        lambda n, d, h: (
            4 * n**2 * d // h + 8 * n * d**2
        ): "expected 3192, got 2604",  # one head of them
        lambda n, d, h: (
            2 * n**2 * d + 8 * n * d**2
        ): "scores and weighted sum are two matrix multiplications",  # no weighted sum
        lambda n, d, h: (
            4 * n**2 * d + 8 * n * d * (d // h)
        ): "expected 3192, got 2184",  # projections of one head
        lambda n, d, h: (
            4 * n * d**2 + 8 * n**2 * d
        ): "expected 3192, got 3360",  # n and d_model swapped
        lambda n, d, h: 4 * n**2 * d + 4 * n * d**2: "expected 3192, got 2184",  # projections half
        lambda n, d, h: (
            4 * n**2 * d + 8 * n * d**2 + 5 * h * n**2
        ): "torch counts matrix multiplications only",  # softmax counted
        lambda n, d, h: (
            4 * n**2 * d / 1 + 8 * n * d**2
        ): "expected a whole number",  # no whole number
    },
    "dilated_path": {
        lambda n, k: math.ceil((n - 1) / (k - 1)): "the steps grow by k",  # contiguous
        lambda n, k: math.ceil(math.log(n, k)): "a rounding error of log rounds a power of k up",
        lambda n, k: math.ceil(
            math.log(n) / math.log(k)
        ): "a rounding error of log rounds a power of k up",
        lambda n, k: math.ceil(
            math.log2(n) / math.log2(k)
        ): "a rounding error of log2 rounds a power of k up",
        lambda n, k: math.ceil(
            math.log10(n) / math.log10(k)
        ): "a rounding error of log10 rounds a power of k up",
        lambda n, k: int(math.log(n, k)): "expected 1, got 0",  # rounded down
        lambda n, k: round(math.log(n, k)): "expected 2, got 1",  # rounded
        lambda n, k: math.ceil(math.log2(n)): "expected 1, got 2",  # always 2
        lambda n, k: math.ceil(n / k): "expected 3, got 25",  # divided once
        lambda n, k: (
            math.floor(math.log(n, k) + 1e-9) + 1
        ): "k**layers positions are enough for n",  # one more at powers
        lambda n, k: math.ceil(math.log(n - 1, k) - 1e-9): "expected 1, got 0",  # n - 1
        lambda n, k: (
            -(-n // k) if n < k**2 else math.ceil(n / k**2)
        ): "expected 3, got 5",  # divided twice
        lambda n, k: len(range(1, n, k)): "expected 2, got 1",  # steps that do not grow
        path_past_the_end: "k**layers positions are enough for n",  # one more at powers
        lambda n, k: math.log(n) / math.log(k): "expected a whole number",  # no whole number
    },
    "local_attention": {
        full_matrix: "times the FLOPs",
        full_matrix_without_a_product: "times the FLOPs",
        full_rows: "times the FLOPs",
        mean_of_the_window: "position 7 is wrong: it must attend to positions 0 to 10",  # uniform
        sliced(1, 0): "position 1 is wrong: it must attend to positions 0 to 10",  # backwards only
        sliced(0, 1): "position 10 is wrong: it must attend to positions 0 to 10",  # forwards only
        sliced(2, 2): "position 0 is wrong: it must attend to positions 0 to 2",  # twice the radius
        sliced(
            1, 1, end=0
        ): "position 1 is wrong: it must attend to positions 0 to 3",  # end left out
        sliced(
            1, 1, root=lambda key, value: 1
        ): "divide by the root of d_k, the last axis",  # not divided
        sliced(
            1, 1, root=lambda key, value: value.shape[1]
        ): "divide by the root of d_k, the last axis",  # root of d_v
        blocks_alone: "position 10 is wrong: it must attend to positions 8 to 10",  # blocks
        around_the_ends: "position 7 is wrong: it must attend to positions 0 to 10",
        zeros_seen: "position 7 is wrong: it must attend to positions 0 to 10",
        negative_start: "position 10 is wrong: it must attend to positions 0 to 10",
        always_full_windows: "position 0 is wrong: it must attend to positions 0 to 2",
        local_in_place: "argument 1 was changed",
        lambda query, key, value, radius: (
            value
        ): "position 8 is wrong: it must attend to positions 0 to 10",  # value
        lambda *inputs: sliced(1, 1)(*inputs)[:, None]: "shape (11, 7), got (11, 1, 7)",
    },
}

"""Answers to the exercises of the chapter: right ones in several styles, and mistakes."""

import torch

# --- the mean over the tokens of all ranks ---


def by_sums(gradients, tokens):
    return sum(t * g for g, t in zip(gradients, tokens, strict=True)) / sum(tokens)


def by_stack(gradients, tokens):
    weights = torch.tensor(tokens).to(gradients[0]) / sum(tokens)
    return torch.einsum("r...,r->...", torch.stack(gradients), weights)


def as_ddp_does_it(gradients, tokens):
    """Each rank scales its own gradient; then the mean over the ranks."""
    ranks, total = len(tokens), sum(tokens)
    return torch.stack(
        [g * t * ranks / total for g, t in zip(gradients, tokens, strict=True)]
    ).mean(0)


def one_by_one(gradients, tokens):
    mean, seen = torch.zeros_like(gradients[0]), 0
    for g, t in zip(gradients, tokens, strict=True):
        seen += t
        mean = mean + (g - mean) * t / seen
    return mean


def means(gradients, tokens):
    return torch.stack(gradients).mean(dim=0)


def inverse(gradients, tokens):
    weights = [1 / max(t, 1) for t in tokens]
    return sum(g * w for g, w in zip(gradients, weights, strict=True)) / sum(weights)


def in_place(gradients, tokens):
    for g, t in zip(gradients, tokens, strict=True):
        g.mul_(t)
    return sum(gradients) / sum(tokens)


def without_empty(gradients, tokens):
    """Right without an empty rank; with one, its gradient is given the weight of a token."""
    tokens = [max(t, 1) for t in tokens]
    return by_sums(gradients, tokens)


# --- the split of a batch ---


def contiguous(rows, rank, ranks):
    return torch.tensor_split(rows, ranks)[rank]


def by_numbers(rows, rank, ranks):
    mine = [i for i in range(len(rows)) if i % ranks == rank]
    return rows[torch.tensor(mine, dtype=torch.long)]


def by_mask(rows, rank, ranks):
    return rows[torch.arange(len(rows)) % ranks == rank]


def snake(rows, rank, ranks):
    """There and back: 0, 1, 2, 2, 1, 0, so that sums of lengths are closer."""
    turn = [*range(ranks), *reversed(range(ranks))]
    return rows[[i for i in range(len(rows)) if turn[i % (2 * ranks)] == rank], :]


def whole_parts_only(rows, rank, ranks):
    each = len(rows) // ranks
    return rows[rank * each : (rank + 1) * each]


def rest_to_the_last(rows, rank, ranks):
    each = len(rows) // ranks
    return rows[rank * each : None if rank == ranks - 1 else (rank + 1) * each]


def rounded_up(rows, rank, ranks):
    each = -(-len(rows) // ranks)
    return rows[rank * each : (rank + 1) * each]


def filled_up(rows, rank, ranks):
    """What a sampler does that repeats rows until all ranks have as many."""
    each = -(-len(rows) // ranks)
    again = torch.arange(each * ranks) % len(rows)
    return rows[again[rank::ranks]]


# --- the ring ---


def ring(x, send):
    n = len(x)
    x = [one.clone() for one in x]
    for step in range(2 * (n - 1)):
        arrived = [send(r, (r + 1) % n, x[r][(r - step) % n]) for r in range(n)]
        for r in range(n):
            chunk = (r - 1 - step) % n
            x[r][chunk] = arrived[r - 1] + (x[r][chunk] if step < n - 1 else 0)
    return x


def ring_of_lists(x, send):
    """Without a change in place, in two loops."""
    n, held = len(x), [list(one) for one in x]
    for step in range(n - 1):
        sent = {r: send(r, (r + 1) % n, held[r][(r - step) % n]) for r in range(n)}
        for r in range(n):
            held[r][(r - 1 - step) % n] = held[r][(r - 1 - step) % n] + sent[(r - 1) % n]
    for step in range(n - 1):
        sent = {r: send(r, (r + 1) % n, held[r][(r + 1 - step) % n]) for r in range(n)}
        for r in range(n):
            held[r][(r - step) % n] = sent[(r - 1) % n]
    return tuple(torch.stack(one) for one in held)


def chunk_by_chunk(x, send):
    """Each chunk makes its two rounds on its own: the same messages in another order."""
    n = len(x)
    out = [torch.empty_like(one) for one in x]
    for c in range(n):
        total = x[c][c]
        for hop in range(1, n):
            r = (c + hop) % n
            total = send((r - 1) % n, r, total) + x[r][c]
        last = (c + n - 1) % n
        out[last][c] = total
        for hop in range(1, n):
            r = (last + hop) % n
            total = send((r - 1) % n, r, total)
            out[r][c] = total
    return out


def no_messages(x, send):
    return [sum(x) for _ in x]


def everything_each_time(x, send):
    """A ring in which the whole vector goes round."""
    n = len(x)
    totals, passing = [one.clone() for one in x], list(x)
    for _ in range(n - 1):
        arrived = [send(r, (r + 1) % n, passing[r]) for r in range(n)]
        passing = [arrived[r - 1] for r in range(n)]
        totals = [total + one for total, one in zip(totals, passing, strict=True)]
    return totals


def only_first_half(x, send):
    n = len(x)
    x = [one.clone() for one in x]
    for step in range(n - 1):
        arrived = [send(r, (r + 1) % n, x[r][(r - step) % n]) for r in range(n)]
        for r in range(n):
            x[r][(r - 1 - step) % n] += arrived[r - 1]
    return x


def through_rank_0(x, send):
    n = len(x)
    total = x[0] + sum(send(r, 0, x[r]) for r in range(1, n))
    return [total] + [send(0, r, total) for r in range(1, n)]


def ignores_what_arrives(x, send):
    ring(x, send)
    return no_messages(x, send)


def in_the_given_tensors(x, send):
    n = len(x)
    for step in range(2 * (n - 1)):
        arrived = [send(r, (r + 1) % n, x[r][(r - step) % n]).clone() for r in range(n)]
        for r in range(n):
            chunk = (r - 1 - step) % n
            x[r][chunk] = arrived[r - 1] + (x[r][chunk] if step < n - 1 else 0)
    return x


# --- the cut by heads ---


def cut(w_q, w_k, w_v, w_o, rank, ranks):
    rows = [w.chunk(ranks, dim=0)[rank] for w in (w_q, w_k, w_v)]
    return *rows, w_o.chunk(ranks, dim=1)[rank]


def cut_by_slices(w_q, w_k, w_v, w_o, rank, ranks):
    def part(w):
        each = len(w) // ranks
        return w[rank * each : (rank + 1) * each]

    return part(w_q), part(w_k), part(w_v), part(w_o.T).T


def cut_by_unflatten(w_q, w_k, w_v, w_o, rank, ranks):
    parts = [w.unflatten(0, (ranks, -1))[rank] for w in (w_q, w_k, w_v)]
    return [*parts, w_o.unflatten(1, (ranks, -1))[:, rank]]


def all_by_rows(w_q, w_k, w_v, w_o, rank, ranks):
    return tuple(w.chunk(ranks, dim=0)[rank] for w in (w_q, w_k, w_v, w_o))


def all_by_columns(w_q, w_k, w_v, w_o, rank, ranks):
    return tuple(w.chunk(ranks, dim=1)[rank] for w in (w_q, w_k, w_v, w_o))


def every_other_row(w_q, w_k, w_v, w_o, rank, ranks):
    return w_q[rank::ranks], w_k[rank::ranks], w_v[rank::ranks], w_o[:, rank::ranks]


def other_heads_behind(w_q, w_k, w_v, w_o, rank, ranks):
    parts = cut(w_q, w_k, w_v, w_o, rank, ranks)
    return *parts[:3], w_o.chunk(ranks, dim=1)[ranks - 1 - rank]


def always_the_first(w_q, w_k, w_v, w_o, rank, ranks):
    return cut(w_q, w_k, w_v, w_o, 0, ranks)


RIGHT = {
    "my_mean": [by_sums, by_stack, as_ddp_does_it, one_by_one],
    "my_split": [
        lambda rows, rank, ranks: rows[rank::ranks],
        contiguous,
        by_numbers,
        by_mask,
        snake,
    ],
    "my_ring": [ring, ring_of_lists, chunk_by_chunk],
    "my_heads": [cut, cut_by_slices, cut_by_unflatten],
}
WRONG = {
    "my_mean": {
        means: "the mean of the ranks' means",
        lambda gradients, tokens: sum(gradients): "added up and not divided",
        lambda gradients, tokens: by_sums(gradients, tokens) * sum(tokens): "nothing is divided",
        lambda gradients, tokens: (
            by_sums(gradients, tokens) / len(tokens)
        ): "by the number of ranks",
        inverse: "a rank with few tokens gets the greater weight",
        in_place: "was changed",
        lambda gradients, tokens: by_sums(gradients, tokens).sum(): "expected an output of shape",
    },
    "my_split": {
        whole_parts_only: "row [6] is on no rank",
        rest_to_the_last: "sets the pace",
        rounded_up: "sets the pace",
        filled_up: "is on several ranks",
        lambda rows, rank, ranks: rows: "is on several ranks",
        lambda rows, rank, ranks: rows.chunk(ranks)[rank]: "sets the pace",
        lambda rows, rank, ranks: rows[rank]: "expected (rows, 2)",
    },
    "my_ring": {
        no_messages: "must have come through send",
        everything_each_time: "send one chunk in a step",
        only_first_half: "does not end with the sum",
        through_rank_0: "it has a link to rank",
        ignores_what_arrives: "use what arrives",
        in_the_given_tensors: "was changed",
        lambda x, send: ring(x, send)[0]: "one for each rank",
        lambda x, send: [one / len(x) for one in ring(x, send)]: "has the mean, not the sum",
    },
    "my_heads": {
        all_by_rows: "its columns belong to the heads",
        all_by_columns: "its rows are the heads' outputs",
        every_other_row: "each rank needs whole heads",
        other_heads_behind: "the same ones in all four matrices",
        always_the_first: "all ranks get the same heads",
        lambda *given: cut(*given)[:3]: "expected the four parts",
    },
}

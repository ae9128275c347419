"""Answers to the exercises of the chapter: right ones in several styles, and mistakes."""

import torch
import torch.distributed as dist

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


# --- data parallelism with a hook on each gradient ---


def hooks(model):
    n, waiting = dist.get_world_size(), []

    def send(parameter):
        parameter.grad /= n
        waiting.append(dist.all_reduce(parameter.grad, async_op=True))

    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), 0)
        parameter.register_post_accumulate_grad_hook(send)

    def wait():
        while waiting:
            waiting.pop().wait()

    return wait


class Hooks:
    """A class whose instance is called; it divides at the end, and begins with a mean of ranks."""

    def __init__(self, model):
        self.model, self.waiting = model, []
        for parameter in model.parameters():
            dist.all_reduce(parameter.data)
            parameter.data /= dist.get_world_size()
            parameter.register_post_accumulate_grad_hook(self.send)

    def send(self, parameter):
        work = dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM, async_op=True)
        self.waiting.append((parameter, work))

    def __call__(self):
        for parameter, work in self.waiting:
            work.wait()
            parameter.grad.div_(dist.get_world_size())
        self.waiting = []


def hooks_on_copies(model):
    """The message is a copy of the gradient; the list is never emptied but made anew."""
    state = {"sent": []}

    def hook_of(parameter):
        def hook(*_):
            copy = parameter.grad.clone()
            state["sent"].append((parameter, copy, dist.all_reduce(copy, async_op=True)))

        return hook

    with torch.no_grad():
        for parameter in model.parameters():
            dist.broadcast(parameter, src=0)
            parameter.register_post_accumulate_grad_hook(hook_of(parameter))

    def wait():
        sent, state["sent"] = state["sent"], []
        for parameter, copy, work in sent:
            work.wait()
            parameter.grad.copy_(copy / dist.get_world_size())

    return wait


def send_and_wait(model, send, alike=True):
    """What several mistakes have in common: a hook, a list, and its end."""
    waiting = []
    for parameter in model.parameters():
        if alike:
            dist.broadcast(parameter.detach(), 0)
        parameter.register_post_accumulate_grad_hook(lambda p: waiting.append(send(p)))

    def wait():
        while waiting:
            work = waiting.pop()
            if work is not None:
                work.wait()

    return wait


def divided(parameter, by=2, **options):
    parameter.grad /= min(by, dist.get_world_size() ** 2)
    return dist.all_reduce(parameter.grad, **options)


def sums(model):
    return send_and_wait(model, lambda p: dist.all_reduce(p.grad, async_op=True))


def not_alike(model):
    return send_and_wait(model, lambda p: divided(p, async_op=True), alike=False)


def waits_in_backward(model):
    return send_and_wait(model, divided)


def never_waits(model):
    send_and_wait(model, lambda p: (divided(p, async_op=True), None)[1])
    return lambda: None


def divides_twice(model):
    return send_and_wait(model, lambda p: divided(p, by=4, async_op=True))


def matrices_only(model):
    return send_and_wait(model, lambda p: divided(p, async_op=True) if p.dim() > 1 else None)


def after_backward(model):
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), 0)

    def wait():
        for parameter in model.parameters():
            divided(parameter)

    return wait


# --- data parallelism with buckets ---


def bucketed(model, size, divide=True, last=True, back=True, empty=True):
    """The buckets, and with an option turned off a mistake."""
    n, bucket, sent = dist.get_world_size(), [], []

    def send():
        flat = torch.cat([p.grad.flatten() for p in bucket]) / (n if divide else 1)
        sent.append(([*bucket], flat, dist.all_reduce(flat, async_op=True)))
        if empty:
            bucket.clear()

    def hook(parameter):
        bucket.append(parameter)
        if sum(p.numel() for p in bucket) >= size:
            send()

    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), 0)
        parameter.register_post_accumulate_grad_hook(hook)

    def wait():
        if bucket and last:
            send()
        for parameters, flat, work in sent:
            work.wait()
            for p, g in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
                if back:
                    p.grad.copy_(g.view_as(p))
        sent.clear()
        bucket.clear()

    return wait


def planned(model, size):
    """As torch does it: the buckets are made beforehand, in the order of the backward pass."""
    buckets, waiting = [[]], []
    for p in reversed(list(model.parameters())):
        dist.broadcast(p.detach(), 0)
        if sum(q.numel() for q in buckets[-1]) >= size:
            buckets.append([])
        buckets[-1].append(p)
    missing = {}

    def hook_of(number, bucket):
        def hook(_):
            missing[number] = missing.get(number, len(bucket)) - 1
            if missing[number] == 0:
                missing[number] = len(bucket)
                flat = torch.cat([p.grad.reshape(-1) for p in bucket])
                waiting.append((bucket, flat, dist.all_reduce(flat, async_op=True)))

        return hook

    for number, bucket in enumerate(buckets):
        for p in bucket:
            p.register_post_accumulate_grad_hook(hook_of(number, bucket))

    def wait():
        for bucket, flat, work in waiting:
            work.wait()
            flat /= dist.get_world_size()
            begin = 0
            for p in bucket:
                p.grad = flat[begin : begin + p.numel()].reshape(p.shape).clone()
                begin += p.numel()
        waiting.clear()

    return wait


class Buckets:
    """A class, with a counter of numbers; each message is divided when it has arrived."""

    def __init__(self, model, size):
        self.size, self.count, self.bucket, self.sent = size, 0, [], []
        for p in model.parameters():
            dist.broadcast(p.data, 0)
            p.register_post_accumulate_grad_hook(self.add)

    def add(self, p):
        self.bucket.append(p)
        self.count += p.numel()
        if self.count >= self.size:
            self.send()

    def send(self):
        flat = torch.nn.utils.parameters_to_vector([p.grad for p in self.bucket])
        self.sent.append((self.bucket, flat, dist.all_reduce(flat, async_op=True)))
        self.bucket, self.count = [], 0

    def __call__(self):
        if self.bucket:
            self.send()
        for bucket, flat, work in self.sent:
            work.wait()
            gradients = [p.grad for p in bucket]
            torch.nn.utils.vector_to_parameters(flat / dist.get_world_size(), gradients)
            for p, g in zip(bucket, gradients, strict=True):
                p.grad = g
        self.sent = []


def one_by_one_again(model, size):
    return hooks(model)


def everything_at_the_end(model, size):
    return bucketed(model, size=10**9)


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
    "my_ddp": [hooks, Hooks, hooks_on_copies],
    "my_buckets": [bucketed, planned, Buckets],
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
    "my_ddp": {
        sums: "the sum over the ranks, not their mean",
        not_alike: "the ranks begin with different parameters",
        waits_in_backward: "begin it with async_op=True",
        never_waits: "still on its way",
        divides_twice: "twice",
        matrices_only: "no all-reduce has changed it",
        after_backward: "nothing is sent before backward has ended",
        lambda model: hooks(model)(): "expected a function that waits",
    },
    "my_buckets": {
        one_by_one_again: "expected 50 or more in each but the last",
        everything_at_the_end: "nothing is sent before backward has ended",
        lambda model, size: bucketed(model, size, divide=False): "not their mean",
        lambda model, size: bucketed(model, size, last=False): "no all-reduce has changed it",
        lambda model, size: bucketed(model, size, back=False): "no all-reduce has changed it",
        lambda model, size: bucketed(model, size, empty=False): "empty the bucket",
    },
}

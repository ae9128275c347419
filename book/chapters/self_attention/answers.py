"""Chapter 4: right answers in several styles, and wrong ones with what each must be told."""

import math

import torch
from torch.nn import functional as F


def layer(scale=None, dim=-1, transpose=lambda key: key.mT, softmax=True, swap=False):
    def attend(x, w_q, w_k, w_v):
        if swap:
            w_q, w_k = w_k, w_q
        scores = (x @ w_q) @ transpose(x @ w_k)
        scores = scores / math.sqrt(w_q.shape[1] if scale is None else scale(x, w_q, w_v))
        return (scores.softmax(dim) if softmax else scores) @ (x @ w_v)

    return attend


def torchs_layer(x, w_q, w_k, w_v):
    return F.scaled_dot_product_attention(x @ w_q, x @ w_k, x @ w_v)


def by_einsum(x, w_q, w_k, w_v):
    scores = torch.einsum("bnx,xd,yd,bmy->bnm", x, w_q, w_k, x) * w_k.shape[1] ** -0.5
    return torch.einsum("bnm,bmx,xv->bnv", torch.softmax(scores, dim=2), x, w_v)


def one_matrix_for_both(x, w_q, w_k, w_v):
    return (x @ (w_q @ w_k.T) @ x.mT / math.sqrt(w_q.shape[1])).softmax(-1) @ x @ w_v


def sentence_by_sentence(x, w_q, w_k, w_v):
    joined = torch.cat([w_q, w_k, w_v], dim=1)
    out = []
    for rows in x:
        query, key, value = (rows @ joined).split([w_q.shape[1], w_k.shape[1], w_v.shape[1]], -1)
        out.append(((key @ query.T) / query.shape[-1] ** 0.5).softmax(dim=0).T @ value)
    return torch.stack(out)


def position_by_position(x, w_q, w_k, w_v):
    out = torch.empty(*x.shape[:2], w_v.shape[1], dtype=x.dtype, device=x.device)
    for t in range(x.shape[1]):
        scores = ((x @ w_k) * (x[:, t : t + 1] @ w_q)).sum(-1) / math.sqrt(w_k.size(1))
        out[:, t] = (scores.softmax(-1).unsqueeze(-1) * (x @ w_v)).sum(1)
    return out


def scaled_matrix(x, w_q, w_k, w_v):
    w_q = w_q.clone().div_(math.sqrt(w_q.shape[1]))
    return layer(scale=lambda *_: 1)(x, w_q, w_k, w_v)


def one_sentence(x, w_q, w_k, w_v):
    query, key, value = F.linear(x, w_q.T), F.linear(x, w_k.T), F.linear(x, w_v.T)
    return torch.nn.Softmax(dim=1)(query @ key.T / key.shape[1] ** 0.5) @ value


def all_sentences_as_one(x, w_q, w_k, w_v):
    return one_sentence(x.flatten(0, 1), w_q, w_k, w_v).view(*x.shape[:2], -1)


def doubled_in_place(x, w_q, w_k, w_v):
    return layer()(x.mul_(2), w_q, w_k, w_v)


def scaled_in_place(x, w_q, w_k, w_v):
    w_q /= math.sqrt(w_q.shape[1])
    return layer(scale=lambda *_: 1)(x, w_q, w_k, w_v)


def weights_transposed(x, w_q, w_k, w_v):
    weights = ((x @ w_q) @ (x @ w_k).mT / math.sqrt(w_q.shape[1])).softmax(-1)
    return weights.mT @ (x @ w_v)


def by_matrix(function, x, order):
    P = torch.eye(len(x), dtype=x.dtype)[order]
    return torch.dist(function(P @ x), P @ function(x), p=math.inf).item()


def undone_on_the_left(function, x, order):
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return float((function(x[order])[back] - function(x)).abs().amax())


def number_by_number(function, x, order):
    after, before = function(x[order]).tolist(), function(x).tolist()
    pairs = zip(after, [before[i] for i in order], strict=True)
    return max(abs(a - b) for rows in pairs for a, b in zip(*rows, strict=True))


def shuffles_in_place(function, x, order):
    before = function(x)[order]
    x.copy_(x[order])
    return (function(x) - before).abs().max().item()


def sorts_the_order_in_place(function, x, order):
    gap = (function(x[order]) - function(x)[order]).abs().max().item()
    order.copy_(order.argsort())
    return gap


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


def entry_by_entry(n_letters, n):
    w_q, w_k = torch.zeros(n_letters + n, n), torch.zeros(n_letters + n, n)
    w_v = torch.zeros(n_letters + n, n_letters)
    for i in range(n):
        w_q[n_letters + i, i] = 1.0
        w_k[n_letters + n - 1 - i, i] = 100.0
    w_v[:n_letters] = torch.eye(n_letters)
    return [w_q, w_k, w_v]


def square_matrices(n_letters, n):
    w_k = torch.block_diag(torch.zeros(n_letters, n_letters), 60 * torch.eye(n)).double()
    w_q = w_k.clone()
    w_q[n_letters:, n_letters:] = w_k[n_letters:, n_letters:].flip(0)
    return w_q, w_k, torch.eye(n_letters + n, n_letters).double()


def on_a_circle(n_letters, n):
    """Positions as points on a circle: keys and queries have two numbers each."""
    angle = torch.arange(n) * 2 * math.pi / n
    points = torch.stack([angle.cos(), angle.sin()], dim=1)
    nothing = torch.zeros(n_letters, 2)
    w_k, w_q = torch.cat([nothing, points]), torch.cat([nothing, 1000 * points.flip(0)])
    return w_q, w_k, torch.cat([torch.eye(n_letters), torch.zeros(n, n_letters)])


def seen_from_above(n_letters, n):
    """All scores of a query lowered alike, which the softmax does not see; as parameters."""
    w_q, w_k, w_v = reversing(factor=30.0)(n_letters, n)
    return [torch.nn.Parameter(w) for w in (w_q - 30.0, w_k, w_v)]


def other_alphabet(n_letters, n):
    w_q, w_k, w_v = reversing()(n_letters, n)
    return w_q, w_k, w_v.flip(1)


def one_to_the_left(n_letters, n):
    w_q, w_k, w_v = reversing(flip=False)(n_letters, n)
    return w_q.roll(1, dims=1), w_k, w_v


RIGHT = {
    "my_self_attention": [
        layer(),
        torchs_layer,
        by_einsum,
        one_matrix_for_both,
        sentence_by_sentence,
        position_by_position,
        scaled_matrix,
        torch.vmap(one_sentence, in_dims=(0, None, None, None)),
    ],
    "equivariance_gap": [
        lambda f, x, order: (f(x[order]) - f(x)[order]).abs().max(),  # a tensor without axes
        lambda f, x, order: (f(x)[order] - f(x[order])).norm(p=torch.inf).item(),
        by_matrix,
        undone_on_the_left,
        lambda f, x, order: abs((f(x[order]) - f(x)[order]).numpy()).max(),
        lambda f, x, order: max(map(abs, (f(x[order]) - f(x)[order]).flatten().tolist())),
        number_by_number,
    ],
    "reversing_weights": [
        reversing(),
        reversing(factor=1e4),
        entry_by_entry,
        square_matrices,
        on_a_circle,
        seen_from_above,
    ],
}
WRONG = {
    "my_self_attention": {
        layer(transpose=lambda key: key.permute(2, 1, 0)): ".T",
        layer(scale=lambda x, w_q, w_v: 1): "the scores are not divided",
        layer(scale=lambda x, w_q, w_v: w_q.shape[1] ** 2): "d_k itself",
        layer(scale=lambda x, w_q, w_v: x.shape[-1]): "the root of d_x",
        layer(scale=lambda x, w_q, w_v: x.shape[1]): "the root of the number of queries",
        layer(scale=lambda x, w_q, w_v: w_v.shape[1]): "the root of d_v",
        layer(dim=-2): "over the queries",
        layer(dim=0): "over the batch",
        layer(softmax=False): "a softmax over the keys is missing",
        layer(swap=True): "queries and keys are swapped",
        weights_transposed: "expected softmax(Q K^T / sqrt(d_k)) V",
        lambda x, w_q, w_k, w_v: (
            (x @ w_v).mean(1, keepdim=True).expand_as(x @ w_v)
        ): "expected softmax(Q K^T / sqrt(d_k)) V",
        lambda x, w_q, w_k, w_v: layer()(x.detach(), w_q, w_k, w_v): "the gradient of x",
        all_sentences_as_one: "the keys of all sequences of the batch",
        lambda x, *matrices: x + layer()(x, *matrices): "expected softmax(Q K^T / sqrt(d_k)) V",
        doubled_in_place: "argument 1 was changed",
        scaled_in_place: "argument 2 was changed",
    },
    "equivariance_gap": {
        lambda f, x, order: (
            (f(x[order]) - f(x)).abs().max().item()
        ): "compares with f(x), which asks for invariance",
        lambda f, x, order: (
            (f(x[order]) - f(x)[order.argsort()]).abs().max().item()
        ): "the right side is f(x)[inverse]",
        lambda f, x, order: (f(x)[order] - f(x)[order]).abs().max().item(): "f must see x[order]",
        lambda f, x, order: (
            (f(x[order]) - f(x)[order]).max().item()
        ): "a negative difference counts too",
        lambda f, x, order: (f(x[order]) - f(x)[order]).abs().mean().item(): "the largest entry",
        lambda f, x, order: (f(x[order]) - f(x)[order]).abs().sum().item(): "the largest entry",
        lambda f, x, order: (f(x[order]) - f(x)[order]).norm().item(): "the largest entry",
        lambda f, x, order: (f(x[order]) - f(x)[order]).abs(): "expected one number, got 15",
        lambda f, x, order: torch.allclose(f(x[order]), f(x)[order]): "got True",
        lambda f, x, order: (f(x[:, order]) - f(x)[:, order]).abs().max(): "your function raised",
        lambda f, x, order: (f(x[order]) - f(x)[order]).abs().max() / f(x).abs().max(): (
            "the largest entry"
        ),
        shuffles_in_place: "argument 2 was changed",
        sorts_the_order_in_place: "argument 3 was changed",
    },
    "reversing_weights": {
        reversing(factor=1.0): "gives it only 0.35",
        reversing(flip=False): "looks most at position 0",
        reversing(swap_value=True): "not as [2, 4, 2, 3, 1, 0]: the value of a position",
        reversing(by_letter=True): "position i must look at position n - 1 - i",
        reversing(factor=1e40): "the weights are not finite",
        one_to_the_left: "looks most at position 1",
        lambda n_letters, n: torch.eye(n_letters + n): "w_v, got a tensor of shape (11, 11)",
        lambda n_letters, n: reversing()(n_letters, n)[:2]: "w_v, got a tuple of 2",
        lambda n_letters, n: (
            torch.eye(n),
            torch.eye(n),
            torch.eye(n),
        ): "w_v of shape (11, 5), got (6, 6), (6, 6), (6, 6)",
        lambda n_letters, n: reversing()(n, n_letters): "got (11, 5), (11, 5), (11, 6)",
        lambda n_letters, n: tuple(
            w.round().long() for w in reversing()(n_letters, n)
        ): "got torch.int64",
        other_alphabet: "value of a position must be its letter",
        lambda n_letters, n: [
            w.T for w in reversing()(n_letters, n)
        ]: "got (6, 11), (6, 11), (5, 11)",
    },
}

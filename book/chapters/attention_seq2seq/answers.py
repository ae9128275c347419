"""Chapter 2: right answers in several styles, and wrong ones with what each must be told."""

import torch
from torch import nn
from torch.nn import functional as F

from lib.seq2seq import AdditiveAttention


def softmax_with(fill, dim=-1):
    return lambda scores, mask: scores.masked_fill(~mask, fill).softmax(dim)


def smallest(scores, mask):
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1)


def by_the_formula(scores, mask):
    highest = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True)
    exponentials = (scores - highest).clamp(max=0).exp() * mask
    return exponentials / exponentials.sum(-1, keepdim=True)


def row_by_row(like):
    def masked_weights(scores, mask):
        weights = like(scores)
        for row, allowed in enumerate(mask):
            weights[row, allowed] = scores[row, allowed].softmax(0)
        return weights

    return masked_weights


def masked_afterwards(scores, mask):
    return scores.softmax(-1) * mask


def masked_afterwards_and_divided(scores, mask):
    weights = scores.softmax(-1) * mask  # the softmax underflows
    return weights / weights.sum(-1, keepdim=True)


def by_logsumexp(scores, mask):
    masked = scores.masked_fill(~mask, -torch.inf)
    return (masked - masked.logsumexp(-1, keepdim=True)).exp()


def softmax_inverted(scores, mask):
    return scores.masked_fill(mask, -torch.inf).softmax(-1)


def quotient_without_shift(scores, mask):
    weights = scores.exp() * mask
    return weights / weights.sum(-1, keepdim=True)


def with_nan(scores, mask):
    return (scores + (~mask) * -torch.inf).softmax(-1)  # 0 times infinity


def changes_its_input(scores, mask):
    return scores.masked_fill_(~mask, -torch.inf).softmax(-1)


def changes_the_mask(scores, mask):
    mask.logical_not_()
    return scores.masked_fill(mask, -torch.inf).softmax(-1)


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


def sentence_by_sentence(query, keys, W):
    weights = [(k @ W.T @ q).softmax(0) for q, k in zip(query, keys, strict=True)]
    context = [a @ k for a, k in zip(weights, keys, strict=True)]
    return [torch.stack(context), torch.stack(weights)]


def products_of_batches(query, keys, W):
    scores = torch.bmm((query @ W)[:, None], keys.mT)  # (batch, 1, key)
    weights = scores.softmax(-1)
    return torch.bmm(weights, keys)[:, 0], weights[:, 0]


def torchs_bilinear(query, keys, W):
    each = query[:, None].expand(-1, keys.shape[1], -1)
    weights = nn.Softmax(dim=1)(F.bilinear(each, keys, W[None])[..., 0])
    return torch.einsum("bk,bkd->bd", weights, keys), weights


def torchs_attention(query, keys, W):
    projected = (query @ W).unsqueeze(1)
    context = F.scaled_dot_product_attention(projected, keys, keys, scale=1.0)
    return context.squeeze(1), (projected * keys).sum(2).softmax(1)


def one_sentence(query, keys, W):
    weights = torch.mv(keys, query @ W).softmax(0)
    return keys.T @ weights, weights


def weighs_keys_in_place(query, keys, W):
    weights = q_w_k(query, keys, W).softmax(-1)
    keys *= weights[..., None]
    return keys.sum(1), weights


def softmax_over_one(query, keys, W):
    weights = (keys @ (query @ W).unsqueeze(-1)).softmax(-1)  # (batch, key, 1): all ones
    return (weights * keys).sum(1), weights.squeeze(-1)


def nothing_squeezed(query, keys, W):
    weights = ((query @ W)[:, None] @ keys.mT).softmax(-1)
    return weights @ keys, weights


def additive(squash=torch.tanh, query=1.0, bias=1.0, weigh=None, context=None):
    """Additive attention, with one thing that can be wrong in each argument."""

    def attend(s, h, W_q, W_k, b, v):
        scores = squash(query * (W_q @ s) + h @ W_k.T + bias * b) @ v
        weights = weigh(scores) if weigh else scores.softmax(0)
        return context(h, weights) if context else weights @ h, weights

    return attend


def additive_by_loops(s, h, W_q, W_k, b, v):
    scores = [v.dot(torch.tanh(W_q @ s + W_k @ h_i + b)) for h_i in h]
    exponentials = [score.exp() for score in scores]
    weights = torch.stack(exponentials) / sum(exponentials)
    return sum(a_i * h_i for a_i, h_i in zip(weights, h, strict=True)), weights


def additive_by_einsum(s, h, W_q, W_k, b, v):
    inside = torch.einsum("md,d->m", W_q, s) + torch.einsum("nd,md->nm", h, W_k) + b
    weights = torch.einsum("nm,m->n", inside.tanh(), v).softmax(-1)
    return torch.einsum("n,nd->d", weights, h), weights


def additive_by_the_library(s, h, W_q, W_k, b, v):
    layer = AdditiveAttention(len(s), h.shape[1], len(v)).to(s.dtype)
    named = {"query_map.weight": W_q, "key_map.weight": W_k, "key_map.bias": b}
    named |= {"score.weight": v[None]}
    context, weights = torch.func.functional_call(layer, named, (s[None], h[None]))
    return context[0], weights[0]


def additive_of_the_sum(s, h, W_q, W_k, b, v):
    scores = (torch.tanh(W_q @ s + h @ W_k.T + b) * v)[:, :1]  # (key, 1): its softmax is 1
    weights = scores.softmax(-1).squeeze(-1)
    return weights @ h, weights


RIGHT = {
    "attend": [additive(), additive_by_loops, additive_by_einsum, additive_by_the_library],
    "masked_weights": [
        softmax_with(-torch.inf),
        smallest,
        by_the_formula,
        row_by_row(torch.zeros_like),
        row_by_row(lambda scores: torch.zeros(scores.shape)),
        by_logsumexp,
        lambda scores, mask: torch.masked.softmax(scores, -1, mask=mask).nan_to_num(),
        lambda scores, mask: F.softmax(torch.where(mask, scores, -torch.inf), dim=1),
        lambda scores, mask: (scores + mask.to(scores.dtype).log()).softmax(-1),
        lambda scores, mask: scores.masked_fill(mask == False, -torch.inf).log_softmax(1).exp(),  # noqa: E712
    ],
    "bilinear_attention": [
        bilinear(q_w_k),
        sentence_by_sentence,
        products_of_batches,
        torchs_bilinear,
        torchs_attention,
        torch.vmap(one_sentence, in_dims=(0, 0, None)),
        bilinear(lambda q, k, W: ((q @ W)[:, None] * k).sum(-1)),
        bilinear(lambda q, k, W: (k @ W.T @ q[..., None]).squeeze(-1)),
    ],
}
WRONG = {
    "attend": {
        additive(squash=lambda x: x): "the tanh is missing",
        additive(squash=torch.sigmoid): "the softmax over i of v . tanh",
        additive(query=0): "the query is missing",
        additive(bias=0): "b is missing",
        additive(weigh=lambda scores: scores): "before the softmax",
        additive(weigh=torch.sigmoid): "the weights are wrong",
        additive_of_the_sum: "an axis of length 1",
        additive(context=lambda h, a: h.mean(0)): "the plain mean",
        additive(context=lambda h, a: h.sum(0)): "the sum over all states",
        additive(context=lambda h, a: h[a.argmax()]): "mix them all",
        additive(context=lambda h, a: a[:, None] * h): "got (5, 7) for the context",
        lambda s, h, W_q, W_k, b, v: (
            torch.tanh(W_q @ s + h @ W_k.T + b).sum(1).softmax(0) @ h,
            torch.tanh(W_q @ s + h @ W_k.T + b).sum(1).softmax(0),
        ): "v is missing",
        lambda *inputs: additive()(*inputs)[::-1]: "the weights come first",
        lambda *inputs: additive()(*inputs)[0]: "the context and the weights",
        lambda s, h, W_q, W_k, b, v: additive()(s, h, W_q, W_k.T, b, v): "your function raised",
        lambda s, h, W_q, W_k, b, v: additive()(s, h, W_q, W_k, b.zero_(), v): "5 was changed",
    },
    "masked_weights": {
        lambda scores, mask: scores.softmax(-1): "the mask was not used",
        masked_afterwards: "masked after the softmax",
        masked_afterwards_and_divided: "row 1 is [nan, nan, nan, nan, nan]",
        softmax_with(0.0): "not 0 or another finite number",
        softmax_with(-9.0): "not 0 or another finite number",
        softmax_with(-1e4): "not 0 or another finite number",
        softmax_with(1e-9): "not 0 or another finite number",
        softmax_with(-torch.inf, dim=0): "over the keys, which are the last axis",
        lambda scores, mask: (
            scores.masked_fill(mask, -torch.inf).softmax(-1).nan_to_num()
        ): "the wrong way round",
        with_nan: "a weight is not finite",
        lambda scores, mask: (scores * mask).softmax(-1): "not 0 or another finite number",
        lambda scores, mask: scores.masked_fill(~mask, -torch.inf).exp(): "must sum to 1",
        softmax_inverted: "the wrong way round",
        quotient_without_shift: "0 / 0 when all exponentials are 0; row 1 is [nan",
        changes_its_input: "argument 1 was changed",
        changes_the_mask: "argument 2 was changed",
        lambda scores, mask: (
            mask / mask.sum(-1, keepdim=True)
        ): "softmax of its allowed scores; row 0 is [0.2, 0.2, 0.2, 0.2, 0.2]",
        lambda scores, mask: scores.masked_fill(~mask, -torch.inf): "before the softmax",
    },
    "bilinear_attention": {
        bilinear(q_w_k, dim=0): "runs over the batch",
        bilinear(
            lambda q, k, W: (repeated(q @ W, k)[:, None] * k).sum(-1) / k.shape[-1] ** 0.5
        ): "divided by the root of d_key",
        bilinear(lambda q, k, W: (repeated(q, k)[:, None] * k).sum(-1)): "e_i = q . W k_i",
        bilinear(lambda q, k, W: q_w_k(q, k, W).tanh()): "a tanh is around the scores",
        bilinear(lambda q, k, W: (q @ W @ k.sum(0).T).squeeze()[: len(q)]): "e_i = q . W k_i",
        bilinear(q_w_k, context=lambda q, k, W, a: k.mean(1)): "with the keys themselves",
        bilinear(q_w_k, context=lambda q, k, W, a: k.sum(1)): "the context is not",
        bilinear(q_w_k, context=lambda q, k, W, a: repeated(q, k)): "the context is not",
        bilinear(
            q_w_k, context=lambda q, k, W, a: k[torch.arange(len(k)), a.argmax(-1)]
        ): "the context is not",
        lambda q, k, W: (bilinear(q_w_k)(q, k, W)[0], q_w_k(q, k, W)): "these are the scores",
        lambda q, k, W: bilinear(q_w_k)(q, k, W)[::-1]: "the weights come first",
        lambda q, k, W: bilinear(q_w_k)(q, k, W)[
            0
        ]: "the context and the weights, got a tensor of shape (3, 7)",
        softmax_over_one: "an axis of length 1",
        nothing_squeezed: "got (3, 1, 5) for the weights",
        lambda q, k, W: bilinear(q_w_k)(q, k, W.T): "your function raised",
        lambda q, k, W: bilinear(q_w_k)(q, k, W.mul_(1.0).add_(1)): "argument 3 was changed",
        bilinear(lambda q, k, W: q_w_k(q, k, W).sigmoid()): "e_i = q . W k_i",
        weighs_keys_in_place: "argument 2 was changed",
    },
}

"""Answers to the exercises of chapter 15: parts well fixed in several styles, and ill fixed."""

import copy
import itertools
import math

import torch
from torch import nn
from torch.nn import functional as F

from lib.attention import MultiHeadAttention, attention_weights, scaled_dot_product_attention
from lib.positions import sinusoidal_table


def map_by_einsum(query, key, mask):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    weights = torch.where(mask, scores, -torch.inf).softmax(3)
    return torch.where(mask, weights, 0)


def map_by_nan_to_num(query, key, mask):
    scores = torch.matmul(query, key.mT).div(math.sqrt(key.shape[-1]))
    return F.softmax(scores.masked_fill(mask.logical_not(), float("-inf")), dim=-1).nan_to_num(0.0)


def map_by_hand(query, key, mask):
    """In float32, the greatest real score taken off; a row without a key is divided by 1."""
    scores = (query.float() / query.shape[-1] ** 0.5) @ key.float().mT
    highest = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    weights = torch.where(mask, (scores - highest).exp(), 0.0)
    total = weights.sum(-1, keepdim=True)
    return (weights / total.where(total > 0, 1.0)).to(query.dtype)


def map_by_loops(query, key, mask):
    weights = torch.zeros(*query.shape[:-1], key.shape[-2], dtype=query.dtype)
    for b in range(query.shape[0]):
        for h in range(query.shape[1]):
            for i in range(query.shape[2]):
                seen = mask[b, 0, i].nonzero()[:, 0]
                scores = key[b, h, seen] @ query[b, h, i] / math.sqrt(query.shape[3])
                weights[b, h, i, seen] = scores.softmax(0)
    return weights


def map_by_the_library(query, key, mask):
    return attention_weights(query, key, mask)


def map_by_a_sum(query, key, mask):
    """What is hidden gets -inf by addition; the softmax is exp of a log-softmax."""
    hidden = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -torch.inf)
    scores = query @ (key / math.sqrt(key.shape[-1])).transpose(2, 3) + hidden
    return (scores - scores.logsumexp(-1, keepdim=True)).exp().nan_to_num()


def map_of_what_is_seen(query, key, mask):
    """Multiplies by the mask after the softmax, and divides by what is left."""
    scores = torch.einsum("...qd,...kd->...qk", query, key) / query.shape[-1] ** 0.5
    scores = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1) * mask
    return weights / weights.sum(-1, keepdim=True).clamp(
        min=1e-4 if weights.dtype == torch.half else 1e-9
    )


def map_with(root=-1, axis=-1, filler=-math.inf, empty=True, flip=False, fill_after=False):
    """A map with a choice of the mistakes left in."""

    def weigh(query, key, mask):
        scores = query @ key.transpose(-2, -1) / (math.sqrt(query.size(root)) if root else 1)
        lowest = torch.finfo(scores.dtype).min if filler == "lowest" else filler
        seen = ~mask if flip else mask
        if not fill_after:
            scores = scores.masked_fill(~seen, lowest)
        weights = scores.softmax(dim=axis)
        return weights.masked_fill(~seen, 0.0) if empty else weights

    return weigh


def map_that_divides_in_place(query, key, mask):
    return map_with(root=None)(query.div_(math.sqrt(query.size(-1))), key, mask)


def map_that_turns_the_mask(query, key, mask):
    hidden = mask.logical_not_()
    scores = (query @ key.mT / math.sqrt(query.size(-1))).masked_fill(hidden, -torch.inf)
    return scores.softmax(-1).masked_fill(hidden, 0.0)


class WithMatrices(nn.Module):
    def __init__(self, d_in, n_heads, d_out):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_in // n_heads
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_in, d_in) for _ in range(3))
        self.w_o = nn.Linear(d_in, d_out)

    def projected(self, x):
        return self.w_q(x), self.w_k(x), self.w_v(x)


class LayerByEinsum(WithMatrices):
    def forward(self, x):
        q, k, v = (y.view(*x.shape[:2], self.n_heads, self.d_k) for y in self.projected(x))
        weights = (torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.d_k)).softmax(-1)
        return self.w_o(torch.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape))


class LayerByLoop(WithMatrices):
    def forward(self, x):
        heads = zip(*(y.chunk(self.n_heads, dim=-1) for y in self.projected(x)), strict=True)
        joined = torch.cat([scaled_dot_product_attention(*head) for head in heads], dim=-1)
        return F.linear(joined, self.w_o.weight, self.w_o.bias)


class LayerByKernel(WithMatrices):
    def forward(self, x):
        q, k, v = (y.unflatten(2, (self.n_heads, self.d_k)).mT.mT for y in self.projected(x))
        out = F.scaled_dot_product_attention(*(y.permute(0, 2, 1, 3) for y in (q, k, v)))
        return self.w_o(out.permute(0, 2, 1, 3).contiguous().view(*x.shape))


class LayerOfWholeMatrices(WithMatrices):
    """Each head has its rows of the matrices; the heads' outputs add up behind W_o."""

    def forward(self, x):
        total = self.w_o.bias
        for h in range(self.n_heads):
            rows = slice(h * self.d_k, (h + 1) * self.d_k)
            q, k, v = (x @ w.weight[rows].T + w.bias[rows] for w in (self.w_q, self.w_k, self.w_v))
            head = (q @ k.mT / self.d_k**0.5).softmax(-1) @ v
            total = total + head @ self.w_o.weight[:, rows].T
        return total


class LayerByBatches(WithMatrices):
    """Heads and sentences are one axis, in bmm."""

    def cut(self, x):
        return x.view(*x.shape[:2], self.n_heads, -1).swapaxes(1, 2).flatten(0, 1)

    def forward(self, x):
        q, k, v = map(self.cut, self.projected(x))
        weights = torch.bmm(q, k.mT).div_(math.sqrt(self.d_k)).softmax(dim=-1)
        heads = torch.bmm(weights, v).unflatten(0, (len(x), self.n_heads))
        return self.w_o(heads.swapaxes(1, 2).reshape(*x.shape[:2], -1))


def layer_of_the_library(d_in, n_heads, d_out):
    return MultiHeadAttention(d_in, n_heads, d_out=d_out)


def layer_with(by_reshape=(False, False), shared=False, made_in_forward=False, root=None):
    """A layer with a choice of mistakes: how it splits and joins, which matrices it has."""

    class Layer(WithMatrices):
        def split(self, x):
            if by_reshape[0]:
                return x.reshape(len(x), self.n_heads, x.shape[1], -1)
            return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

        def forward(self, x):
            q, k, v = map(self.split, self.projected(x))
            q = q * math.sqrt(q.shape[-1]) / root(x, q) if root else q
            heads = scaled_dot_product_attention(q, k, q if shared else v)
            joined = heads.reshape(x.shape) if by_reshape[1] else heads.transpose(1, 2).flatten(2)
            fresh = nn.Linear(*reversed(self.w_o.weight.shape)) if made_in_forward else self.w_o
            return fresh(joined)

    return Layer


class LayerOfSlices(WithMatrices):
    """One small matrix for all heads."""

    def __init__(self, d_in, n_heads, d_out):
        super().__init__(d_in, n_heads, d_out)
        self.w_q, self.w_k, self.w_v = (nn.Linear(self.d_k, self.d_k) for _ in range(3))

    def forward(self, x):
        parts = x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        heads = scaled_dot_product_attention(*self.projected(parts))
        return self.w_o(heads.transpose(1, 2).flatten(2))


class LayerThatDropsOut(LayerByLoop):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.1)


class LayerThatLooksBack(LayerByKernel):
    """Causal, which was not asked for."""

    def forward(self, x):
        q, k, v = (y.unflatten(2, (self.n_heads, -1)).swapaxes(1, 2) for y in self.projected(x))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.w_o(out.swapaxes(1, 2).flatten(2))


class LayerOfOneHead(WithMatrices):
    def forward(self, x):
        return self.w_o(scaled_dot_product_attention(*self.projected(x)))


class LayerWithWeights(LayerOfOneHead):
    def forward(self, x):
        return super().forward(x), x


class LayerWithoutOutput(WithMatrices):
    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for y in self.projected(x))
        return scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class OutputBackwards(LayerWithoutOutput):
    def forward(self, x):
        return super().forward(x) @ self.w_o.weight + self.w_o.bias


class OutputOfTheInputsSize(LayerWithoutOutput):
    def __init__(self, d_in, n_heads, d_out):
        super().__init__(d_in, n_heads, d_in)

    def forward(self, x):
        return self.w_o(super().forward(x))


class LayerIntoItsInput(WithMatrices):
    """Right, but the heads are written over the input."""

    def forward(self, x):
        for part, *qkv in zip(
            x.chunk(self.n_heads, -1),
            *(y.chunk(self.n_heads, -1) for y in self.projected(x)),
            strict=True,
        ):
            part.copy_(scaled_dot_product_attention(*qkv))
        return self.w_o(x)


def sines(d_model, max_length):
    column = torch.arange(d_model)
    angle = torch.arange(max_length)[:, None] / 10_000 ** (column // 2 * 2 / d_model)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


class PositionsByLoop(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        rows = [
            [
                (math.cos if c % 2 else math.sin)(p / 10_000 ** ((c - c % 2) / d_model))
                for c in range(d_model)
            ]
            for p in range(max_length)
        ]
        self.register_buffer("rows", torch.tensor(rows))

    def forward(self, x, start=0):
        at = torch.arange(start, start + x.size(1), device=x.device)
        return self.rows.index_select(0, at) + x


class PositionsByPairs(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000.0) / d_model))
        angle = torch.outer(torch.arange(max_length).float(), rate)
        table = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :d_model]
        self.register_buffer("table", table[None], persistent=True)

    def forward(self, x, start=0):
        return x + self.table.narrow(1, start, x.shape[-2]).to(x.dtype)


class PositionsByEmbedding(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.of = nn.Embedding.from_pretrained(sinusoidal_table(max_length, d_model), freeze=True)

    def forward(self, x, start=0):
        return x + self.of(torch.arange(x.shape[1], device=x.device) + start)


class PositionsInForward(nn.Module):
    """No table at all: the angles are computed where x is."""

    def __init__(self, d_model, max_length):
        super().__init__()
        self.d_model = d_model

    def forward(self, x, start=0):
        column = torch.arange(self.d_model, device=x.device)
        position = torch.arange(start, start + x.shape[1], device=x.device)[:, None]
        angle = position / 10_000 ** (2 * (column // 2) / self.d_model)
        return x + torch.where(column % 2 == 0, torch.sin(angle), torch.cos(angle))


class PositionsByRotation(nn.Module):
    """e^{i angle} holds cosine and sine of a pair."""

    def __init__(self, d_model, max_length):
        super().__init__()
        angle = torch.outer(
            torch.arange(max_length), 10_000 ** -(torch.arange(0, d_model, 2) / d_model)
        )
        turned = torch.view_as_real(torch.polar(torch.ones_like(angle), angle)).flip(-1)
        self.register_buffer("table", turned.flatten(-2), persistent=False)

    def forward(self, x, start=0):
        return torch.add(x, self.table[start:][: x.shape[1]].expand_as(x))


class PositionsOfTheLibrary(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.size = max_length, d_model

    def forward(self, x, start=0):
        table = sinusoidal_table(*self.size, dtype=x.dtype, device=x.device)
        return x + table[start : start + x.shape[-2]]


class PositionsThatFollow(nn.Module):
    """A plain tensor, brought to the device of x at each call."""

    def __init__(self, d_model, max_length):
        super().__init__()
        self.table = sines(d_model, max_length)

    def forward(self, x, start=0):
        return x + self.table[start:][: x.shape[1]].to(x.device)


class PositionsOfParameters(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.table = nn.Parameter(sines(d_model, max_length), requires_grad=False)

    def forward(self, x, start=0):
        return x + self.table[start : start + x.shape[1]]


def positions_with(table=sines, buffer=True, rows=lambda start, n: slice(start, start + n), of=1):
    """Positions with a choice of mistakes: the table, how it is kept, which rows are added."""

    class Positions(nn.Module):
        def __init__(self, d_model, max_length):
            super().__init__()
            if buffer:
                self.register_buffer("table", table(d_model, max_length))
            else:
                self.table = table(d_model, max_length)

        def forward(self, x, start=0):
            return x + self.table[rows(start, x.shape[of])]

    return Positions


def table_with(power=lambda c: c // 2 * 2, base=10_000, first=0, swapped=False):
    def table(d_model, max_length):
        column = torch.arange(d_model)
        angle = torch.arange(first, max_length + first)[:, None] / base ** (power(column) / d_model)
        return torch.where((column % 2 == 0) != swapped, angle.sin(), angle.cos())

    return table


def halves(d_model, max_length):
    """All sines, then all cosines."""
    table = sines(d_model, max_length)
    return torch.cat((table[:, 0::2], table[:, 1::2]), dim=1)


class PositionsInPlace(positions_with()):
    def forward(self, x, start=0):
        return x.add_(self.table[start : start + x.shape[1]])


class PositionsTimesTheRoot(positions_with()):
    """Makes the input louder, as an embedding does."""

    def forward(self, x, start=0):
        return super().forward(x * math.sqrt(x.shape[-1]), start)


class PositionsAlone(positions_with()):
    def forward(self, x, start=0):
        return super().forward(torch.zeros_like(x), start)


class PositionsThatDropOut(positions_with()):
    def forward(self, x, start=0):
        return F.dropout(super().forward(x, start), 0.1, self.training)


class TrainedPositions(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.table = nn.Parameter(sines(d_model, max_length))

    def forward(self, x, start=0):
        return x + self.table[start : start + x.shape[1]]


def another(tokens):
    """Another word of 23, above the special tokens."""
    return 4 + (tokens - 3) % 19


@torch.no_grad()
def leak_by_suffixes(model, source, lengths, target_in):
    """All tokens from t on are changed at once; the random numbers' state is put back."""
    mode, found = model.training, False
    for train in (False, True):
        model.train(train)
        with torch.random.fork_rng():
            state = torch.random.get_rng_state()
            right = model(source, lengths, target_in)
            for t in range(1, target_in.shape[1]):
                torch.random.set_rng_state(state)
                other = torch.cat((target_in[:, :t], another(target_in[:, t:])), dim=1)
                gap = (model(source, lengths, other) - right)[:, :t].abs().max()
                found = found or gap.item() > 1e-5
    model.train(mode)
    return found


def leak_in_a_copy(model, source, lengths, target_in):
    for training in True, False:
        twin = copy.deepcopy(model).train(training)
        outputs = []
        for t in range(target_in.size(1)):
            torch.manual_seed(7)
            other = target_in.clone()
            if t:
                other[:, t] = another(other[:, t])
            with torch.no_grad():
                outputs.append(twin(source, lengths, other))
        for t, output in enumerate(outputs):
            if t and not torch.allclose(output[:, :t], outputs[0][:, :t], rtol=1e-4, atol=1e-5):
                return True
    return False


def leak_by_two_words(model, source, lengths, target_in):
    """Two rows of words for each place; the modes of all parts are put back one by one."""
    modes = {part: part.training for part in model.modules()}
    found = []
    for word, train in itertools.product((5, 6), (True, False)):
        model.train(train)
        logits = []
        for t in range(target_in.shape[1]):
            torch.manual_seed(3)
            rows = [[word if i > t else int(x) for i, x in enumerate(row)] for row in target_in]
            logits.append(
                (
                    model(source, lengths, torch.tensor(rows)),
                    model_again(model, source, lengths, target_in),
                )
            )
        found += [
            ((a - b)[:, : t + 1].abs() > 1e-5).any().item() for t, (a, b) in enumerate(logits)
        ]
    for part, training in modes.items():
        part.training = training
    return any(found)


def model_again(model, *inputs):
    torch.manual_seed(3)
    return model(*inputs)


def leak_put_back(model, source, lengths, target_in):
    """Changes the caller's tokens, and puts them back; stops at the first leak."""

    def logits():
        torch.manual_seed(1)
        return model(source, lengths, target_in).detach()

    def leaks(t):
        before, old = logits(), target_in[:, t].clone()
        target_in[:, t] = another(old)
        after = logits()
        target_in[:, t] = old
        return (before[:, :t] - after[:, :t]).abs().amax() > 1e-5

    was_training = model.training
    try:
        return any(
            bool(leaks(t))
            for mode in (model.train, model.eval)
            for t in range(1, target_in.shape[1])
            if mode()
        )
    finally:
        model.train(was_training)


def leak_with(
    modes=(True, False), change=another, seed=True, own=0, near=False, last=False, restore=True
):
    """The solution with a choice of mistakes: modes, tokens, dropout, which logits it looks at."""

    @torch.no_grad()
    def finds_leak(model, source, lengths, target_in):
        def run(target):
            if seed:
                torch.manual_seed(0)
            return model(source, lengths, target)

        training, leaks, time = model.training, False, target_in.shape[1]
        for mode in modes:
            model.train(training if mode is None else mode)
            for t in range(time - 1 if last else 1, time):
                other = target_in.clone()
                other[:, t] = change(other[:, t])
                seen = slice(t - 1 if near else 0, t + own)
                before, after = run(target_in)[:, seen], run(other)[:, seen]
                leaks |= not torch.allclose(before, after, atol=1e-6)
        if restore:
            model.train(training)
        return leaks

    return finds_leak


def leak_of_the_best_word(model, source, lengths, target_in):
    """Looks at the likeliest words alone, which a small leak does not change."""

    class Best(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *inputs):
            return self.model(*inputs).argmax(-1).float()

    was_training = model.training
    leaks = leak_with()(Best().train(was_training), source, lengths, target_in)
    model.train(was_training)
    return leaks


def leak_in_the_tokens(model, source, lengths, target_in):
    """Right, but the caller's tokens stay changed."""
    was_training, leaks = model.training, False
    for mode in (True, False):
        model.train(mode)
        for t in range(target_in.shape[1] - 1, 0, -1):
            torch.manual_seed(0)
            before = model(source, lengths, target_in)[:, :t]
            target_in[:, t] = another(target_in[:, t])
            torch.manual_seed(0)
            leaks |= not torch.allclose(before, model(source, lengths, target_in)[:, :t], atol=1e-6)
    model.train(was_training)
    return leaks


@torch.no_grad()
def leak_of_the_source(model, source, lengths, target_in):
    """Changes the source, which every logit may depend on."""
    was_training = model.training
    model.eval()
    before, after = (model(s, lengths, target_in) for s in (source, another(source)))
    model.train(was_training)
    return not torch.allclose(before, after, atol=1e-6)


RIGHT = {
    "fixed_map": [
        map_by_einsum,
        map_by_nan_to_num,
        map_by_hand,
        map_by_loops,
        map_by_the_library,
        map_by_a_sum,
        map_of_what_is_seen,
        map_with(),
        map_with(filler="lowest"),
    ],
    "FixedLayer": [
        LayerByEinsum,
        LayerByLoop,
        LayerByKernel,
        LayerOfWholeMatrices,
        LayerByBatches,
        layer_of_the_library,
        layer_with(),
    ],
    "FixedPositions": [
        PositionsByLoop,
        PositionsByPairs,
        PositionsByEmbedding,
        PositionsInForward,
        PositionsThatFollow,
        PositionsByRotation,
        PositionsOfTheLibrary,
        PositionsOfParameters,
        positions_with(),
    ],
    "finds_leak": [leak_by_suffixes, leak_in_a_copy, leak_put_back, leak_by_two_words, leak_with()],
}

WRONG = {
    "fixed_map": {
        map_with(root=1): "what are the scores divided by?",  # root of n_heads
        map_with(root=2): "what are the scores divided by?",  # root of time
        map_with(root=None): "what are the scores divided by?",  # not divided
        map_with(axis=-2): "rows do not sum to 1",  # softmax over the queries
        map_with(filler=-1e9): "it stops: RuntimeError",  # float16
        map_with(filler=-1e4): "the filler must lie below every score",  # filler not low enough
        map_with(filler=0.0): "rows do not sum to 1",  # filler 0
        map_with(empty=False): "a fully masked row is not 0",  # empty row NaN
        map_with(filler="lowest", empty=False): "a fully masked row is not 0",  # empty row uniform
        map_with(flip=True): "masked keys have weight",  # mask turned round
        map_with(fill_after=True): "rows do not sum to 1",
        map_with(
            filler=torch.finfo(torch.float32).min
        ): "it stops: RuntimeError",  # lowest of float32 in float16
        lambda query, key, mask: map_with()(
            query.float(), key.float(), mask
        ): "query is torch.float16, and the weights torch.float32",  # always float32
        map_that_divides_in_place: "argument 1 was changed",
        map_that_turns_the_mask: "argument 3 was changed",
    },
    "FixedLayer": {
        layer_with(
            by_reshape=(True, True)
        ): "its heads are split and merged by reshape alone: transpose between",  # split by reshape
        layer_with(
            by_reshape=(True, False)
        ): "its heads are split by reshape alone: transpose (batch, time, heads, d_k)",
        layer_with(
            by_reshape=(False, True)
        ): "its heads are merged by reshape alone: transpose them back",
        layer_with(
            made_in_forward=True
        ): "repeat: the same input gives two outputs",  # output made in forward
        layer_with(shared=True): "its values are the queries: use w_v",  # q for v
        layer_with(
            root=lambda x, q: math.sqrt(x.shape[-1])
        ): "its scores are divided by the root of d_in, not of d_k",  # root of d_model
        layer_with(
            root=lambda x, q: 1
        ): "its scores are not divided by the root of d_k",  # not divided
        LayerOfSlices: "count: w_q.weight: expected (12, 12), got (4, 4); w_q.bias",
        LayerOfOneHead: "it has one head only",
        LayerWithWeights: "expected a tensor of shape (2, 5, 20), got a tuple of 2",
        LayerWithoutOutput: "expected an output of shape (2, 5, 20)",  # no w_o
        OutputBackwards: "your function raised RuntimeError",  # w_o backwards
        OutputOfTheInputsSize: "expected an output of shape (2, 5, 20)",  # d_out
        LayerThatDropsOut: "repeat: the same input gives two outputs",  # drops out
        LayerThatLooksBack: "copied: the same parameters give another output",  # causal
        LayerIntoItsInput: "an input was changed",
    },
    "FixedPositions": {
        positions_with(
            table_with(power=lambda c: c)
        ): "shift: no single matrix shifts all positions: sine and cosine of a pair",
        positions_with(table_with(power=lambda c: c // 2)): "sinusoids: position",  # exponent i
        positions_with(table_with(base=1000)): "sinusoids: position",  # base
        positions_with(
            table_with(first=1)
        ): "position 0, column 0: expected 0.0000, got 0.8415; position 0 first",
        positions_with(
            table_with(swapped=True)
        ): "got 1.0000; position 0 first, sin in even columns",
        positions_with(halves): "sinusoids: position",  # halves
        positions_with(buffer=False): "moves: after .to(device) it stops",  # no buffer
        positions_with(rows=lambda start, n: slice(0, n)): "start is ignored",
        positions_with(
            rows=lambda start, n: slice(start, n)
        ): "your function raised RuntimeError",  # start: n
        positions_with(
            rows=lambda start, n: slice(start, start + 1)
        ): "two or more positions get the same vector",  # one row for all
        positions_with(of=0): "two or more positions get the same vector",  # batch for time
        positions_with(
            lambda d_model, max_length: torch.zeros(max_length, d_model)
        ): "two or more positions get the same vector",  # zeros
        TrainedPositions: "table would be trained: what is fixed is a buffer",
        PositionsTimesTheRoot: "the output is not x + table and nothing else",
        PositionsAlone: "the output is not x + table and nothing else",  # x is not added
        PositionsThatDropOut: "the output is not x + table and nothing else",
        PositionsInPlace: "an input was changed",
    },
    "finds_leak": {
        leak_with(
            modes=(False,)
        ): "a mask in evaluation mode only: no leak was found",  # evaluation mode only
        leak_with(
            modes=(True,)
        ): "a mask in training only: no leak was found",  # training mode only
        leak_with(
            seed=False
        ): "a right model with dropout: a leak was found",  # dropout taken for a leak
        leak_with(
            near=True
        ): "a first position that attends to the last but one: no leak was found",
        leak_with(
            last=True
        ): "a first position that attends to the last but one: no leak was found",
        leak_with(own=1): "a right model: a leak was found",  # the own token
        leak_with(restore=False): "the model was left in another mode",  # mode not restored
        leak_with(
            change=lambda tokens: tokens
        ): "no mask at all: no leak was found",  # nothing changed
        leak_in_the_tokens: "argument 4 was changed",
        leak_of_the_source: "a right model: a leak was found",  # the source changed
        leak_with(modes=(None,)): "a mask in training only: no leak was found",  # the mode it has
        leak_of_the_best_word: "weights masked after the softmax: no leak was found",
        lambda *inputs: (
            not leak_with()(*inputs)
        ): "a right model: a leak was found",  # the wrong way round
        lambda *_: True: "a right model: a leak was found",  # always True
        lambda *_: False: "no mask at all: no leak was found",  # always False
    },
}

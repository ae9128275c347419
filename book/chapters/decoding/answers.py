"""Answers to the exercises of chapter 12: right ones in several styles, and common mistakes."""

import math
from collections import Counter

import numpy as np
import torch
from torch.nn import functional as F

from lib.data import BOS, EOS, PAD
from lib.decoding import greedy, keep_top_p


def greedy_into_a_table(model, source, source_lengths, max_length):
    tokens = torch.full((len(source), max_length), PAD)
    state, token = model.start(source, source_lengths), torch.tensor([BOS] * len(source))
    for t in range(max_length):
        logits, _, state = model.step(token, state)
        token = torch.where((tokens == EOS).any(dim=1), PAD, logits.max(-1).indices)
        tokens[:, t] = token
        if (tokens == EOS).any(dim=1).all():
            return tokens[:, : t + 1]
    return tokens


@torch.no_grad()
def greedy_by_rows(model, source, source_lengths, max_length):
    rows = [[] for _ in source]
    state = model.start(source=source, source_lengths=source_lengths)
    while len(rows[0]) < max_length and any(EOS not in row for row in rows):
        token = source_lengths.new_tensor([row[-1] if row else BOS for row in rows])
        logits, _, state = model.step(token=token, state=state)
        best = logits.log_softmax(-1).topk(1).indices.squeeze(1).tolist()
        for row, word in zip(rows, best, strict=True):
            row.append(PAD if EOS in row else word)
    return torch.tensor(rows)


def greedy_and_mended(model, source, source_lengths, max_length):
    """The ended rows talk on, and are padded at the end of all."""
    state, token = model.start(source, source_lengths), source[:, 0] * 0 + BOS
    tokens = torch.empty(len(source), 0, dtype=torch.long)
    while tokens.shape[1] < max_length:
        logits, _, state = model.step(token, state)
        token = logits.argmax(-1)
        tokens = torch.cat((tokens, token[:, None]), dim=1)
        if bool((tokens == EOS).any(1).all()):
            break
    ended_before = (tokens == EOS).long().cumsum(1) - (tokens == EOS).long() > 0
    return tokens.masked_fill(ended_before, PAD)


def greedy_transposed(model, source, source_lengths, max_length):
    """The ended rows go on reading EOS; the steps are stacked first and turned at the end."""
    state, steps = (
        model.start(source, source_lengths),
        [source_lengths.new_full((len(source),), BOS)],
    )
    while len(steps) <= max_length:
        logits, _weights, state = model.step(steps[-1], state)
        best = torch.argmax(logits, dim=-1, keepdim=True).squeeze(-1)
        steps.append(torch.where(steps[-1].eq(EOS), EOS, best))
        if steps[-1].eq(EOS).all():
            break
    tokens = torch.stack(steps[1:]).T
    return tokens.masked_fill((tokens == EOS).cumsum(1) > 1, PAD)


def greedy_by_recursion(model, source, source_lengths, max_length):
    def rest(token, state, ended, left):
        if left == 0 or bool(ended.all()):
            return []
        logits, _, state = model.step(token, state)
        token = torch.where(ended, PAD, logits.argmax(1))
        return [token, *rest(token, state, ended | (token == EOS), left - 1)]

    first = torch.full_like(source_lengths, BOS)
    state = model.start(source, source_lengths)
    return torch.stack(rest(first, state, first == EOS, max_length), -1)


def greedy_with(
    *, pad=True, stop="all", feed=True, first=BOS, late_pad=False, keep=False, more=0, ever=True
):
    def greedy_batch(model, source, source_lengths, max_length):
        state, tokens = model.start(source, source_lengths), []
        token = source.new_full((len(source),), first)
        ended = torch.zeros_like(token, dtype=torch.bool)
        for _ in range(max_length + more):
            logits, _, after = model.step(token, state)
            state = state if keep else after
            chosen = logits.argmax(-1)
            now_ended = (ended & ever) | (chosen == EOS)
            if pad:
                chosen = chosen.masked_fill(now_ended if late_pad else ended, PAD)
            tokens.append(chosen)
            token, ended = (chosen if feed else token), now_ended
            if stop and getattr(ended, stop)():
                break
        return torch.stack(tokens, 1)

    return greedy_batch


def greedy_in_the_source(model, source, source_lengths, max_length):
    """Right, but for BOS in the first column of the caller's source."""
    state = model.start(source, source_lengths)
    token, tokens = source[:, 0].fill_(BOS), []
    ended = torch.zeros(len(source), dtype=torch.bool)
    while len(tokens) < max_length and not ended.all():
        logits, _, state = model.step(token, state)
        token = logits.argmax(-1).masked_fill(ended, PAD)
        ended |= token == EOS
        tokens.append(token)
    return torch.stack(tokens, dim=1)


def greedy_from_whole_rows(model, source, source_lengths, max_length):
    """Takes the padding of the source for words."""
    whole = torch.full_like(source_lengths, source.shape[1])
    return greedy(model, source, whole, max_length)[0]


def penalty(lengths):
    return (5 + lengths) / 6


def best_by_loop(log_p, lengths, alpha):
    best, highest = None, -math.inf
    for i in range(len(log_p)):
        score = log_p[i].item() / ((5 + lengths[i].item()) / 6) ** alpha
        if score > highest:
            best, highest = i, score
    return best


def best_by_logarithm(log_p, lengths, alpha):
    """The highest of negative numbers has the least logarithm of its size."""
    return int((log_p.neg().log() - alpha * penalty(lengths).log()).argmin())


def best_by_numpy(log_p, lengths, alpha):
    return np.argmax(log_p.numpy() / ((5 + lengths.numpy()) / 6) ** alpha)


def best_in_place(log_p, lengths, alpha):
    return log_p.div_(penalty(lengths) ** alpha).argmax().item()


def best_on_changed_lengths(log_p, lengths, alpha):
    lengths += 5
    return (log_p / (lengths / 6) ** alpha).argmax().item()


def nucleus_by_loop(logits, p, temperature):
    chances = (logits / temperature).softmax(-1)
    order, total, left = chances.argsort(descending=True).tolist(), 0.0, torch.zeros_like(chances)
    for token in order:
        if total >= p - 1e-9:
            break
        left[token] = chances[token]
        total += chances[token].item()
    return left / left.sum()


def nucleus_by_minus_infinity(logits, p, temperature):
    """Cut first, then one more softmax."""
    scaled = logits.div(temperature)
    order = scaled.argsort(dim=-1, descending=True)
    total = scaled[order].double().softmax(-1).cumsum(-1)
    outside = order[1:][total[:-1] >= p - 1e-9]
    return scaled.index_fill(-1, outside, -torch.inf).softmax(-1)


def nucleus_by_ranks(logits, p, temperature):
    """What stands before a token is the sum of all that are likelier."""
    chances = torch.exp(logits / temperature - torch.logsumexp(logits / temperature, 0))
    likelier = chances[None, :] > chances[:, None]
    left = torch.where((chances * likelier).sum(1) < p - 1e-6, chances, 0.0)
    return left / left.sum(dim=-1, keepdim=True)


def nucleus_by_doubles(logits, p, temperature):
    chances, order = (logits.double() / temperature).softmax(-1).sort(descending=True)
    keep = torch.cat((torch.tensor([True]), chances.cumsum(0)[:-1] < p - 1e-9))
    left = torch.zeros_like(chances)
    left[order[keep]] = chances[keep] / chances[keep].sum()
    return left.to(logits.dtype)


def nucleus_by_topk(logits, p, temperature):
    chances = torch.softmax(logits / temperature, dim=0)
    for k in range(1, len(chances) + 1):
        best = chances.topk(k)
        if best.values.sum() > p - 1e-9:
            break
    return torch.zeros_like(chances).scatter_(0, best.indices, best.values / best.values.sum())


def nucleus_from_below(logits, p, temperature):
    """The least likely go first, as long as they have at most 1 - p together."""
    chances, order = (logits / temperature).softmax(-1).sort()
    gone = chances.cumsum(-1) <= 1 - p + 1e-9
    gone[-1] = False
    left = chances.masked_fill(gone, 0)[order.argsort()]
    return left.div_(left.sum())


def kept(chances, p, *, crossing=True, descending=True):
    ordered, order = chances.sort(descending=descending)
    total = ordered.cumsum(0)
    stays = (total - ordered < p - 1e-12) if crossing else total <= p
    return torch.zeros_like(stays).scatter(0, order, stays)


def cut_by(keeps):
    """The softmax of the tempered logits, without what `keeps(chances, p)` leaves out."""

    def nucleus(logits, p, temperature):
        chances = (logits / temperature).softmax(-1)
        left = chances * keeps(chances, p)
        return left / left.sum()

    return nucleus


def fills_with(value):
    def nucleus(logits, p, temperature):
        scaled = logits / temperature
        return torch.where(kept(scaled.softmax(-1), p), scaled, value).softmax(-1)

    return nucleus


def temperature_after_softmax(logits, p, temperature):
    left = logits.softmax(-1) / temperature
    left = left * kept(left, p)
    return left / left.sum()


def not_shared_out(logits, p, temperature):
    chances = (logits / temperature).softmax(-1)
    return chances * kept(chances, p)


def nucleus_before_temperature(logits, p, temperature):
    cut = logits.masked_fill(~kept(logits.softmax(-1), p), -torch.inf)
    return (cut / temperature).softmax(-1)


def left_sorted(logits, p, temperature):
    ordered = (logits / temperature).softmax(-1).sort(descending=True).values
    left = ordered * (ordered.cumsum(0) - ordered < p - 1e-12)
    return left / left.sum()


def nucleus_in_place(logits, p, temperature):
    chances = logits.div_(temperature).softmax(-1)
    left = chances * kept(chances, p)
    return left / left.sum()


def grams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def precision(prediction, reference, n):
    said = grams(prediction, n)
    return (said & grams(reference, n)).total() / said.total()


def precision_by_crossing_out(prediction, reference, n):
    said, left = (
        list(zip(*(words[i:] for i in range(n)), strict=False)) for words in (prediction, reference)
    )
    found = 0
    for gram in said:
        if gram in left:
            left.remove(gram)
            found += 1
    return found / len(said)


def precision_by_counting(prediction, reference, n):
    said = [prediction[i : i + n] for i in range(len(prediction) + 1 - n)]
    known = [reference[i : i + n] for i in range(len(reference) + 1 - n)]
    kinds = {tuple(gram): gram for gram in said}.values()
    return sum(min(said.count(gram), known.count(gram)) for gram in kinds) / len(said)


def precision_by_dictionaries(prediction, reference, n):
    counts, clipped = {}, 0.0
    for i in range(len(reference) - n + 1):
        gram = tuple(reference[i : i + n])
        counts[gram] = counts.get(gram, 0) + 1
    for i in range(len(prediction) - n + 1):
        gram = tuple(prediction[i : i + n])
        if counts.get(gram, 0):
            counts[gram] -= 1
            clipped += 1
    return torch.tensor(clipped / (len(prediction) - n + 1)).item()


def precision_by_numbered_grams(prediction, reference, n):
    """The k-th time that a gram is said is found if the reference has it k times."""

    def numbered(words):
        seen = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        return {(gram, seen[:i].count(gram)) for i, gram in enumerate(seen)}

    return len(numbered(prediction) & numbered(reference)) / len(numbered(prediction))


def precision_by_subtraction(prediction, reference, n):
    said = grams(prediction, n)
    missing = said - grams(reference, n)
    return torch.tensor(1 - sum(missing.values()) / sum(said.values()))


def joined_words(prediction, reference, n):
    """Words run together: "a" and "bc" are taken for "ab" and "c"."""
    said, known = (
        Counter("".join(w[i : i + n]) for i in range(len(w) - n + 1))
        for w in (prediction, reference)
    )
    return (said & known).total() / said.total()


def bags_of_words(prediction, reference, n):
    said, known = (
        Counter(tuple(sorted(w[i : i + n])) for i in range(len(w) - n + 1))
        for w in (prediction, reference)
    )
    return (said & known).total() / said.total()


def precision_that_eats(prediction, reference, n):
    said = Counter()
    while len(prediction) >= n:
        said[tuple(prediction[:n])] += 1
        prediction.pop(0)
    return (said & grams(reference, n)).total() / said.total()


def one_short(prediction, reference, n):
    said, known = (
        Counter(tuple(w[i : i + n]) for i in range(len(w) - n)) for w in (prediction, reference)
    )
    return (said & known).total() / max(1, said.total())


RIGHT = {
    "greedy_batch": [
        greedy_into_a_table,
        greedy_by_rows,
        greedy_and_mended,
        greedy_transposed,
        greedy_by_recursion,
        greedy_with(),
        lambda *inputs: greedy(*inputs)[0],
    ],
    "best_ended": [
        best_by_loop,
        best_by_logarithm,
        best_by_numpy,
        lambda log_p, lengths, alpha: (log_p / (5 + lengths) ** alpha).topk(1).indices.item(),
        lambda log_p, lengths, alpha: (log_p * penalty(lengths.float()) ** -alpha).argmax().item(),
        lambda log_p, lengths, alpha: (log_p.double() / penalty(lengths) ** alpha).argmax(),
        lambda log_p, lengths, alpha: max(
            range(len(log_p)), key=lambda i: log_p[i] / penalty(lengths[i]) ** alpha
        ),
    ],
    "nucleus": [
        nucleus_by_loop,
        nucleus_by_minus_infinity,
        nucleus_by_ranks,
        nucleus_by_doubles,
        nucleus_by_topk,
        nucleus_from_below,
        cut_by(kept),
        cut_by(lambda chances, p: kept(chances, p + 1e-12)),  # no margin
    ],
    "clipped_precision": [
        precision,
        precision_by_crossing_out,
        precision_by_counting,
        precision_by_dictionaries,
        precision_by_numbered_grams,
        precision_by_subtraction,
    ],
}

WRONG = {
    "greedy_batch": {
        greedy_with(pad=False): "expected [8, 2, 0, 0], got [8, 2, 9, 2]",  # ended rows talk on
        greedy_with(
            stop="any"
        ): "one sentence has ended, the others have not: go on",  # stops with the first
        greedy_with(stop=None): "all have ended after four steps",  # never stops by itself
        greedy_with(feed=False): "step 1 must read [5, 8, 9]",  # always BOS
        greedy_with(first=PAD): "step 0 must read [1, 1, 1]",  # starts with PAD
        greedy_with(late_pad=True): "expected [5, 6, 7, 2], got [5, 6, 7, 0]",  # EOS lost
        greedy_with(
            keep=True
        ): "step 1 got the state before step 0: pass on what `step` returned",  # state not updated
        greedy_with(more=1): "max_length is 2",  # one too many
        greedy_with(ever=False): "all have ended after four steps",  # ended is forgotten
        greedy_in_the_source: "argument 2 was changed",
        greedy_from_whole_rows: "model.start must get source and source_lengths as they are",
        lambda *inputs: (
            greedy_with()(*inputs).T
        ): "expected (batch, time) with a batch of 3",  # (time, batch)
        lambda model, source, *rest: torch.cat(
            (torch.full_like(source[:, :1], BOS), greedy_with()(model, source, *rest)), dim=1
        ): "BOS is an input and no output: leave it out",  # BOS is said
        lambda *inputs: F.pad(
            greedy_with()(*inputs), (0, 2)
        ): "all have ended after four steps",  # padded too far
        lambda *inputs: greedy_with()(*inputs)[
            :, :-1
        ]: "expected [5, 6, 7, 2], got [5, 6, 7]",  # the last column lost
        lambda *inputs: greedy_with()(*inputs).tolist(): "expected a tensor of tokens",  # a list
        lambda *inputs: greedy_with()(
            *inputs
        ).float(): "expected whole numbers (torch.int64)",  # floats
    },
    "best_ended": {
        lambda log_p, lengths, alpha: (
            (log_p * penalty(lengths) ** alpha).argmax().item()
        ): "multiplied it makes long sentences worse",
        lambda log_p, lengths, alpha: log_p.argmax().item(): "there is no penalty",
        lambda log_p, lengths, alpha: (
            (log_p / lengths**alpha).argmax().item()
        ): "expected 0, got 3",  # lengths alone
        lambda log_p, lengths, alpha: (
            (log_p / penalty(lengths) * alpha).argmax().item()
        ): "alpha is the exponent",  # times alpha
        lambda log_p, lengths, alpha: (
            (log_p / penalty(lengths) ** alpha).argmin().item()
        ): "the highest score, not the lowest",  # worst
        lambda log_p, lengths, alpha: (
            (log_p.exp() / penalty(lengths) ** alpha).argmax().item()
        ): "expected 0, got 1",  # probabilities
        lambda log_p, lengths, alpha: (
            (log_p / ((5 + lengths) // 6) ** alpha).argmax().item()
        ): "expected 3, got 0",  # whole division
        lambda log_p, lengths, alpha: (
            (log_p / (5 + lengths / 6) ** alpha).argmax().item()
        ): "expected 0, got 1",  # precedence
        lambda log_p, lengths, alpha: (
            (log_p / penalty(lengths) ** alpha).argmax().item() + 1
        ): "count from 0",  # counted from 1
        lambda log_p, lengths, alpha: (
            (log_p / penalty(lengths) ** alpha).max().item()
        ): "expected the number of a hypothesis",  # score, no index
        lambda log_p, lengths, alpha: (
            (log_p / ((6 + lengths) / 6) ** alpha).argmax().item()
        ): "expected 0, got 2",  # 6 for 5
        lambda log_p, lengths, alpha: (
            log_p / penalty(lengths) ** alpha
        ).tolist(): "expected the number of a hypothesis",  # the scores
        lambda log_p, lengths, alpha: (
            log_p.abs() / penalty(lengths) ** alpha
        ).argmax(): "the highest score, not the lowest",  # the greatest size
        best_in_place: "argument 1 was changed",
        best_on_changed_lengths: "argument 2 was changed",
    },
    "nucleus": {
        cut_by(
            lambda chances, p: kept(chances, p, crossing=False)
        ): "the token that crosses p belongs to the nucleus",  # drops the crossing token
        cut_by(
            lambda chances, p: kept(chances, p, descending=False)
        ): "expected [0, 1, 0, 0, 0]",  # least likely first
        cut_by(
            lambda chances, p: chances >= p * chances.max()
        ): "expected [0, 1, 0, 0, 0]",  # min-p
        cut_by(
            lambda chances, p: chances >= 1 - p
        ): "expected [0, 1, 0, 0, 0], got [nan, nan, nan, nan, nan]",  # threshold
        fills_with(0.0): "-inf before a softmax, not 0",  # filled with 0
        fills_with(1e-10): "-inf before a softmax, not 0",  # filled with a small number
        fills_with(-9.0): "expected [0, 1, 0, 0, 0]",  # small but not 0
        fills_with(-30.0): "expected exactly 0 outside the nucleus, got",  # smaller still
        temperature_after_softmax: "the temperature divides the logits, before the softmax",
        not_shared_out: "what is left must sum to 1",  # sum below 1
        nucleus_before_temperature: "first the temperature, then the nucleus",  # order
        left_sorted: "back to the vocabulary's order: scatter",  # sorted
        lambda logits, p, temperature: cut_by(kept)(
            logits, p, temperature
        ).log(): "expected [0, 1, 0, 0, 0], got [-inf, 0, -inf, -inf, -inf]",  # logarithms
        cut_by(
            lambda chances, p: chances.cumsum(0) - chances < p
        ): "expected [0, 1, 0, 0, 0], got [0.2, 0.8, 0, 0, 0]",  # not sorted
        cut_by(
            lambda chances, p: chances >= chances.sort().values[-max(1, int(p * 5))]
        ): "expected [0, 0.6154, 0, 0.3846, 0]",  # top k
        nucleus_in_place: "argument 1 was changed",
        lambda logits, p, temperature: keep_top_p(logits * temperature, p).softmax(
            -1
        ): "the temperature divides the logits",  # multiplied by the temperature
        lambda logits, p, temperature: (logits / temperature).softmax(-1): "no token is left out",
    },
    "clipped_precision": {
        lambda prediction, reference, n: precision(
            reference, prediction, n
        ): "swapped? divide by the n-grams of the prediction",
        lambda prediction, reference, n: precision(
            prediction, reference, 1
        ): "compare n-grams, not words",
        lambda prediction, reference, n: (
            sum(gram in grams(reference, n) for gram in grams(prediction, n).elements())
            / grams(prediction, n).total()
        ): "clip: an n-gram counts no more often than the reference has it",  # not clipped
        lambda prediction, reference, n: (
            len(grams(prediction, n).keys() & grams(reference, n).keys())
            / len(grams(prediction, n))
        ): "count each n-gram as often as it occurs there, not once",  # kinds, not times
        lambda prediction, reference, n: (
            (grams(prediction, n) & grams(reference, n)).total() / grams(reference, n).total()
        ): "swapped? divide by the n-grams of the prediction",  # recall
        lambda prediction, reference, n: (
            (grams(prediction, n) & grams(reference, n)).total() / len(prediction)
        ): "divide by the number of n-grams, not of words",  # divided by the words
        lambda prediction, reference, n: (
            (grams(prediction, n) & grams(reference, n)).total() // grams(prediction, n).total()
        ): "expected 0.5, got 0",  # whole division
        joined_words: "expected 0, got 1",  # words run together
        bags_of_words: "expected 0, got 0.3333",  # order within a gram
        one_short: "expected 0.5, got 0.3333",  # last n-gram left out
        precision_that_eats: "argument 1 was changed",
    },
}

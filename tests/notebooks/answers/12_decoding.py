"""Answers to the exercises of chapter 12: right ones in several styles, and common mistakes."""

import math
from collections import Counter

import torch

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
    said, left = (list(zip(*(w[i:] for i in range(n)))) for w in (prediction, reference))
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


def precision_that_eats(prediction, reference, n):
    said = Counter()
    while len(prediction) >= n:
        said[tuple(prediction[:n])] += 1
        prediction.pop(0)
    return (said & grams(reference, n)).total() / said.total()


def one_short(prediction, reference, n):
    said, known = (Counter(tuple(w[i : i + n]) for i in range(len(w) - n)) for w in (prediction, reference))
    return (said & known).total() / max(1, said.total())


RIGHT = {
    "greedy_batch": [
        greedy_into_a_table,
        greedy_by_rows,
        greedy_and_mended,
        greedy_with(),
        lambda *inputs: greedy(*inputs)[0],
    ],
    "best_ended": [
        best_by_loop,
        best_by_logarithm,
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
        cut_by(kept),
        cut_by(lambda chances, p: kept(chances, p + 1e-12)),  # no margin
    ],
    "clipped_precision": [
        precision,
        precision_by_crossing_out,
        precision_by_counting,
        precision_by_dictionaries,
    ],
}

WRONG = {
    "greedy_batch": {
        greedy_with(pad=False): "?ended rows talk on",
        greedy_with(stop="any"): "?stops with the first",
        greedy_with(stop=None): "?never stops by itself",
        greedy_with(feed=False): "?always BOS",
        greedy_with(first=PAD): "?starts with PAD",
        greedy_with(late_pad=True): "?EOS lost",
        greedy_with(keep=True): "?state not updated",
        greedy_with(more=1): "?one too many",
        greedy_with(ever=False): "?ended is forgotten",
        greedy_in_the_source: "?argument changed",
        greedy_from_whole_rows: "?source lengths",
        lambda *inputs: greedy_with()(*inputs).T: "?(time, batch)",
        lambda model, source, *rest: torch.cat(
            (torch.full_like(source[:, :1], BOS), greedy_with()(model, source, *rest)), dim=1
        ): "?BOS is said",
    },
    "best_ended": {
        lambda log_p, lengths, alpha: (
            (log_p * penalty(lengths) ** alpha).argmax().item()
        ): "?multiplied",
        lambda log_p, lengths, alpha: log_p.argmax().item(): "?no penalty",
        lambda log_p, lengths, alpha: (log_p / lengths**alpha).argmax().item(): "?lengths alone",
        lambda log_p, lengths, alpha: (
            (log_p / penalty(lengths) * alpha).argmax().item()
        ): "?times alpha",
        lambda log_p, lengths, alpha: (
            (log_p / penalty(lengths) ** alpha).argmin().item()
        ): "?worst",
        lambda log_p, lengths, alpha: (
            (log_p.exp() / penalty(lengths) ** alpha).argmax().item()
        ): "?probabilities",
        lambda log_p, lengths, alpha: (
            (log_p / ((5 + lengths) // 6) ** alpha).argmax().item()
        ): "?whole division",
        lambda log_p, lengths, alpha: (
            (log_p / (5 + lengths / 6) ** alpha).argmax().item()
        ): "?precedence",
        lambda log_p, lengths, alpha: (
            (log_p / penalty(lengths) ** alpha).argmax().item() + 1
        ): "?counted from 1",
        lambda log_p, lengths, alpha: (
            (log_p / penalty(lengths) ** alpha).max().item()
        ): "?score, no index",
        best_in_place: "?argument changed",
        best_on_changed_lengths: "?argument changed",
    },
    "nucleus": {
        cut_by(lambda chances, p: kept(chances, p, crossing=False)): "?drops the crossing token",
        cut_by(lambda chances, p: kept(chances, p, descending=False)): "?least likely first",
        cut_by(lambda chances, p: chances >= p * chances.max()): "?min-p",
        cut_by(lambda chances, p: chances >= 1 - p): "?threshold",
        fills_with(0.0): "?filled with 0",
        fills_with(1e-10): "?filled with a small number",
        fills_with(-9.0): "?small but not 0",
        temperature_after_softmax: "?temperature after softmax",
        not_shared_out: "?sum below 1",
        nucleus_before_temperature: "?order",
        left_sorted: "?sorted",
        nucleus_in_place: "?argument changed",
        lambda logits, p, temperature: (
            keep_top_p(logits * temperature, p).softmax(-1)
        ): "?multiplied by the temperature",
        lambda logits, p, temperature: (logits / temperature).softmax(-1): "?nothing is cut",
    },
    "clipped_precision": {
        lambda prediction, reference, n: precision(reference, prediction, n): "?swapped",
        lambda prediction, reference, n: precision(prediction, reference, 1): "?words",
        lambda prediction, reference, n: (
            sum(gram in grams(reference, n) for gram in grams(prediction, n).elements())
            / grams(prediction, n).total()
        ): "?not clipped",
        lambda prediction, reference, n: (
            len(grams(prediction, n).keys() & grams(reference, n).keys())
            / len(grams(prediction, n))
        ): "?kinds, not times",
        lambda prediction, reference, n: (
            (grams(prediction, n) & grams(reference, n)).total() / grams(reference, n).total()
        ): "?recall",
        lambda prediction, reference, n: (
            (grams(prediction, n) & grams(reference, n)).total() / len(prediction)
        ): "?divided by the words",
        lambda prediction, reference, n: (
            (grams(prediction, n) & grams(reference, n)).total() // grams(prediction, n).total()
        ): "?whole division",
        one_short: "?last n-gram left out",
        precision_that_eats: "?argument changed",
    },
}

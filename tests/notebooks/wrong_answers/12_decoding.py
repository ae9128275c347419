"""Wrong answers to the exercises of chapter 12, each a mistake that people make."""

from collections import Counter

import torch

from lib.data import BOS, EOS, PAD
from lib.decoding import keep_top_p


def greedy_with(*, pad=True, stop="all", feed=True, first=BOS, late_pad=False):
    def greedy_batch(model, source, source_lengths, max_length):
        state, tokens = model.start(source, source_lengths), []
        token = source.new_full((len(source),), first)
        ended = torch.zeros_like(token, dtype=torch.bool)
        for _ in range(max_length):
            logits, _, state = model.step(token, state)
            chosen = logits.argmax(-1)
            now_ended = ended | (chosen == EOS)
            if pad:
                chosen = chosen.masked_fill(now_ended if late_pad else ended, PAD)
            tokens.append(chosen)
            token, ended = (chosen if feed else token), now_ended
            if stop and getattr(ended, stop)():
                break
        return torch.stack(tokens, 1)

    return greedy_batch


def penalty(lengths):
    return (5 + lengths) / 6


def kept(chances, p, *, crossing=True):
    ordered, order = chances.sort(descending=True)
    total = ordered.cumsum(0)
    stays = (total - ordered < p - 1e-12) if crossing else total <= p
    return torch.zeros_like(stays).scatter(0, order, stays)


def drops_the_crossing_token(logits, p, temperature):
    chances = (logits / temperature).softmax(-1)
    left = chances * kept(chances, p, crossing=False)
    return left / left.sum()


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


def grams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def precision(prediction, reference, n):
    said = grams(prediction, n)
    return (said & grams(reference, n)).total() / said.total()


WRONG = {
    "greedy_batch": [
        greedy_with(pad=False),  # ended rows talk on
        greedy_with(stop="any"),  # stops with the first
        greedy_with(stop=None),  # never stops by itself
        greedy_with(feed=False),
        greedy_with(first=PAD),
        greedy_with(late_pad=True),  # the EOS itself is lost
    ],
    "best_ended": [
        lambda log_p, lengths, alpha: (log_p * penalty(lengths) ** alpha).argmax().item(),
        lambda log_p, lengths, alpha: log_p.argmax().item(),  # no penalty
        lambda log_p, lengths, alpha: (log_p / lengths**alpha).argmax().item(),
        lambda log_p, lengths, alpha: (log_p / penalty(lengths) * alpha).argmax().item(),
        lambda log_p, lengths, alpha: (log_p / penalty(lengths) ** alpha).argmin().item(),
        lambda log_p, lengths, alpha: (log_p.exp() / penalty(lengths) ** alpha).argmax().item(),
    ],
    "nucleus": [
        drops_the_crossing_token,
        fills_with(0.0),
        fills_with(1e-10),
        temperature_after_softmax,
        not_shared_out,
        nucleus_before_temperature,
        left_sorted,
        lambda logits, p, temperature: keep_top_p(logits * temperature, p).softmax(-1),
        lambda logits, p, temperature: (logits / temperature).softmax(-1),  # nothing is cut
    ],
    "clipped_precision": [
        lambda prediction, reference, n: precision(reference, prediction, n),  # swapped
        lambda prediction, reference, n: precision(prediction, reference, 1),
        lambda prediction, reference, n: (  # not clipped
            sum(gram in grams(reference, n) for gram in grams(prediction, n).elements())
            / grams(prediction, n).total()
        ),
        lambda prediction, reference, n: (  # kinds, not times
            len(grams(prediction, n).keys() & grams(reference, n).keys())
            / len(grams(prediction, n))
        ),
    ],
}

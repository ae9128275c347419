"""The checks of decoding: they pass what is right and name each classic mistake."""

from collections import Counter

import pytest
import torch

from kit.decoding.checks import (
    check_best_ended,
    check_clipped_precision,
    check_greedy_batch,
    check_nucleus,
)
from kit.shared.checks import CheckFailed
from lib.data import BOS, EOS, PAD
from lib.decoding import greedy, keep_top_p, length_penalty


def best_ended(log_p, lengths, alpha):
    penalties = torch.tensor([length_penalty(n, alpha) for n in lengths.tolist()])
    return (log_p / penalties).argmax()


def nucleus(logits, p, temperature):
    return keep_top_p(logits / temperature, p).softmax(-1)


def grams(words, n):
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def precision(prediction, reference, n):
    said, wanted = grams(prediction, n), grams(reference, n)
    return sum(min(count, wanted[gram]) for gram, count in said.items()) / said.total()


def test_the_library_passes():
    assert len(check_greedy_batch(lambda *a: greedy(*a)[0]).held) == 3
    assert len(check_best_ended(best_ended).held) == 2
    assert len(check_nucleus(nucleus).held) == 3
    assert len(check_clipped_precision(precision).held) == 2


def loop(*, start=BOS, feed=True, pad=True, stop="all", limit=None):
    """A decoder with one mistake, or none."""

    def decode(model, source, source_lengths, max_length):
        state = model.start(source, source_lengths)
        token = torch.full((3,), start)
        ended, rows = torch.zeros(3, dtype=torch.bool), []
        for _ in range(limit or max_length):
            logits, _, state = model.step(token, state)
            chosen = logits.argmax(-1)
            rows.append(chosen.masked_fill(ended, PAD) if pad else chosen)
            ended |= chosen == EOS
            token = chosen if feed else token
            if stop and getattr(ended, stop)():
                break
        return torch.stack(rows, 1)

    return decode


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ({"start": PAD}, "the first token to feed is BOS"),
        ({"feed": False}, "feed back what was chosen"),
        ({"pad": False}, "PAD after the end"),
        ({"stop": "any"}, "one sentence has ended, the others have not"),
        ({"stop": None}, "all have ended after four steps"),
        ({"limit": 3}, "expected .5, 6, 7, 2., EOS included"),
        ({"limit": 6}, "max_length is 2"),
    ],
    ids=str,
)
def test_greedy_mistakes(mistake, message):
    assert check_greedy_batch(loop())
    with pytest.raises(CheckFailed, match=message):
        check_greedy_batch(loop(**mistake))


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (lambda log_p, lengths, alpha: None, "got None"),
        (lambda log_p, lengths, alpha: log_p.argmax(), "got 0"),
        (lambda log_p, lengths, alpha: lengths.argmax(), "expected 0"),
        (
            lambda log_p, lengths, alpha: (log_p * ((5 + lengths) / 6) ** alpha).argmax(),
            "multiplied, the penalty",
        ),
        (lambda log_p, lengths, alpha: (log_p / ((5 + lengths) / 6)).argmax(), "alpha 0.0"),
        (lambda log_p, lengths, alpha: (log_p / lengths**alpha).argmax(), "expected"),
        (lambda log_p, lengths, alpha: (log_p / ((5 + lengths) / 6) ** alpha).argmin(), "expected"),
        (lambda log_p, lengths, alpha: (log_p / (5 + lengths / 6) ** alpha).argmax(), "expected"),
    ],
)
def test_penalty_mistakes(choose, message):
    with pytest.raises(CheckFailed, match=message):
        check_best_ended(choose)


def kept(chances, p, *, inclusive=True):
    ordered, order = chances.sort(descending=True)
    total = ordered.cumsum(0)
    stays = (total - ordered < p - 1e-12) if inclusive else total <= p
    return torch.zeros_like(stays).scatter(0, order, stays)


def drops_the_crossing_token(logits, p, temperature):
    chances = (logits / temperature).softmax(-1)
    left = chances * kept(chances, p, inclusive=False)
    return left / left.sum().clamp(min=1e-9)


def temperature_on_probabilities(logits, p, temperature):
    chances = logits.softmax(-1) / temperature
    left = chances * kept(chances, p)
    return left / left.sum()


def fills_with_zero(logits, p, temperature):
    scaled = logits / temperature
    return (scaled * kept(scaled.softmax(-1), p)).softmax(-1)


def not_scaled(logits, p, temperature):
    chances = (logits / temperature).softmax(-1)
    return chances * kept(chances, p)


def tempered_late(logits, p, temperature):
    stays = kept(logits.softmax(-1), p)
    return (logits / temperature).masked_fill(~stays, -torch.inf).softmax(-1)


def order_forgotten(logits, p, temperature):
    ordered = (logits / temperature).softmax(-1).sort(descending=True).values
    left = ordered * (ordered.cumsum(0) - ordered < p - 1e-12)
    return left / left.sum()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *_: None, "expected a tensor"),
        (drops_the_crossing_token, "the kept set crosses p"),
        (temperature_on_probabilities, "the kept set|the temperature divides|expected 0"),
        (fills_with_zero, "expected 0 for tokens"),
        (not_scaled, "sum 0.400, not 1"),
        (tempered_late, "the kept set crosses p|expected 0"),
        (order_forgotten, "the kept set crosses p"),
        (lambda logits, p, t: (logits / t).softmax(-1), "expected 0 for tokens"),
        (lambda logits, p, t: (logits * t).softmax(-1), "expected 0 for tokens"),
        (lambda logits, p, t: nucleus(logits, p, 1 / t), "temperature 0.5"),
        (lambda logits, p, t: nucleus(logits.mul_(1 / t), p, 1), "argument 1 was changed"),
    ],
)
def test_nucleus_mistakes(function, message):
    with pytest.raises(CheckFailed, match=message):
        check_nucleus(function)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *_: None, "got None"),
        (lambda p, r, n: precision(r, p, n), "swapped"),
        (
            lambda p, r, n: (
                sum(g in grams(r, n) for g in grams(p, n).elements()) / grams(p, n).total()
            ),
            "clip",
        ),
        (
            lambda p, r, n: len(set(grams(p, n)) & set(grams(r, n))) / len(grams(p, n)),
            "count each|clip",
        ),
        (lambda p, r, n: precision(p, r, 1), "order within an n-gram"),
    ],
)
def test_precision_mistakes(function, message):
    with pytest.raises(CheckFailed, match=message):
        check_clipped_precision(function)

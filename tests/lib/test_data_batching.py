"""Every pair once in an epoch, within the bounds, little padding, and the place found again."""

import random

import pytest
import torch

from lib.data import (
    EOS,
    PAD,
    BatchStream,
    Pair,
    Position,
    Vocabulary,
    batches,
    endless,
    token_batches,
)

WORDS = "abcdefg"
VOCAB = Vocabulary(WORDS)


def some_pairs(n=211, longest=13, seed=0):
    rng = random.Random(seed)
    sides = [[rng.choices(WORDS, k=rng.randint(1, longest)) for _ in range(n)] for _ in "xy"]
    return [Pair(tuple(x), tuple(y)) for x, y in zip(*sides, strict=True)]


def sentences(found):
    """The pairs that the batches hold, as numbers."""
    rows = []
    for batch in found:
        both = (batch.source.tolist(), batch.target_out.tolist())
        for sides in zip(*both, strict=True):
            rows.append(tuple(tuple(t for t in side if t not in (PAD, EOS)) for side in sides))
    return sorted(rows)


def numbered(pairs):
    return sorted(tuple(tuple(VOCAB.encode(side)) for side in pair) for pair in pairs)


def equal(one, other):
    parts = ("source", "source_lengths", "target_in", "target_out")
    return all(torch.equal(getattr(one, part), getattr(other, part)) for part in parts)


@pytest.mark.parametrize("max_tokens", [14, 41, 1000, 10_000])
def test_each_pair_once_and_never_too_much(max_tokens):
    pairs = some_pairs()
    found = list(token_batches(pairs, VOCAB, VOCAB, max_tokens, seed=3))
    assert sentences(found) == numbered(pairs)
    assert all(max(b.source.numel(), b.target_in.numel()) <= max_tokens for b in found)


def test_batches_are_as_full_as_they_can_be():
    """Sentences of six words are seven with EOS: six of them fit into 45, not seven."""
    pairs = [Pair(("a",) * 6, ("b",) * 3)] * 31
    sizes = [len(b.source) for b in token_batches(pairs, VOCAB, VOCAB, 45, seed=0)]
    assert sorted(sizes) == [1, 6, 6, 6, 6, 6]


def test_little_is_padding():
    pairs = [Pair(x, x) for x, _ in some_pairs(2000)]

    def share(found):
        found = list(found)
        real = sum(int((b.target_out != PAD).sum()) for b in found)
        return 1 - real / sum(b.target_out.numel() for b in found)

    assert share(token_batches(pairs, VOCAB, VOCAB, 400, seed=0)) < 0.02
    assert share(batches(pairs, VOCAB, VOCAB, 2000, seed=0)) > 0.3  # all in one: the worst


def test_order_follows_from_the_seed():
    pairs = some_pairs()
    one, same, other = (list(token_batches(pairs, VOCAB, VOCAB, 60, seed=s)) for s in (1, 1, 2))
    assert all(map(equal, one, same))
    assert not all(map(equal, one, other))


def test_stream_goes_through_epoch_after_epoch():
    pairs = some_pairs()
    stream = BatchStream(pairs, VOCAB, VOCAB, max_tokens=60, seed=5)
    epochs = [[next(stream) for _ in range(stream.per_epoch)] for _ in range(2)]
    assert stream.position == Position(2, 0)
    for number, epoch in enumerate(epochs):
        assert sentences(epoch) == numbered(pairs)
        assert all(map(equal, epoch, token_batches(pairs, VOCAB, VOCAB, 60, seed=5000 + number)))
    assert not all(map(equal, *epochs))


@pytest.mark.parametrize("given", [0, 1, 17, -1])
def test_stream_goes_on_from_any_position(given):
    pairs = some_pairs()
    one, other = (BatchStream(pairs, VOCAB, VOCAB, max_tokens=60, seed=5) for _ in range(2))
    for _ in range(given % (one.per_epoch + 1)):
        next(one)
    other.position = tuple(one.position)
    assert all(equal(next(one), next(other)) for _ in range(2 * one.per_epoch))


def test_batches_by_sentences():
    pairs = some_pairs()
    stream = BatchStream(pairs, VOCAB, VOCAB, batch_size=17)
    sizes = sorted(len(next(stream).source) for _ in range(stream.per_epoch))
    assert sizes == [211 % 17, *[17] * (211 // 17)]


def test_both_bounds_hold():
    stream = BatchStream(some_pairs(), VOCAB, VOCAB, batch_size=5, max_tokens=42)
    found = [next(stream) for _ in range(stream.per_epoch)]
    assert {len(b.source) for b in found} >= {3, 5}
    assert all(len(b.source) <= 5 and b.source.numel() <= 42 for b in found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected max_tokens or batch_size, got neither"),
        ({"max_tokens": 0}, "expected max_tokens of at least 1, got 0"),
        ({"batch_size": -2}, "expected batch_size of at least 1, got -2"),
        ({"batch_size": 1, "pool": 0}, "expected pool of at least 1, got 0"),
        ({"max_tokens": 13}, r"at most max_tokens=13 tokens with EOS, got one of 14; raise"),
    ],
)
def test_bad_bounds(options, message):
    with pytest.raises(ValueError, match=message):
        BatchStream(some_pairs(), VOCAB, VOCAB, **options)


def test_no_pairs():
    with pytest.raises(ValueError, match="expected at least one pair to make batches of"):
        token_batches([], VOCAB, VOCAB, 10, seed=0)


def test_batches_of_a_pool_are_found_again():
    """Also in an epoch that has another number of batches."""
    pairs = some_pairs()
    bounds = {"max_tokens": 60, "pool": 30}
    stream, other = (BatchStream(pairs, VOCAB, VOCAB, **bounds) for _ in range(2))
    given = [(stream.position, next(stream)) for _ in range(3 * stream.per_epoch)]
    assert given[-1][0].epoch >= 2
    for place, batch in reversed(given):
        other.position = place
        assert equal(next(other), batch)


def test_a_pool_is_sorted_by_itself():
    """Sentences of one pool only stand together."""
    pairs = some_pairs()
    stream = BatchStream(pairs, VOCAB, VOCAB, batch_size=5, pool=20)
    order = random.Random(7).sample(range(len(pairs)), len(pairs))
    pool_of = {number: place // 20 for place, number in enumerate(order)}
    groups = stream.groups(7)
    assert sorted(number for group in groups for number in group) == list(range(len(pairs)))
    assert all(len({pool_of[number] for number in group}) == 1 for group in groups)


@pytest.mark.parametrize("place", [(0, 10_000), (3, 10_000), (-1, 0), (0, -1)])
def test_a_position_outside_the_data(place):
    stream, other = (BatchStream(some_pairs(), VOCAB, VOCAB, max_tokens=60) for _ in range(2))
    with pytest.raises(ValueError, match=r"expected an index from 0 to \d+ in an epoch from 0"):
        stream.position = place
    assert torch.equal(next(stream).source, next(other).source), "it goes on as before"


@pytest.mark.parametrize("bound", ["max_tokens", "batch_size"])
def test_a_bound_of_one_is_the_least(bound):
    """One sentence a batch; of tokens an empty sentence has one, its end."""
    pairs = [Pair((), ())] * 3
    stream = BatchStream(pairs, VOCAB, VOCAB, **{bound: 1})
    assert [next(stream).source.tolist() for _ in range(3)] == [[[EOS]]] * 3
    assert stream.position == (1, 0)
    with pytest.raises(ValueError, match=f"{bound} of at least 1, got 0"):
        BatchStream(pairs, VOCAB, VOCAB, **{bound: 0})


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_fifty_batches_are_sorted_together(batch_size):
    rng = random.Random(0)
    words = Vocabulary("abc")
    pairs = [Pair(tuple("a" * rng.randint(1, 9)), ("b",)) for _ in range(130 * batch_size)]
    got = endless(pairs, words, words, batch_size, seed=5)
    wanted = BatchStream(pairs, words, words, batch_size=batch_size, pool=50 * batch_size, seed=5)
    assert got.groups(7) == wanted.groups(7)

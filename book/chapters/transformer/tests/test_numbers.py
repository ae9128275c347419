"""Numbers to words: the words, what is held out, and the batches."""

import random
from itertools import islice

from chapters.transformer.numbers import (
    draw,
    held_out_pairs,
    in_words,
    is_held_out,
    pair_of,
    stream,
    vocabularies,
)
from lib.data import UNK


def test_words_are_those_of_the_laboratory():
    """As engine/tasks.js writes them."""
    assert " ".join(in_words(73691)) == "seventy three thousand six hundred and ninety one"
    assert " ".join(in_words(7031)) == "seven thousand and thirty one"
    assert " ".join(in_words(70000)) == "seventy thousand"
    assert in_words(0) == ("zero",)
    assert pair_of(17) == (("1", "7"), ("seventeen",))


def test_what_is_held_out_is_never_trained_on():
    rng = random.Random(0)
    trained_on = {draw(rng, held_out=False) for _ in range(3000)}
    assert not any(map(is_held_out, trained_on))
    lengths = [sum(len(str(n)) == k for n in trained_on) for k in (3, 4, 5)]
    assert min(lengths) > 400, "each length is as frequent as the others"
    assert not any(is_held_out(n) for n in (*range(21), *range(0, 1000, 10)))
    share = sum(map(is_held_out, range(100_000))) / 100_000
    assert 0.08 < share < 0.1  # a tenth, but for round numbers
    pairs = held_out_pairs(100)
    assert len(set(pairs)) == 100
    assert all(is_held_out(int("".join(pair.source))) for pair in pairs)


def test_vocabularies_have_all_words():
    digits, words = vocabularies()
    assert (len(digits), len(words)) == (4 + 10, 4 + 31)
    for batch in islice(stream(32, seed=0), 40):
        assert batch.source.shape[0] == 32
        assert UNK not in batch.source
        assert UNK not in batch.target_in

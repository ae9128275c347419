"""Numbers to words: the words, what is held out, and the batches."""

import random
from itertools import islice

import pytest

from chapters.transformer.numbers import Numbers, draw, is_held_out
from lib.data import UNK


def test_words_are_those_of_the_laboratory():
    """With "and" as engine/tasks.js writes them."""
    british, plain = Numbers(says_and=True), Numbers()
    assert " ".join(british.words(73691)) == "seventy three thousand six hundred and ninety one"
    assert " ".join(british.words(7031)) == "seven thousand and thirty one"
    assert " ".join(plain.words(73691)) == "seventy three thousand six hundred ninety one"
    assert " ".join(plain.words(70000)) == "seventy thousand"
    assert plain.words(0) == ("zero",)
    assert plain.pair(17) == (("1", "7"), ("seventeen",))


def test_what_is_held_out_is_never_trained_on():
    rng = random.Random(0)
    trained_on = {draw(rng, held_out=False) for _ in range(3000)}
    assert not any(map(is_held_out, trained_on))
    lengths = [sum(len(str(n)) == k for n in trained_on) for k in (3, 4, 5)]
    assert min(lengths) > 300, "each length is as frequent as the others"
    assert not any(is_held_out(n) for n in (*range(21), *range(0, 1000, 10)))
    share = sum(map(is_held_out, range(100_000))) / 100_000
    assert 0.08 < share < 0.1  # a tenth, but for round numbers
    pairs = Numbers().held_out(100)
    assert len(set(pairs)) == 100
    assert all(is_held_out(int("".join(pair.source))) for pair in pairs)


@pytest.mark.parametrize(("says_and", "count"), [(False, 30), (True, 31)])
def test_vocabularies_have_all_words(says_and, count):
    digits, words = Numbers(says_and).vocabularies()
    assert (len(digits), len(words)) == (4 + 10, 4 + count)
    for batch in islice(Numbers(says_and).stream(32, seed=0), 40):
        assert batch.source.shape[0] == 32
        assert UNK not in batch.source
        assert UNK not in batch.target_in

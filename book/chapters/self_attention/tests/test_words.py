"""The words of the experiment: all of them, each on one side, and no bag on both."""

import pytest

from chapters.self_attention.words import ALPHABET, bag_of, split_words, to_tensor


def spelled(tensor):
    return ["".join(ALPHABET[letter] for letter in word) for word in tensor.tolist()]


def test_letters_become_their_numbers_in_the_alphabet():
    assert to_tensor(["beans", "aaaan"]).tolist() == [[1, 2, 0, 3, 4], [0, 0, 0, 0, 3]]
    with pytest.raises(ValueError, match="substring"):
        to_tensor(["zebra"])


def test_a_bag_forgets_the_order_and_nothing_else():
    assert bag_of("banana") == bag_of("nabana") != bag_of("banann")


def test_every_word_is_on_one_side_and_no_bag_is_on_both():
    train, test = map(spelled, split_words())
    assert len({*train, *test}) == len(train) + len(test) == 5**6
    assert not {bag_of(word) for word in train} & {bag_of(word) for word in test}
    assert {"banana", "assess"} <= {*test}

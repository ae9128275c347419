"""All words of six letters, parted so that no word of the test is a training word reordered."""

import itertools

import torch
from jaxtyping import Int
from torch import Tensor

ALPHABET = "abens"


def to_tensor(words: list[str]) -> Int[Tensor, "batch time"]:
    """The letters as numbers. Errors: ValueError for a letter that is not in ALPHABET."""
    return torch.tensor([[ALPHABET.index(letter) for letter in word] for word in words])


def split_words() -> tuple[Int[Tensor, "train 6"], Int[Tensor, "test 6"]]:
    """The words to train on, and those to test on, whose bags are held out."""
    words = ["".join(letters) for letters in itertools.product(ALPHABET, repeat=6)]
    bags = sorted({bag_of(word) for word in words})
    mixed = [bag for bag in bags if len(set(bag)) > 2]  # the few simpler ones are for training
    held_out = {*mixed[::3], bag_of("banana"), bag_of("assess")}
    test = [word for word in words if bag_of(word) in held_out]
    return to_tensor(sorted({*words} - {*test})), to_tensor(test)


def bag_of(word: str) -> str:
    """The letters of a word without their order: the same for all its arrangements."""
    return "".join(sorted(word))

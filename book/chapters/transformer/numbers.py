"""Numbers of one to five digits, to be written in English words: the task of the laboratory.

As in the page's laboratory, each length is as frequent as the others, and one number in ten is held
out by a hash of its digits; none up to twenty and no round number is, for each word by itself must
be learned.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from num2words import num2words

from lib.data import Batch, Pair, Vocabulary, make_batch

LONGEST = 5  # digits
HELD_OUT_IN = 10


def is_held_out(n: int) -> bool:
    """Whether no model is trained on this number: FNV-1a of its digits, then its high bits."""
    hashed = 0x811C9DC5
    for digit in str(n):
        hashed = ((hashed ^ ord(digit)) * 0x01000193) % 2**32
    return n > 20 and n % 10 != 0 and (hashed >> 8) % HELD_OUT_IN == 0


def draw(rng: random.Random, *, held_out: bool) -> int:
    """A number to test on, or to train on."""
    while True:
        least = 10 ** rng.randrange(LONGEST)
        n = rng.randrange(10) if least == 1 else rng.randrange(least, 10 * least)
        if is_held_out(n) == held_out:
            return n


@dataclass(frozen=True)
class Numbers:
    """The task; says_and, whether it says "six hundred and one" or "six hundred one"."""

    says_and: bool = False

    def words(self, n: int) -> tuple[str, ...]:
        """73691: seventy three thousand six hundred ninety one."""
        words = num2words(n).replace("-", " ").replace(",", "").split()
        return tuple(word for word in words if self.says_and or word != "and")

    def pair(self, n: int) -> Pair:
        """The digits of a number, and its words."""
        return Pair(tuple(str(n)), self.words(n))

    def vocabularies(self) -> list[Vocabulary]:
        """The digits, and the words of all numbers."""
        words = dict.fromkeys(word for n in (*range(100), 101, 1000) for word in self.words(n))
        return [Vocabulary("0123456789"), Vocabulary(words)]

    def held_out(self, count: int, seed: int = 0) -> list[Pair]:
        """Different numbers that no model is trained on; of the shortest there are but a few."""
        rng = random.Random(seed)
        drawn: dict[int, Pair] = {}
        while len(drawn) < count:
            n = draw(rng, held_out=True)
            drawn[n] = self.pair(n)
        return list(drawn.values())

    def stream(self, batch_size: int, seed: int) -> Iterator[Batch]:
        """Batches without end, of numbers to train on."""
        rng, sides = random.Random(seed), self.vocabularies()
        while True:
            numbers = (draw(rng, held_out=False) for _ in range(batch_size))
            yield make_batch([self.pair(n) for n in numbers], *sides)

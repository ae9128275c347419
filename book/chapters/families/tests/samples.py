"""Three sentence pairs in one vocabulary, and the rows a stack reads."""

from chapters.families.families import joined, joint_vocabulary
from lib.data import Pair, make_batch

PAIRS = [
    Pair(("two", "weeks", "ago"), ("il", "y", "a", "deux", "semaines")),
    Pair(("two", "euros"), ("deux", "euros")),
    Pair(("ago",), ("il", "y", "a")),
]
VOCAB = joint_vocabulary(PAIRS)
ROWS = joined(make_batch(PAIRS, VOCAB, VOCAB))

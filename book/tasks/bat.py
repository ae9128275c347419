"""The running example of the chapters on attention: *bat bites man in cave*, in small numbers.

A word has five features with names. *bat* alone is half animal and half sports equipment, and in
the sentence *cave* settles that it is the animal. All numbers are written by hand. A model learns
such vectors and matrices, and its numbers have no names.
"""

import torch
from jaxtyping import Float
from torch import Tensor

SENTENCE = ("bat", "bites", "man", "in", "cave")
FEATURES = ("animal", "equipment", "person", "action", "nature")
LOOKS_FOR = ("clue", "living", "action", "nature")  # what a query asks for and a key can offer

WORDS = {  # each word's features: animal, equipment, person, action, nature
    "bat": (1, 1, 0, 0, 0),
    "bites": (0, 0, 0, 1, 0),
    "man": (0, 0, 1, 0, 0),
    "in": (0, 0, 0, 0, 0),
    "cave": (0, 0, 0, 0, 1),
    "hits": (0, 0, 0, 1, 0),
    "ball": (0, 1, 0, 0, 0),
    "dog": (1, 0, 0, 0, 0),
}

# Each row says what one feature asks for: clue, living, action, nature.
W_Q = (
    (0, 0, 0, 0),  # animal
    (8, 0, 0, 0),  # equipment: am I really? Who has a clue?
    (0, 0, 8, 0),  # person: what happens to me?
    (0, 8, 0, 0),  # action: who acts, and who is acted upon?
    (0, 0, 0, 8),  # nature: what else is outdoors?
)
# Each row says as what one feature can be found: clue, living, action, nature.
W_K = (
    (0, 1, 0, 0),  # animal: alive
    (1, 0, 0, 0),  # equipment: a clue
    (0, 1, 0, 0),  # person: alive
    (0, 0, 1, 0),  # action
    (1, 0, 0, 1),  # nature: a clue as well
)
# Each row says what one feature passes on: animal, equipment, person, action, nature.
W_V = (
    (1, 0, 0, 0, 0),  # animal
    (0, 1, 0, 0, 0),  # equipment
    (0, 0, 1, 0, 0),  # person
    (0, 0, 0, 1, 0),  # action
    (1, -1, 0, 0, 1),  # nature: it speaks for an animal, and against equipment
)


def vectors_of(
    sentence: str | tuple[str, ...] = SENTENCE,
) -> Float[Tensor, "time features"]:
    """The vectors of a sentence of known words, one row for each.

    Errors: ValueError for a word that has no vector.
    """
    words = sentence.split() if isinstance(sentence, str) else sentence
    if unknown := [word for word in words if word not in WORDS]:
        raise ValueError(f"expected words out of {sorted(WORDS)}, got {unknown}")
    return torch.tensor([WORDS[word] for word in words], dtype=torch.float64)


def matrices() -> tuple[Tensor, Tensor, Tensor]:
    """W^Q (5, 4), W^K (5, 4) and W^V (5, 5)."""
    w_q, w_k, w_v = (torch.tensor(w, dtype=torch.float64) for w in (W_Q, W_K, W_V))
    return w_q, w_k, w_v

"""Three sentence pairs in one vocabulary, the rows a stack reads, and the widget's sample."""

from chapters.families.families import joined, joint_vocabulary
from chapters.families.families_explorer import FamiliesExplorer
from lib.data import Pair, make_batch

PAIRS = [
    Pair(("two", "weeks", "ago"), ("il", "y", "a", "deux", "semaines")),
    Pair(("two", "euros"), ("deux", "euros")),
    Pair(("ago",), ("il", "y", "a")),
]
VOCAB = joint_vocabulary(PAIRS)
ROWS = joined(make_batch(PAIRS, VOCAB, VOCAB))


def rows_of_families() -> list[dict]:
    """Two rows, of 7 and of 5 tokens; guesses that name their family, their prefix and place."""
    found = []
    for tokens, prefix in (
        (["<bos>", "two", "euros", "<eos>", "deux", "<b>euros</b>", "<eos>"], 4),
        (["<bos>", "ago", "<eos>", "passés", "<eos>"], 3),
    ):

        def said(name, places, tokens=tokens):
            return [
                [(tokens[t], 0.75), (f"{name}{t}", 0.25 - 0.01 * t)] if t in places else []
                for t in range(len(tokens))
            ]

        places = range(1, len(tokens))
        after = range(prefix, len(tokens))
        found.append(
            {
                "tokens": tokens,
                "prefix": prefix,
                "encoder-only": said("e", [t for t in places if tokens[t] != "<eos>"]),
                "decoder-only": said("d", places),
                "encoder-decoder": said("t", after),
                "prefixed": [said(f"p{k}-", after) for k in range(2, prefix + 1)],
            }
        )
    return found


SAMPLES = {
    "families_explorer": lambda: FamiliesExplorer(
        rows_of_families(), position=2, family="decoder-only", shown=2
    ),
}

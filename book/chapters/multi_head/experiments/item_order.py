"""Which head carries the order of the items: heads that mix up two items of a sentence.

    python experiments/item_order.py                         (ten seconds of one core)

Each head of the encoder in turn gives all words of one item what it found for the first word of
another item, and the reverse; nothing else is touched. The published translator then translates the
held-out sentences of three items. Counted is how often the translation is the right one with these
two items exchanged, and how often it is the right one as before.
"""

import sys
from itertools import combinations
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from chapters.multi_head.ablation import head_codes
from chapters.multi_head.items import count_items, exchanged, french_items
from lib.data import Pair, make_batch
from lib.decoding import greedy
from measure.experiments import command_line
from measure.records import write_results
from tasks.translation import translation_pairs
from train.checkpoints import load_published

ITEMS, LONGEST = 3, 60


def outcome(said: list[str], pair: Pair, one: int, other: int) -> str:
    """What became of the two items in a translation."""
    wanted, got = french_items(pair.target), french_items(said)
    if got == wanted:
        return "as before"
    wanted[one], wanted[other] = wanted[other], wanted[one]
    return "exchanged" if got == wanted else "otherwise"


def main(arguments: list[str] | None = None) -> None:
    given = command_line(__file__, __doc__, arguments=arguments)
    torch.set_num_threads(1)
    model, *vocabs = load_published()
    model.eval()
    pairs = [pair for pair in translation_pairs()[1] if count_items(pair) == ITEMS]
    batch, found = make_batch(pairs, *vocabs), {}
    heads = [head for head in head_codes(2, 4) if head.startswith("e")]
    for head in heads:
        found[head] = {}
        for one, other in combinations(range(ITEMS), 2):
            with exchanged(model, head, pairs, one, other):
                tokens, _ = greedy(model, batch.source, batch.source_lengths, LONGEST)
            said = [vocabs[1].decode(row) for row in tokens.tolist()]
            each = [outcome(*row, one, other) for row in zip(said, pairs, strict=True)]
            fates = ("exchanged", "as before", "otherwise")
            found[head][f"{one + 1} and {other + 1}"] = {fate: each.count(fate) for fate in fates}
    write_results(given.path, {"sentences": len(pairs), "heads": found})


if __name__ == "__main__":
    main()

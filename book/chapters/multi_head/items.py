"""The items of a sentence, and a head that finds for one item what it found for another."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from chapters.multi_head.ablation import head_number
from lib.data import Pair
from lib.transformer import Transformer


def items_of(tokens: Sequence[str]) -> list[int | None]:
    """For each token of a source the number of its item, or None for what stands between two.

    A comma after the name of a day, or between the figures of a date, belongs to the date.
    """
    found: list[int | None] = []
    item = 0
    for i, token in enumerate(tokens):
        after = tokens[i + 1] if i + 1 < len(tokens) else ""
        in_date = tokens[i - 1].endswith("day") or (tokens[i - 1].isdigit() and after.isdigit())
        if token == "and" or (token == "," and not in_date):
            found.append(None)
            continue
        if found and found[-1] is None:
            item += 1
        found.append(item)
    return found


def count_items(pair: Pair) -> int:
    """How many items the source of a pair lists."""
    return 1 + max(item for item in items_of(pair.source) if item is not None)


def french_items(tokens: Sequence[str]) -> list[str]:
    """The items of a translation, which writes its dates without commas."""
    text = " ".join(tokens).replace(" , ", " et ")
    return text.split(" et ")


def givers(tokens: Sequence[str], one: int, other: int) -> list[int]:
    """For each token of a source the position whose finding it gets when two items are exchanged.

    The words of an item get what was found for the first word of the other; all else keeps its own.
    """
    items = items_of(tokens)
    first = {item: items.index(item) for item in (one, other)}
    partner = {one: other, other: one}
    return [
        i if item is None or item not in partner else first[partner[item]]
        for i, item in enumerate(items)
    ]


@contextmanager
def exchanged(
    model: Transformer, head: str, pairs: Sequence[Pair], one: int, other: int
) -> Iterator[Transformer]:
    """The model in which a head of the encoder mixes two items up, while the block runs.

    What the head finds for the first word of item `one` (from 0) is given to every word of `other`,
    and the reverse. All other words and heads keep what is theirs.

    Args: head, its code, such as "e2.3"; pairs, the sentences that the model will read, in one
        batch and in this order.
    Errors: ValueError for a head that the model does not have.
    """
    layer, number = head_number(model, head)
    longest = max(len(pair.source) for pair in pairs) + 1  # <eos>
    rows = torch.arange(longest).repeat(len(pairs), 1)  # whose output each position gets
    for row, pair in zip(rows, pairs, strict=True):
        row[: len(pair.source)] = torch.tensor(givers(pair.source, one, other))

    def replace(_: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        outputs = args[0].unflatten(-1, (model.config.n_heads, -1)).clone()
        d_v = outputs.shape[-1]
        outputs[:, :, number] = outputs[:, :, number].gather(
            1, rows[:, :, None].expand(-1, -1, d_v)
        )
        return (outputs.flatten(-2),)

    hook = layer.w_o.register_forward_pre_hook(replace)
    try:
        yield model
    finally:
        hook.remove()

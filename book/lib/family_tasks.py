"""What the families of `lib.families` can do: guess a token, and continue a row."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lib.data import EOS, PAD, Pair, Vocabulary, make_batch
from lib.families import (
    KINDS,
    MASK,
    OneStack,
    causal_prefix_mask,
    family_mask,
    family_targets,
    joined,
    prefix_lengths_of,
)
from lib.masks import padding_mask

BATCH_SIZE = 250  # rows that are worked on together


@torch.no_grad()
def guess(
    model: OneStack, kind: str, rows: Int[Tensor, "batch time"], position: int
) -> Float[Tensor, "batch vocab"]:
    """Probabilities of the token at a position, which the model does not see.

    "encoder-only" reads the whole row with a gap there; the others read what stands before it, and
    a prefix that reaches further ends there.
    Errors: ValueError for another kind, or a position that is not in the rows or is their first.
    Source: ours. Chapter: 14 (One design, three families).
    """
    if not 0 < position < rows.shape[1]:
        raise ValueError(f"expected a position from 1 to {rows.shape[1] - 1}, got {position}")
    if kind == "encoder-only":
        rows = rows.clone()
        rows[:, position] = MASK
        return model(rows, family_mask(kind, rows))[:, position].softmax(dim=-1)
    before = rows[:, :position]  # without the first EOS the prefix is all of it
    mask = family_mask(kind, before)
    if kind == "prefix":
        ended = (before == EOS).any(dim=1)
        mask = causal_prefix_mask(torch.where(ended, prefix_lengths_of(before), position), position)
    return model(before, mask)[:, -1].softmax(dim=-1)


@torch.no_grad()
def guess_by_scoring(
    model: OneStack, row: Int[Tensor, " time"], position: int
) -> Float[Tensor, " vocab"]:
    """Probabilities of the token at a position by a decoder-only model that reads the whole row.

    p(c | both sides) = p(row with c there) / sum over c' of p(row with c' there): exact, and as
    many rows to read as the vocabulary has entries.
    Source: Bayes' rule; ours. Chapter: 14 (One design, three families).
    """
    vocab = model.config.source_vocab
    rows = row.repeat(vocab, 1)  # (vocab, time)
    rows[:, position] = torch.arange(vocab, device=row.device)
    inputs, targets = family_targets("decoder-only", rows)
    logits = model(inputs, family_mask("decoder-only", inputs))
    log_chances = -cross_entropy(logits.mT, targets, reduction="none").sum(dim=1)
    return log_chances.softmax(dim=0)


@torch.no_grad()
def translate_by_continuing(
    model: OneStack, kind: str, pairs: Sequence[Pair], vocab: Vocabulary, *, max_length: int = 60
) -> list[list[str]]:
    """Let the model continue "BOS source EOS" greedily until it says EOS; targets are not read.

    Returns: the words of each translation. Errors: ValueError for a kind that does not continue.
    Source: Liu et al. 2018. Chapter: 14 (One design, three families).
    """
    if kind not in KINDS[1:]:
        raise ValueError(f"expected a kind out of {', '.join(KINDS[1:])}, got {kind!r}")
    device, said = next(model.parameters()).device, []
    for start in range(0, len(pairs), BATCH_SIZE):
        prompts = [Pair(pair.source, ()) for pair in pairs[start : start + BATCH_SIZE]]
        rows = joined(make_batch(prompts, vocab, vocab).to(device))
        ends = prefix = prefix_lengths_of(rows)  # in place of the translation's EOS comes its start
        rows = rows.masked_fill(~padding_mask(prefix, rows.shape[1])[:, 0], PAD)
        each = torch.arange(len(rows), device=device)
        for _ in range(max_length):
            mask = family_mask(kind, rows)
            token = model(rows, mask)[each, ends - 1].argmax(dim=-1)
            over = (rows[each, ends - 1] == EOS) & (ends > prefix)
            rows = nn.functional.pad(rows, (0, 1), value=PAD)
            rows[each[~over], ends[~over]] = token[~over]
            ends = ends + (~over).long()
            if over.all():
                break
        said += [
            vocab.decode(row[first:]) for row, first in zip(rows, prefix.tolist(), strict=True)
        ]
    return said

"""One stack of layers, three families: what differs is the mask and the targets of the loss.

A sentence and its translation form one sequence of tokens:

    <bos> two canadian dollars <eos> deux dollars canadiens <eos>

    family         each position attends to         targets of the loss
    encoder-only   all of the row                   tokens that were hidden
    decoder-only   itself and what is before it     the next token, everywhere
    prefix         the source, and what is before   the next token, in the translation

The fourth, the encoder-decoder, is `lib.transformer.Transformer`: it keeps source and translation
in two stacks. What a trained one can do stands at the end: guess a token, and continue a row."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lib.data import BOS, EOS, PAD, Batch, Pair, Vocabulary, endless, make_batch
from lib.masks import causal_mask, padding_mask
from lib.training import cosine, token_loss, train
from lib.transformer import OneStack

KINDS = ("encoder-only", "decoder-only", "prefix")
MASK_TOKEN, MASK = "<mask>", 4  # the token that stands where one was hidden, and its number
BATCH_SIZE = 250  # rows that are worked on together


def causal_prefix_mask(
    prefix: Int[Tensor, " batch"],
    n: int,
) -> Bool[Tensor, "batch {n} {n}"]:
    """Let each position attend to the prefix and to all before it.

    mask[b, i, j] = j < prefix[b] or j <= i

    It lies between two masks: with prefixes of 0 or 1 it is `causal_mask`, with n it
    allows all.

    Shapes: prefix (batch). Returns (batch, query, key) with n queries and n keys.
    Errors: ValueError for lengths that are not integers, as in `padding_mask`.
    Source: Raffel et al. 2020, section 3.2.1.
    """
    return padding_mask(prefix, n) | causal_mask(n, device=prefix.device)


def family_mask(kind: str, rows: Int[Tensor, "batch time"]) -> Bool[Tensor, "..."]:
    """Which positions may attend to which in these rows, in one of the `KINDS`.

    The prefix ends with the first EOS.

    Errors: ValueError for another kind.
    Source: Raffel et al. 2020, figure 4.
    """
    _require_kind(kind)
    time = rows.shape[1]
    if kind == "encoder-only":
        return padding_mask((rows != PAD).sum(dim=1), time)
    if kind == "prefix":
        return causal_prefix_mask(prefix_lengths_of(rows), time)
    return causal_mask(time, device=rows.device)


def family_targets(
    kind: str, rows: Int[Tensor, "batch time"], *, fraction: float = 0.15
) -> tuple[Int[Tensor, "batch inputs"], Int[Tensor, "batch inputs"]]:
    """What the model reads and the targets of its loss, in one of the `KINDS`.

    Where there is no target stands PAD, which `lib.training.token_loss` leaves out.

    Args: fraction, how many tokens `hide` hides for "encoder-only".
    Errors: ValueError for another kind.
    Source: Devlin et al. 2019; Radford et al. 2018.
    """
    _require_kind(kind)
    if kind == "encoder-only":
        return hide(rows, fraction)
    inputs, targets = rows[:, :-1], rows[:, 1:]
    if kind == "prefix":  # the last token of the prefix is the first with a target
        inside = padding_mask(prefix_lengths_of(rows) - 1, inputs.shape[1])[:, 0]
        targets = targets.masked_fill(inside, PAD)
    return inputs, targets


def hide(
    rows: Int[Tensor, "batch time"], fraction: float
) -> tuple[Int[Tensor, "batch time"], Int[Tensor, "batch time"]]:
    """Replace a random fraction of the words by MASK; only those are targets.

    PAD, BOS and EOS stay. Returns the row with masked tokens, and the targets, PAD where there is
    none.
    Errors: ValueError for a fraction not above 0 or not below 1.
    Source: Taylor 1953 (cloze); Devlin et al. 2019.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"expected a fraction above 0 and below 1, got {fraction}; BERT's is 0.15")
    words = rows > EOS
    chosen = words & (torch.rand(rows.shape, device=rows.device) < fraction)
    return rows.masked_fill(chosen, MASK), rows.masked_fill(~chosen, PAD)


def joint_vocabulary(pairs: Sequence[Pair]) -> Vocabulary:
    """One vocabulary for both languages, in which `MASK_TOKEN` has the number `MASK`."""
    both = Vocabulary.from_sentences(side for pair in pairs for side in pair)
    return Vocabulary([MASK_TOKEN, *both.tokens[MASK:]])


def joined(batch: Batch) -> Int[Tensor, "batch time"]:
    """Source and translation of each pair in one row: BOS source EOS translation EOS, then PAD.

    The batch must be numbered with one vocabulary for both, as from `joint_vocabulary`.
    Source: Liu et al. 2018.
    """
    pairs = zip(batch.source, batch.target_out, strict=True)
    rows = [torch.cat([half[half != PAD] for half in pair]) for pair in pairs]
    filled = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    return nn.functional.pad(filled, (1, 0), value=BOS)


def train_family(
    model: OneStack,
    kind: str,
    pairs: list[Pair],
    vocab: Vocabulary,
    steps: int,
    lr: float,
    *,
    fraction: float = 0.15,
    batch_size: int = 32,
    warmup: int = 50,
    seed: int = 0,
) -> list[float]:
    """Train one stack as one of the `KINDS`: `lib.training.train` with a cosine schedule.

    Returns: the loss of every step. Errors: ValueError for another kind; those of `train`.
    """
    _require_kind(kind)

    def loss(model: nn.Module, rows: Tensor) -> tuple[Tensor, Tensor]:
        inputs, targets = family_targets(kind, rows, fraction=fraction)
        logits = model(inputs, family_mask(kind, inputs))
        return token_loss(logits, targets, reduction="sum"), (targets != PAD).sum()

    rows = map(joined, endless(pairs, vocab, vocab, batch_size, seed=seed))
    return train(model, rows, steps, lr, loss=loss, schedule=cosine(steps, warmup))


def prefix_lengths_of(rows: Int[Tensor, "batch time"]) -> Int[Tensor, " batch"]:
    """How many tokens stand before the translation: BOS, the source and its EOS."""
    return (rows == EOS).int().argmax(dim=1) + 1


def _require_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"expected a kind out of {', '.join(KINDS)}, got {kind!r}")


@torch.no_grad()
def guess(
    model: OneStack, kind: str, rows: Int[Tensor, "batch time"], position: int
) -> Float[Tensor, "batch vocab"]:
    """Probabilities of the token at a position, which the model does not read.

    "encoder-only" reads the whole sequence with MASK there; the others read what stands before it,
    and a prefix that reaches further ends there.
    Errors: ValueError for another kind, or a position that is not in the rows or is their first.
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
    """Probabilities of the token at a position by a decoder-only model that reads the whole
    sequence.

    p(c | both sides) = p(row with c there) / sum over c' of p(row with c' there): exact, and as
    many rows to read as the vocabulary has entries.
    Source: Bayes' rule; ours.
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
    """Let the model continue "BOS source EOS" greedily until it predicts EOS; targets are not read.

    Returns: the words of each translation. Errors: ValueError for a kind that does not continue.
    Source: Liu et al. 2018.
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

"""One stack of layers, three families: what differs is the mask and what the loss asks for.

A sentence and its translation stand in one row of tokens:

    <bos> two canadian dollars <eos> deux dollars canadiens <eos>

    family         each position sees               the loss asks for
    encoder-only   all of the row                   tokens that were hidden
    decoder-only   itself and what is before it     the next token, everywhere
    prefix         the source, and what is before   the next token, in the translation

The fourth, the encoder-decoder, is `lib.transformer.Transformer`: it keeps source and translation
in two stacks.
"""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lib.config import Config
from lib.data import BOS, EOS, PAD, Batch, Pair, Vocabulary
from lib.layers import Embedding, TiedProjection
from lib.masks import causal_mask, padding_mask
from lib.training import cosine, endless, train
from lib.transformer import Encoder

KINDS = ("encoder-only", "decoder-only", "prefix")
MASK_TOKEN, MASK = "<mask>", 4  # the token that stands where one was hidden, and its number


class OneStack(nn.Module):
    """Embedding, n_layers encoder layers and a projection, under whatever mask it is given.

    Without a mask it is BERT's design; with `causal_mask` it computes what `LanguageModel` does,
    from the same weights. Of the configuration, source_vocab is the one vocabulary.
    Source: Devlin et al. 2019; Radford et al. 2018. Chapter: 14 (One design, three families).
    """

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        std = 0.5 if config.tied else 1.0
        self.embedding = Embedding(config.source_vocab, config.d_model, std=std)
        self.encoder = Encoder(config)
        self.projection = (
            TiedProjection(self.embedding)
            if config.tied
            else nn.Linear(config.d_model, config.source_vocab, bias=False)
        )

    def forward(
        self, tokens: Int[Tensor, "batch time"], mask: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch time vocab"]:
        return self.projection(self.encoder(self.embedding(tokens), mask))


def causal_prefix_mask(prefix: Int[Tensor, " batch"], n: int) -> Bool[Tensor, "batch {n} {n}"]:
    """Let each position see the prefix and all before it: mask[b, i, j] = j < prefix[b] or j <= i.

    It lies between two masks: with prefixes of 0 or 1 it is `causal_mask`, with n it allows all.

    Shapes: prefix (batch). Returns (batch, query, key) with n queries and n keys.
    Errors: ValueError for lengths that are not integers, as in `lib.masks.padding_mask`.
    Source: Raffel et al. 2020, section 3.2.1.
    Chapter: 14 (One design, three families).
    """
    return padding_mask(prefix, n) | causal_mask(n, device=prefix.device)


def family_mask(kind: str, rows: Int[Tensor, "batch time"]) -> Bool[Tensor, "..."]:
    """Who may see whom in these rows, in one of the `KINDS`. The prefix ends with the first EOS.

    Errors: ValueError for another kind.
    Source: Raffel et al. 2020, figure 4. Chapter: 14 (One design, three families).
    """
    _require_kind(kind)
    time = rows.shape[1]
    if kind == "encoder-only":
        return padding_mask((rows != PAD).sum(dim=1), time)
    if kind == "prefix":
        return causal_prefix_mask(prefix_lengths_of(rows), time)
    return causal_mask(time, device=rows.device)


def family_targets(
    kind: str, rows: Int[Tensor, "batch time"], *, share: float = 0.15
) -> tuple[Int[Tensor, "batch inputs"], Int[Tensor, "batch inputs"]]:
    """What the model reads and what the loss asks for, in one of the `KINDS`.

    Where nothing is asked the target is PAD, which `lib.training.token_loss` leaves out.

    Args: share, how many tokens `hide` hides for "encoder-only".
    Errors: ValueError for another kind.
    Source: Devlin et al. 2019; Radford et al. 2018. Chapter: 14 (One design, three families).
    """
    _require_kind(kind)
    if kind == "encoder-only":
        return hide(rows, share)
    inputs, targets = rows[:, :-1], rows[:, 1:]
    if kind == "prefix":  # the last token of the prefix is the first that must say something
        inside = padding_mask(prefix_lengths_of(rows) - 1, inputs.shape[1])[:, 0]
        targets = targets.masked_fill(inside, PAD)
    return inputs, targets


def hide(
    rows: Int[Tensor, "batch time"], share: float
) -> tuple[Int[Tensor, "batch time"], Int[Tensor, "batch time"]]:
    """Put MASK in the place of a share of the words, drawn at random; ask for those alone.

    PAD, BOS and EOS stay. Returns the row with gaps, and the targets, PAD where nothing is asked.
    Errors: ValueError for a share not above 0 or not below 1.
    Source: Taylor 1953 (cloze); Devlin et al. 2019. Chapter: 14 (One design, three families).
    """
    if not 0 < share < 1:
        raise ValueError(f"expected a share above 0 and below 1, got {share}; BERT's is 0.15")
    words = rows > EOS
    chosen = words & (torch.rand(rows.shape, device=rows.device) < share)
    return rows.masked_fill(chosen, MASK), rows.masked_fill(~chosen, PAD)


def joint_vocabulary(pairs: Sequence[Pair]) -> Vocabulary:
    """One vocabulary for both languages, in which `MASK_TOKEN` has the number `MASK`.

    Source: ours. Chapter: 14 (One design, three families).
    """
    both = Vocabulary.from_sentences(side for pair in pairs for side in pair)
    return Vocabulary([MASK_TOKEN, *both.tokens[MASK:]])


def joined(batch: Batch) -> Int[Tensor, "batch time"]:
    """Source and translation of each pair in one row: BOS source EOS translation EOS, then PAD.

    The batch must be numbered with one vocabulary for both, as from `joint_vocabulary`.
    Source: Liu et al. 2018. Chapter: 14 (One design, three families).
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
    share: float = 0.15,
    batch_size: int = 32,
    warmup: int = 50,
    seed: int = 0,
) -> list[float]:
    """Train one stack as one of the `KINDS`: `lib.training.train` with a cosine schedule.

    Returns: the loss of every step. Errors: ValueError for another kind; those of `train`.
    Source: ours. Chapter: 14 (One design, three families).
    """
    _require_kind(kind)

    def stream() -> Iterator[Batch]:
        for batch in endless(pairs, vocab, vocab, batch_size, seed=seed):
            inputs, targets = family_targets(kind, joined(batch), share=share)
            nothing = inputs.new_zeros(len(inputs), 0)  # there is no source beside the row
            yield Batch(nothing, inputs.new_zeros(len(inputs)), inputs, targets)

    return train(_InFamily(model, kind), stream(), steps, lr, schedule=cosine(steps, warmup))


class _InFamily(nn.Module):
    """One stack and its family's mask, in the form that `train` calls."""

    def __init__(self, model: OneStack, kind: str):
        super().__init__()
        self.model, self.kind = model, kind

    def forward(self, source: Tensor, source_lengths: Tensor, target_in: Tensor) -> Tensor:
        return self.model(target_in, family_mask(self.kind, target_in))


def prefix_lengths_of(rows: Int[Tensor, "batch time"]) -> Int[Tensor, " batch"]:
    """How many tokens stand before the translation: BOS, the source and its EOS.

    Source: ours. Chapter: 14 (One design, three families).
    """
    return (rows == EOS).int().argmax(dim=1) + 1


def _require_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ValueError(f"expected a kind out of {', '.join(KINDS)}, got {kind!r}")

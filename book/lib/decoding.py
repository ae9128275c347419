"""Decoding: from a trained model to a sentence, one token at a time.

Greedy decoding stands here; beam search, in `lib.beam`, and sampling, in `lib.sampling`, can be
imported from here too.

Every decoder here works on any model with
`start(source, source_lengths) -> state` and `step(token, state) -> (logits, weights, state)`.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from lib.beam import beam_search
from lib.data import BOS, EOS, PAD, Pair, Vocabulary, make_batch
from lib.sampling import sample

__all__ = ["beam_search", "greedy", "sample", "store_by_columns", "translate"]

BATCH_SIZE = 250  # sentences that `translate` decodes together


@torch.no_grad()
def greedy(
    model: nn.Module,
    source: Int[Tensor, "batch source_time"],
    source_lengths: Int[Tensor, " batch"],
    max_length: int,
) -> tuple[Int[Tensor, "batch time"], Float[Tensor, "batch time source_time"] | None]:
    """Take the likeliest token at each step and feed it back, until every sentence has ended.

    y_t = argmax p(y | y_1 .. y_{t-1}, source)

    Returns: the tokens, EOS included and PAD after it, at most `max_length` of them; and each
    step's weights over the source, or None from a model without attention.
    Errors: ValueError for max_length below 1.
    Source: Sutskever et al. 2014, section 3.2, with a beam of one.
    Chapter: 1 (Sequence to sequence), 12 (Decoding).
    """
    if max_length < 1:
        raise ValueError(f"expected max_length of at least 1, got {max_length}")
    was_training = model.training
    model.eval()
    state = model.start(source, source_lengths)
    token = source.new_full((len(source),), BOS)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens, maps = [], []
    for _ in range(max_length):
        logits, weights, state = model.step(token, state)
        token = logits.argmax(dim=-1).masked_fill(ended, PAD)
        tokens.append(token)
        maps.append(weights)
        ended |= token == EOS
        if ended.all():
            break
    model.train(was_training)
    has_weights = maps[0] is not None
    return torch.stack(tokens, dim=1), torch.stack(maps, dim=1) if has_weights else None


def store_by_columns(model: nn.Module) -> nn.Module:
    """Store the matrix of every nn.Linear in the order in which x W adds its rows up; same numbers.

    nn.Linear keeps W transposed and row by row, so that for one vector x each output is a dot
    product with a row of its own. In the other order one entry of x after another scales a row of W
    and adds it to all outputs at once, which many processors do faster. A batch does not care.

    Returns: the model, changed in place: its parameters are the same objects, with other strides.
    Source: ours. Chapter: 13 (Complexity).
    """
    for layer in model.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = layer.weight.data.t().contiguous().t()
    return model


def translate(
    model: nn.Module,
    pairs: Sequence[Pair],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    *,
    max_length: int = 60,
    beam: int | None = None,
    alpha: float = 0.6,
) -> list[list[str]]:
    """Translate the sources of some pairs, on the model's device; targets are not read.

    Greedily, or with `beam_search` if a beam is given.
    Returns: the words of each translation, in the order of the pairs.
    Errors: ValueError for max_length or beam below 1, or alpha below 0.
    Source: ours. Chapter: 1 (Sequence to sequence), 12 (Decoding).
    """
    device = next(model.parameters()).device
    sentences = []
    for i in range(0, len(pairs), BATCH_SIZE):
        batch = make_batch(pairs[i : i + BATCH_SIZE], source_vocab, target_vocab).to(device)
        inputs = (model, batch.source, batch.source_lengths, max_length)
        if beam is None:
            tokens, _ = greedy(*inputs)
        else:
            tokens, _ = beam_search(*inputs, beam=beam, alpha=alpha)
        sentences += [target_vocab.decode(row) for row in tokens.tolist()]
    return sentences

"""The symptoms of a trained model before any property is asked: loss, a translation, a map."""

from collections.abc import Sequence
from typing import TypedDict

import torch
from jaxtyping import Float
from torch import Tensor

from chapters.mistakes.specimen import Specimen
from lib.data import Pair, Vocabulary, make_batch
from lib.decoding import translate
from lib.training import validation_loss

WINDOW = 10  # steps of training that one point of the curve stands for


class Symptoms(TypedDict):
    """A model's curve, its loss, a sentence with its translation, and where the model looked."""

    losses: list[float]
    validation: float
    source: list[str]
    wanted: list[str]
    said: list[str]
    map: list[list[float]]  # wanted x source


@torch.no_grad()
def cross_map(
    model: Specimen, pair: Pair, source_vocab: Vocabulary, target_vocab: Vocabulary
) -> Float[Tensor, "target_time source_time"]:
    """The weights of the last cross-attention, a mean over its heads, under teacher forcing."""
    batch = make_batch([pair], source_vocab, target_vocab)
    layer = model.decoder["layers"][-1]["cross_attention"].sublayer
    seen: list[tuple[tuple, dict]] = []
    hook = layer.register_forward_hook(
        lambda module, args, kwargs, output: seen.append((args, kwargs)), with_kwargs=True
    )
    try:
        model(batch.source, batch.source_lengths, batch.target_in)
    finally:
        hook.remove()
    args, kwargs = seen[0]
    weights = layer.attention_weights(*args, **kwargs)
    return weights[0].mean(0)


def symptoms(
    model: Specimen,
    losses: Sequence[float],
    held_out: Sequence[Pair],
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
) -> Symptoms:
    """What `chapters.mistakes.bug_hunt` shows of a model: its curve, its validation loss, the first
    held-out sentence, and where it looked.
    """
    pair = held_out[0]
    said = translate(model, [pair], source_vocab, target_vocab, max_length=12)[0]
    points = [losses[i : i + WINDOW] for i in range(0, len(losses) - WINDOW + 1, WINDOW)]
    return {
        "losses": [sum(part) / WINDOW for part in points],
        "validation": validation_loss(model, [make_batch(held_out, source_vocab, target_vocab)]),
        "source": [*pair.source, "<eos>"],
        "wanted": [*pair.target, "<eos>"],
        "said": said,
        "map": cross_map(model, pair, source_vocab, target_vocab).tolist(),
    }

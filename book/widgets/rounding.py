"""A reader's own model as a page gets it: its parameters in 8 bits, or unrounded in 32.

A matrix in 8 bits has a scale for each row, the largest number of the row divided by 127. Each
number of the row is stored as the nearest whole multiple of it. What has one axis only, as biases
and gains have, stays as it is: there is little of it.

`js/parameters.js` reads what is packed here, and gets the same numbers to the last bit.
"""

import copy
from typing import Any

import torch
from torch import Tensor

from lib.data import SPECIAL, Vocabulary
from lib.transformer import Transformer
from train.bits import in_eight_bits
from train.subword import SubwordVocabulary, labels
from widgets.packing import SIZES, PackedModel, expect_computable

BITS = (8, 32)


def pack_rounded(
    model: Transformer, source_vocab: Vocabulary, target_vocab: Vocabulary, bits: int, lower: bool
) -> PackedModel:
    """Pack a model and its vocabularies, of words or of sub-words.

    First come all numbers in 32 bits, in the order of the header's tensors: the scales of a matrix
    where it has 8 bits, else the parameters. Then all in 8 bits follow, in the same order. A matrix
    that is used under two names is stored once.

    Args: bits, 8 or 32; lower, whether the model reads lower case.
    Errors: ValueError for a model that `js/transformer.js` cannot compute.
    """
    expect_computable(vars(model.config))
    names = _names(model)
    tensors = {name: model.get_parameter(name).detach().cpu() for name in sorted(names)}
    wide, narrow = [], []
    for tensor in tensors.values():
        if _is_rounded(tensor, bits):
            numbers, scales = in_eight_bits(tensor)
            wide.append(scales.numpy().tobytes())
            narrow.append(numbers.numpy().tobytes())
        else:
            wide.append(tensor.float().contiguous().numpy().tobytes())
    data = b"".join(wide + narrow)
    header: dict[str, Any] = {
        "bits": bits,
        "lower": lower,
        "config": {name: getattr(model.config, name) for name in SIZES},
        "tensors": [[name, list(tensor.shape)] for name, tensor in tensors.items()],
        "same": [[other, name] for name, others in names.items() for other in others],
    }
    for side, vocab in (("source", source_vocab), ("target", target_vocab)):
        header[f"{side}_words"] = list(labels(vocab)[len(SPECIAL) :])
        if isinstance(vocab, SubwordVocabulary) and side == "source":
            header["pieces"] = list(vocab.tokens[len(SPECIAL) :])
            header["merges"] = vocab.merges
    # Written as text, numbers stand in groups of four bytes.
    return PackedModel(header, data + bytes(-len(data) % 4))


def size_of(model: Transformer, bits: int) -> int:
    """Bytes that the parameters have when they are packed."""
    total = 0
    for name in _names(model):
        tensor = model.get_parameter(name)
        rounded = _is_rounded(tensor, bits)
        total += tensor.numel() + 4 * len(tensor) if rounded else 4 * tensor.numel()
    return total


def rounded(model: Transformer, bits: int) -> Transformer:
    """A copy of the model with the parameters that the page has."""
    made = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in made.parameters():
            if _is_rounded(parameter, bits):
                numbers, scales = in_eight_bits(parameter)
                parameter.copy_(numbers.float() * scales[:, None])
    return made


def _is_rounded(tensor: Tensor, bits: int) -> bool:
    return bits == 8 and tensor.dim() == 2


def _names(model: Transformer) -> dict[str, list[str]]:
    """Each parameter's first name, and the other names that it has."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return {first: others for first, *others in names.values()}

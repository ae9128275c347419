"""A trained Transformer as a page or a notebook's front end gets it: half precision, and in order.

`js/transformer.js` computes with it. The build makes a file of the published model for the
pages that ask for it; a kernel sends the same bytes. Only Python's own library is used here, since
building needs neither torch nor numpy.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

CAN = {  # what `js/transformer.js` can compute, of what `lib.transformer` allows
    "norm": ("pre", "post"),
    "positions": ("none", "sinusoidal", "rotary"),
    "activation": ("relu",),
}
SPECIAL = 4  # tokens that every vocabulary begins with, and that no header lists
SIZES = ("d_model", "n_heads", "d_ff", "n_layers", "norm", "positions", "activation")


BLOCK = 2**20  # bytes that are written as text at once


class PackedModel(NamedTuple):
    """A model's header (plain JSON), and its weights as float16, little endian, in order.

    Where the header names other `bits`, the weights are those of `widgets.rounding`.
    """

    header: dict[str, Any]
    data: bytes

    @property
    def id(self) -> str:
        """A name made from what is inside: equal for equal models, on every machine."""
        text = json.dumps(self.header, ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode() + self.data).hexdigest()[:12]

    def script(self) -> str:
        """A classic script that leaves the model in the page: what a page from a file loads too."""
        text = json.dumps(self.header, ensure_ascii=False, separators=(",", ":"))
        data = (
            _as_text(self.data) if "bits" in self.header else base64.b64encode(self.data).decode()
        )
        return (
            f"(window.bookModels ??= {{}})[{json.dumps(self.id)}] = "
            f'{{ header: {text}, data: "{data}" }};\n'
        )


def _as_text(data: bytes) -> str:
    """Base 85: a quarter longer than the numbers, where base 64 is longer by a third."""
    blocks = (data[at : at + BLOCK] for at in range(0, len(data), BLOCK))
    return "".join(base64.b85encode(block).decode() for block in blocks)


def expect_computable(config: Mapping[str, Any]) -> None:
    """Errors: ValueError for a model that `js/transformer.js` cannot compute."""
    for name, known in CAN.items():
        if config[name] not in known:
            raise ValueError(f"expected {name} out of {', '.join(known)}, got {config[name]!r}")


def pack(
    config: Mapping[str, Any],
    words: tuple[Sequence[str], Sequence[str]],
    tensors: Mapping[str, tuple[Sequence[int], bytes]],
) -> PackedModel:
    """Pack a model; tensors gives for each name the shape and the numbers as float16.

    Args: words, those of the source and of the target, without the special tokens.
    Errors: ValueError for a model that `js/transformer.js` cannot compute.
    """
    expect_computable(config)
    order = sorted(tensors)
    header = {
        "config": {name: config[name] for name in SIZES},
        "source_words": list(words[0]),
        "target_words": list(words[1]),
        "tensors": [[name, list(tensors[name][0])] for name in order],
    }
    return PackedModel(header, b"".join(tensors[name][1] for name in order))


def pack_model(model: Any, source_vocab: Any, target_vocab: Any) -> PackedModel:
    """Pack a `lib.transformer.Transformer` and its vocabularies.

    Errors: ValueError for a model that `js/transformer.js` cannot compute, or weights that
        float16 cannot hold.
    """
    tensors = {}
    for name, tensor in model.state_dict().items():
        half = tensor.detach().cpu().half()
        if not half.isfinite().all():
            raise ValueError(f"expected weights up to 65,504 in size, got larger ones in {name}")
        tensors[name] = list(half.shape), half.contiguous().numpy().tobytes()
    words = tuple(vocab.tokens[SPECIAL:] for vocab in (source_vocab, target_vocab))
    return pack(vars(model.config), words, tensors)


def halves(data: bytes) -> bytes:
    """Float32 numbers as float16, each rounded to the nearest, ties to even, as torch does it.

    Errors: OverflowError for a number above 65,504 in size.
    Source: IEEE 754.
    """
    count = len(data) // 4
    return struct.pack(f"<{count}e", *struct.unpack(f"<{count}f", data))


def pack_file(path: Path) -> PackedModel:
    """Pack the model in a file that `train.checkpoints.save_model` wrote.

    Errors: ValueError for weights that are not float32; OSError for a missing file.
    Source: the safetensors format: the header's length, the header as JSON, then the numbers.
    """
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:start])
    card = json.loads(entries.pop("__metadata__")["card"])
    words = tuple(json.loads(card[side])["words"] for side in ("source_vocab", "target_vocab"))
    tensors = {}
    for name, entry in entries.items():
        if entry["dtype"] != "F32":
            raise ValueError(f"expected float32 weights in {path.name}, got {entry['dtype']}")
        begin, end = (start + offset for offset in entry["data_offsets"])
        tensors[name] = entry["shape"], halves(data[begin:end])
    return pack(card["config"], words, tensors)

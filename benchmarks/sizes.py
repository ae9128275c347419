"""The sizes of the models that `make bench` compares, and of the batches they are measured with."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """A Transformer and its batch."""

    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int
    vocab: int
    batch: int
    time: int
    shortest: int  # lengths are even between this and `time`
    dropout: float = 0.1


@dataclass(frozen=True)
class RecurrentSize:
    """A GRU with additive attention and its batch."""

    d_embed: int
    d_hidden: int
    vocab: int
    batch: int
    time: int
    shortest: int


SIZES = {
    "small": Size(128, 4, 2, 512, 200, 64, 24, 24),
    "medium": Size(256, 8, 3, 1024, 8000, 64, 20, 10),
}
DECODED = SIZES | {"base": Size(512, 8, 6, 2048, 8000, 64, 20, 10)}  # the paper's base size
RECURRENT_SIZES = (
    RecurrentSize(64, 128, 200, 64, 14, 1),
    RecurrentSize(256, 256, 200, 64, 20, 1),
)
LONGEST = 300  # positions that the peers with a table of positions have

"""The sizes and choices that make a Transformer, checked before anything is built."""

from dataclasses import dataclass

from lib.layers import ACTIVATIONS, PLACEMENTS
from lib.positions import SCHEMES


@dataclass(frozen=True)
class Config:
    """What a Transformer is made of; the defaults are the paper's base model.

    source_vocab  entries of the source's vocabulary
    target_vocab  those of the target's; None means one vocabulary for both
    d_model, n_heads, d_ff   the paper's names; d_k = d_v = d_model / n_heads
    n_layers      layers in the encoder, and as many in the decoder
    dropout       on the output of each sub-layer and on embeddings + positions
    norm          "post" as in the paper, or "pre": see `Residual`
    positions     "none", "sinusoidal", "learned", "rotary" or "alibi": see `lib.positions`
    activation    of the feed-forward networks: "relu", "gelu", "gelu_tanh" or "swiglu"
    tied          use a target embedding as output projection too, and with one vocabulary
                  as source embedding; False gives each its own matrix
    max_length    the most positions that "learned" has; the others have no limit

    Errors: ValueError that names the field, what was expected and what came.
    Source: Attention Is All You Need, table 3. Chapter: 10 (The Transformer).
    """

    source_vocab: int
    target_vocab: int | None = None
    d_model: int = 512
    n_heads: int = 8
    d_ff: int = 2048
    n_layers: int = 6
    dropout: float = 0.1
    norm: str = "post"
    positions: str = "sinusoidal"
    activation: str = "relu"
    tied: bool = True
    max_length: int = 512

    def __post_init__(self) -> None:
        sizes = ("source_vocab", "d_model", "n_heads", "d_ff", "n_layers", "max_length")
        for name in sizes if self.target_vocab is None else (*sizes, "target_vocab"):
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise ValueError(f"expected {name} to be a whole number above 0, got {size!r}")
        choices = (("norm", PLACEMENTS), ("positions", SCHEMES), ("activation", ACTIVATIONS))
        for name, allowed in choices:
            choice = getattr(self, name)
            if choice not in allowed:
                raise ValueError(f"expected {name} out of {', '.join(allowed)}, got {choice!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(
                f"expected a dropout of at least 0 and below 1, got {self.dropout!r}; "
                "it is the share of entries set to 0"
            )
        if self.d_model % self.n_heads:
            raise ValueError(
                "expected d_model to be a multiple of n_heads, got "
                f"d_model={self.d_model} and n_heads={self.n_heads}; change one of them"
            )
        if self.positions == "rotary" and self.d_k % 2:
            raise ValueError(
                f"expected an even d_k = d_model / n_heads for rotary positions, got {self.d_k}; "
                "change d_model or n_heads, or choose another scheme"
            )

    @property
    def d_k(self) -> int:
        """Width of one head's queries, keys and values. Chapter: 10 (The Transformer)."""
        return self.d_model // self.n_heads

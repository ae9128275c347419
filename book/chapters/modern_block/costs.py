"""What a decoder costs, from its `BlockConfig` alone: parameters, key-value cache, FLOPs per token.

`PUBLISHED` has the sizes of six models, with their source. Nothing here builds a model, so the
largest of them costs no memory; the tests hold every formula against real models of small sizes.
"""

from typing import NamedTuple

from chapters.modern_block.decoder import BlockConfig, paper_2017, today


class Parameters(NamedTuple):
    """Parameters of a decoder, by what they belong to.

    attention     the four projections, in all layers
    feed_forward  the feed-forward networks, in all layers
    router        the matrices that choose experts
    norms         two in each layer, and the last one
    projection    the output projection; 0 where it is the embedding's matrix
    """

    embedding: int
    positions: int
    attention: int
    feed_forward: int
    router: int
    norms: int
    projection: int

    @property
    def total(self) -> int:
        return sum(self)


class Flops(NamedTuple):
    """FLOPs of one token, by matrix multiplication; one of (m, k) by (k, n) counts 2mnk.

    projections   of attention: to queries, keys, values and output, in all layers
    attention     the scores and the weighted sum of the values
    feed_forward  the feed-forward network, or the n_active experts
    router        the scores of the experts
    logits        the output projection
    """

    projections: int
    attention: int
    feed_forward: int
    router: int
    logits: int

    @property
    def total(self) -> int:
        return sum(self)


class Published(NamedTuple):
    """The sizes of a published model, the parameters it has, and where both are said.

    config.max_length is the context that the model was trained for.
    """

    config: BlockConfig
    parameters: int
    source: str


def parameters_of(config: BlockConfig, *, active: bool = False) -> Parameters:
    """Return the parameters of `ModernDecoder(config)`, by part.

    Args: active, count n_active experts instead of all: what a single token passes. The embedding
        counts whole, as in published figures.
    Source: Attention Is All You Need, section 3; Jiang et al. 2024, section 2.1 (active).
    """
    d, layers = config.d_model, config.n_layers
    gate = 1 if config.activation == "swiglu" else 0  # W_3, of the shape of W_1
    matrices = (2 + gate) * d * config.d_ff
    biases = (1 + gate) * config.d_ff + d if config.bias else 0
    networks = config.n_experts or 1
    if active and config.n_experts is not None:
        networks = config.n_active
    norm = 2 * d if config.norm == "layer" else d
    return Parameters(
        embedding=config.vocab * d,
        positions=config.max_length * d if config.positions == "learned" else 0,
        attention=layers * (_projections(config) + _projection_biases(config)),
        feed_forward=layers * networks * (matrices + biases),
        router=layers * d * (config.n_experts or 0),
        norms=(2 * layers + 1) * norm,
        projection=0 if config.tied else config.vocab * d,
    )


def cache_bytes(config: BlockConfig, context: int, *, bytes_per_number: int = 2) -> int:
    """Return the size of the keys and values that the last of `context` tokens attends to.

    Those of its own position are among them. Without a window that is all the cache holds; with
    one, it is at most `window` positions, of which the cache forgets one after the step. With a
    context of 1 it is the size for each token.

    Args: bytes_per_number, 2 for float16 and bfloat16, 4 for float32.
    Errors: ValueError for a context or a size of a number below 1.
    Source: Shazeer 2019; Ainslie et al. 2023; Jiang et al. 2023, section 2.
    """
    _require_whole(context=context, bytes_per_number=bytes_per_number)
    numbers = 2 * config.n_layers * config.kv_heads * config.head_dim  # of one position
    return numbers * _keys(config, context) * bytes_per_number


def flops_of(config: BlockConfig, context: int) -> Flops:
    """Return the FLOPs of the last of `context` tokens: a step of decoding, with a cache.

    Without a window, a forward pass over `context` tokens at once costs `context` times that: the
    masked half of the scores is computed too. Norms, activations and softmax are not counted.

    Errors: ValueError for a context below 1.
    Source: Kaplan et al. 2020, section 2.1; torch.utils.flop_counter counts the same.
    """
    _require_whole(context=context)
    d, layers = config.d_model, config.n_layers
    matrices = 3 if config.activation == "swiglu" else 2
    networks = 1 if config.n_experts is None else config.n_active
    keys = _keys(config, context)
    return Flops(
        projections=2 * layers * _projections(config),
        attention=2 * layers * 2 * keys * config.n_heads * config.head_dim,
        feed_forward=2 * layers * networks * matrices * d * config.d_ff,
        router=2 * layers * d * (config.n_experts or 0),
        logits=2 * config.vocab * d,
    )


def _projections(config: BlockConfig) -> int:
    """Entries of the four matrices of one attention layer."""
    return 2 * config.d_model * config.head_dim * (config.n_heads + config.kv_heads)


def _projection_biases(config: BlockConfig) -> int:
    side_by_side = config.head_dim * (config.n_heads + 2 * config.kv_heads)
    return side_by_side + config.d_model if config.bias else 0


def _keys(config: BlockConfig, context: int) -> int:
    """Positions that the last of `context` tokens attends to."""
    return context if config.window is None else min(context, config.window)


def _require_whole(**sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"expected {name} to be a whole number above 0, got {size!r}")


PUBLISHED = {
    # GPT-2's GELU is the tanh approximation, and its embedding is not scaled.
    "GPT-2 small": Published(
        paper_2017(
            50_257,
            d_model=768,
            n_layers=12,
            n_heads=12,
            d_ff=3072,
            activation="gelu",
            positions="learned",
            scaled_embedding=False,
            max_length=1024,
        ),
        124_439_808,
        "Radford et al. 2019, section 2.3 and table 2 (there as 117M); its published config",
    ),
    "LLaMA 7B": Published(
        today(
            32_000,
            d_model=4096,
            n_layers=32,
            n_heads=32,
            d_ff=11_008,
            norm_eps=1e-6,
            max_length=2048,
        ),
        6_738_415_616,
        "Touvron et al. 2023 (LLaMA), section 2.2 and table 2; its published config",
    ),
    "Llama 2 70B": Published(
        today(
            32_000,
            d_model=8192,
            n_layers=80,
            n_heads=64,
            n_kv_heads=8,
            d_ff=28_672,
            max_length=4096,
        ),
        68_976_648_192,
        "Touvron et al. 2023 (Llama 2), section 2.2 and table 1; its published config",
    ),
    "Llama 3 8B": Published(
        today(
            128_256,
            d_model=4096,
            n_layers=32,
            n_heads=32,
            n_kv_heads=8,
            d_ff=14_336,
            rope_base=500_000.0,
            max_length=8192,
        ),
        8_030_261_248,
        "Grattafiori et al. 2024, section 3.2 and table 3; its published config",
    ),
    "Mistral 7B": Published(
        today(
            32_000,
            d_model=4096,
            n_layers=32,
            n_heads=32,
            n_kv_heads=8,
            d_ff=14_336,
            window=4096,
            max_length=8192,
        ),
        7_241_732_096,
        "Jiang et al. 2023, section 2 and table 1",
    ),
    "Mixtral 8x7B": Published(
        today(
            32_000,
            d_model=4096,
            n_layers=32,
            n_heads=32,
            n_kv_heads=8,
            d_ff=14_336,
            n_experts=8,
            n_active=2,
            rope_base=1_000_000.0,
            max_length=32_768,
        ),
        46_702_792_704,
        "Jiang et al. 2024, section 2 and table 1; its published config",
    ),
}

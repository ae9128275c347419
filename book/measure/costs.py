"""What things cost, as formulas: layers, decoders, and what ranks say to each other.

Table 1 of the paper: each layer maps n vectors of dimension d to n vectors of dimension d, one
sequence, and lets positions exchange information. A decoder is described by its sizes and choices
alone (`Decoder`), so the largest costs no memory. Ranks are in a ring, the bandwidth-optimal way to
sum a vector: it is split into n chunks, each rank sends one chunk to its neighbour in every round,
and after 2 (n - 1) rounds every rank has the whole sum.

FLOPs count what torch's counter counts: a multiplication and an addition are two, matrix
multiplications only; softmax, tanh and other elementwise work are left out. Nothing here runs a
layer or communicates: `measure.observed` counts and times what is held against these formulas.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol, runtime_checkable

Number = int | float
Kind = Literal["all_reduce", "all_gather", "reduce_scatter"]
PASSES: dict[Kind, int] = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}
During = Literal["forward", "backward", ""]
FORWARD, BACKWARD = 2, 4  # FLOPs of a parameter and token in each pass of training
KEPT = 16  # numbers of d_model that a layer keeps of a token for its backward pass


# --- one layer ------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """What one layer needs for one sequence, and the longest path between two of its positions.

    flops        floating-point operations in matrix multiplications
    parameters   learned numbers, biases left out
    memory       numbers that the layer makes on the way to its output, and keeps for the gradient
    sequential   operations that must wait for one another
    path         steps that a signal takes between the two positions that are farthest apart

    Source: Attention Is All You Need, table 1.
    """

    flops: int
    parameters: int
    memory: int
    sequential: int
    path: int


def self_attention_cost(n: int, d: int, *, n_heads: int = 1, projections: bool = False) -> Cost:
    """O(n^2 d): every position is compared with every other, in one step.

    flops = 2 n^2 d (scores) + 2 n^2 d (weighted sum); with the projections to queries, keys,
    values and output, 4 * 2 n d^2 more, which the paper's table leaves out. memory: one n x n
    attention map for each head.
    Errors: ValueError for a size below 1, or n_heads that do not divide d.
    Source: Attention Is All You Need, table 1.
    """
    _require_whole(n=n, d=d, n_heads=n_heads)
    if d % n_heads:
        raise ValueError(f"expected n_heads to divide d, got n_heads={n_heads} and d={d}")
    flops, parameters, memory = 4 * n**2 * d, 0, n_heads * n**2
    if projections:
        flops, parameters, memory = flops + 8 * n * d**2, 4 * d**2, memory + 4 * n * d
    return Cost(flops, parameters, memory, sequential=1, path=1 if n > 1 else 0)


def recurrent_cost(n: int, d: int) -> Cost:
    """O(n d^2): h_t = tanh(W x_t + U h_{t-1}), sequentially.

    A layer with gates has more pairs W and U: three in a GRU, four in an LSTM.

    flops = 2 n d^2 (W, all positions at once) + 2 (n - 1) d^2 (U, one by one; h_0 is 0).
    Errors: ValueError for a size below 1.
    Source: Attention Is All You Need, table 1.
    """
    _require_whole(n=n, d=d)
    flops = 2 * n * d**2 + 2 * (n - 1) * d**2
    return Cost(flops, 2 * d**2, n * d, sequential=n, path=n - 1)


def convolution_cost(n: int, d: int, k: int, *, dilated: bool = False) -> Cost:
    """O(k n d^2): each position reads k positions, itself and those before it.

    path: layers until the last position has read the first. A layer reaches k - 1 positions back;
    in a stack whose steps grow by k from layer to layer, L layers reach k^L - 1.
    Errors: ValueError for a size below 1, or k below 2, which lets nothing pass between positions.
    Source: Attention Is All You Need, table 1 and section 4.
    """
    _require_whole(n=n, d=d)
    if k < 2:
        raise ValueError(f"expected a kernel of at least 2 positions, got k={k}")
    path, reached = 0, 0
    while reached < n - 1:
        reached = k ** (path + 1) - 1 if dilated else reached + k - 1
        path += 1
    return Cost(2 * k * n * d**2, k * d**2, n * d, sequential=1, path=path)


def restricted_cost(n: int, d: int, radius: int, *, projections: bool = False) -> Cost:
    """O(r n d): attention to a neighbourhood of r = 2 radius + 1 positions.

    flops and memory count the pairs of positions in the window, so they are exact at the ends too;
    `chapters.complexity.layers` computes a little more, because it works in blocks. The projections
    cost what they cost in full attention.
    Errors: ValueError for a size below 1.
    Source: Attention Is All You Need, table 1 and section 4.
    """
    _require_whole(n=n, d=d, radius=radius)
    reach = min(radius, n - 1)
    pairs = n * (2 * reach + 1) - reach * (reach + 1)
    flops, parameters, memory = 4 * pairs * d, 0, pairs
    if projections:
        flops, parameters, memory = flops + 8 * n * d**2, 4 * d**2, memory + 4 * n * d
    return Cost(flops, parameters, memory, sequential=1, path=math.ceil((n - 1) / radius))


# --- a decoder ------------------------------------------------------------------------------------


@runtime_checkable
class Decoder(Protocol):
    """The sizes and choices of a decoder, by the names of the papers.

    kv_heads, d_k   heads of keys and values, and the dimension of one head
    norm            "pre" has one more behind the last layer than "post"
    norm_layer      "layer" has two vectors, others one
    activation      "swiglu" has a third matrix
    qkv_bias        whether queries, keys and values have biases where bias is False
    qk_norm         whether queries and keys have a norm, of one vector each
    windows         of each layer, positions that a query attends to, itself included; None: all
    n_experts       feed-forward networks of a layer, of which a token passes n_active; None means
                    one network and no router
    """

    @property
    def vocab(self) -> int: ...
    @property
    def d_model(self) -> int: ...
    @property
    def n_layers(self) -> int: ...
    @property
    def n_heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def d_k(self) -> int: ...
    @property
    def d_ff(self) -> int: ...
    @property
    def norm(self) -> str: ...
    @property
    def norm_layer(self) -> str: ...
    @property
    def activation(self) -> str: ...
    @property
    def positions(self) -> str: ...
    @property
    def bias(self) -> bool: ...
    @property
    def qkv_bias(self) -> bool: ...
    @property
    def qk_norm(self) -> bool: ...
    @property
    def windows(self) -> Sequence[int | None]: ...
    @property
    def n_experts(self) -> int | None: ...
    @property
    def n_active(self) -> int: ...
    @property
    def tied(self) -> bool: ...
    @property
    def max_length(self) -> int: ...


class Parameters(NamedTuple):
    """Parameters of a decoder, by what they belong to.

    attention     the four projections and the norms of queries and keys, in all layers
    feed_forward  the feed-forward networks, in all layers
    router        the matrices that choose experts
    norms         two in each layer, and with pre-norm the last one
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


def parameters_of(config: Decoder, *, active: bool = False) -> Parameters:
    """Return the parameters of a decoder, by part.

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
    norm = 2 * d if config.norm_layer == "layer" else d
    norms = 2 * layers + (config.norm == "pre")
    of_heads = 2 * config.d_k if config.qk_norm else 0
    return Parameters(
        embedding=config.vocab * d,
        positions=config.max_length * d if config.positions == "learned" else 0,
        attention=layers * (_projections(config) + _projection_biases(config) + of_heads),
        feed_forward=layers * networks * (matrices + biases),
        router=layers * d * (config.n_experts or 0),
        norms=norms * norm,
        projection=0 if config.tied else config.vocab * d,
    )


def cache_bytes(config: Decoder, context: int, *, bytes_per_number: int = 2) -> int:
    """Return the size of the keys and values that the last of `context` tokens attends to.

    Those of its own position are among them. Without a window that is all the cache holds; with
    one, it is at most `window` positions, of which the cache forgets one after the step. With a
    context of 1 it is the size for each token.

    Args: bytes_per_number, 2 for float16 and bfloat16, 4 for float32.
    Errors: ValueError for a context or a size of a number below 1.
    Source: Shazeer 2019; Ainslie et al. 2023; Jiang et al. 2023, section 2.
    """
    _require_whole(context=context, bytes_per_number=bytes_per_number)
    numbers = 2 * config.kv_heads * config.d_k  # of one position in one layer
    return numbers * _keys(config, context) * bytes_per_number


def flops_of(config: Decoder, context: int) -> Flops:
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
        attention=2 * 2 * keys * config.n_heads * config.d_k,
        feed_forward=2 * layers * networks * matrices * d * config.d_ff,
        router=2 * layers * d * (config.n_experts or 0),
        logits=2 * config.vocab * d,
    )


def _projections(config: Decoder) -> int:
    """Entries of the four matrices of one attention layer."""
    return 2 * config.d_model * config.d_k * (config.n_heads + config.kv_heads)


def _projection_biases(config: Decoder) -> int:
    side_by_side = config.d_k * (config.n_heads + 2 * config.kv_heads)
    if config.bias:
        return side_by_side + config.d_model
    return side_by_side if config.qkv_bias else 0


def _keys(config: Decoder, context: int) -> int:
    """Positions that the last of `context` tokens attends to, summed over the layers."""
    return sum(context if window is None else min(context, window) for window in config.windows)


# --- ranks in a ring ------------------------------------------------------------------------------


class Link(NamedTuple):
    """The connection of a rank with the next one in the ring; of several links, the slowest.

    latency    seconds that a message takes however short it is
    bandwidth  bytes a second, in one direction
    """

    latency: Number
    bandwidth: Number


class Collective(NamedTuple):
    """One operation of all ranks on a vector, made `times` times in a training step.

    nbytes  bytes of the whole vector: what each rank has before an all-reduce or a reduce-scatter,
            and what each has after an all-gather
    during  the pass whose computing can hide it; "" for one that computing waits for
    """

    purpose: str
    kind: Kind
    nbytes: Number
    times: int = 1
    during: During = ""


class Step(NamedTuple):
    """The seconds of a training step on n ranks.

    compute        what one rank computes
    communication  what the links are busy
    exposed        the communication that no computation hides
    total          compute + exposed
    efficiency     compute / total: the fraction of the step in which a rank computes
    """

    n: int
    compute: float
    communication: float
    exposed: float
    total: float
    efficiency: float


def bytes_sent(kind: Kind, nbytes: Number, n: int) -> float:
    """Bytes that each rank sends, and as many it receives: (n - 1)/n of the vector in each pass.

    An all-reduce makes two passes, a reduce-scatter and then an all-gather. So no rank sends more
    than twice the vector, however many ranks there are.
    Args: nbytes, of the whole vector.
    Errors: ValueError for an unknown kind, less than one rank, or negative bytes.
    Source: Patarasuk and Yuan 2009, who prove that no algorithm sends less.
    """
    passes = _passes(kind, n)
    if nbytes < 0:
        raise ValueError(f"expected nbytes of 0 or more, got {nbytes}")
    return passes * (n - 1) / n * nbytes


def messages_sent(kind: Kind, n: int) -> int:
    """Messages that each rank sends, each after the one before: n - 1 in each pass.

    Errors: ValueError for an unknown kind or less than one rank.
    """
    return _passes(kind, n) * (n - 1)


def ring_time(kind: Kind, nbytes: Number, n: int, link: Link) -> float:
    """Seconds of one operation: bytes_sent / bandwidth + messages_sent * latency.

    For an all-reduce 2 (n - 1)/n nbytes/bandwidth + 2 (n - 1) latency. The additions are not
    counted.
    Errors: ValueError for an unknown kind, less than one rank, or a link that cannot be.
    Source: the ring and its cost are Patarasuk and Yuan 2009 and Thakur et al. 2005, section 2.
    """
    if link.latency < 0 or link.bandwidth <= 0:
        raise ValueError(f"expected latency >= 0 and bandwidth > 0, got {link}")
    return bytes_sent(kind, nbytes, n) / link.bandwidth + messages_sent(kind, n) * link.latency


def data_parallel(parameters: int, *, bytes_each: Number = 4) -> list[Collective]:
    """A step of data parallelism: the gradients of all parameters are summed over the ranks.

    DistributedDataParallel does so in buckets, which it begins to send during the backward pass;
    the bytes are the same.
    Errors: ValueError for a count that is not positive.
    """
    _require_positive(parameters=parameters, bytes_each=bytes_each)
    return [Collective("gradients", "all_reduce", parameters * bytes_each, during="backward")]


def sharded(
    parameters: int, *, stage: int = 3, bytes_each: Number = 4, keep_after_forward: bool = False
) -> list[Collective]:
    """A step in which each rank updates its own part of the parameters: ZeRO 1, 2 or 3.

    In stages 1 and 2 each rank gets the summed gradients of its part, and gives its updated
    parameters to all, during the next forward pass at the earliest: the bytes of data parallelism.
    In stage 3 (fully sharded) parameters are gathered as they are needed: once for the forward
    pass and, because in between each rank forgets what is not its own, once more for the backward
    pass. That is 1.5 times what data parallelism sends; with `keep_after_forward` it is as much.
    Errors: ValueError for a count that is not positive, or another stage.
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.
    """
    _require_positive(parameters=parameters, bytes_each=bytes_each)
    if stage not in (1, 2, 3):
        raise ValueError(f"expected stage 1, 2 or 3 of ZeRO, got {stage}")
    nbytes = parameters * bytes_each
    step = [Collective("parameters", "all_gather", nbytes, during="forward")]
    if stage == 3 and not keep_after_forward:
        step.append(Collective("parameters again", "all_gather", nbytes, during="backward"))
    return [*step, Collective("gradients", "reduce_scatter", nbytes, during="backward")]


def tensor_parallel(
    batch: int, time: int, d_model: int, n_layers: int, *, splits: int = 2, bytes_each: Number = 4
) -> list[Collective]:
    """A step of tensor parallelism: sublayers exchange activations, never parameters.

    Each sublayer that is split sums its output over the ranks in the forward pass, and the gradient
    of its input in the backward pass; each is (batch, time, d_model).
    Args: splits, the sublayers of a layer that are split: attention and feed-forward network.
    Errors: ValueError for a size that is not positive.
    Source: Shoeybi et al. 2019, section 3.
    """
    _require_positive(
        batch=batch, time=time, d_model=d_model, n_layers=n_layers, splits=splits, each=bytes_each
    )
    nbytes = batch * time * d_model * bytes_each
    return [
        Collective("outputs", "all_reduce", nbytes, times=splits * n_layers),
        Collective("gradients of inputs", "all_reduce", nbytes, times=splits * n_layers),
    ]


def bytes_of_step(step: Iterable[Collective], n: int) -> float:
    """Bytes that each of n ranks sends in a step."""
    return sum((one.times * bytes_sent(one.kind, one.nbytes, n) for one in step), 0.0)


def communication_time(step: Iterable[Collective], n: int, link: Link) -> float:
    """Seconds that the operations of a step take if only one is made at a time."""
    return sum((one.times * ring_time(one.kind, one.nbytes, n, link) for one in step), 0.0)


def plan(
    compute: Number,
    step: Iterable[Collective],
    n: int,
    link: Link,
    *,
    overlap: bool = False,
    backward: Number = BACKWARD / (FORWARD + BACKWARD),
    same_batch: bool = True,
) -> Step:
    """Predict the step of n ranks from the time that one needs to compute.

    Args: compute, seconds of one rank alone for its batch. same_batch: that batch is divided over
        the ranks, so each computes for compute / n; otherwise every rank gets a batch as large.
        overlap: what the links do during the pass that can hide it costs no time, as far as the
        pass lasts; in the forward pass, parameters must be gathered ahead of need (prefetched).
        backward, the fraction of the computing that is the backward pass.
    Errors: ValueError for a time or a fraction that cannot be, and those of `ring_time`.
    """
    if compute <= 0 or not 0 <= backward <= 1:
        raise ValueError(
            "expected compute in seconds above 0 and backward from 0 to 1, got "
            f"compute={compute} and backward={backward}"
        )
    step = list(step)
    each = compute / n if same_batch else compute
    hiding = {"forward": each * (1 - backward), "backward": each * backward} if overlap else {}
    exposed = 0.0
    for during in ("forward", "backward", ""):
        busy = communication_time([one for one in step if one.during == during], n, link)
        exposed += max(busy - hiding.get(during, 0), 0)
    communication = communication_time(step, n, link)
    return Step(n, each, communication, exposed, each + exposed, each / (each + exposed))


def training_flops(parameters: Number, tokens: Number, *, recompute: bool = False) -> Number:
    """FLOPs of a step on so many tokens: 6 for each parameter and token.

    Forward 2, a multiplication and an addition; backward twice as many, for the gradients of the
    inputs and of the parameters. With `recompute` the forward pass is made once more. Attention
    itself, which has no parameters, is left out: right for sequences that are not long.
    Errors: ValueError for a count that is not positive.
    """
    _require_positive(parameters=parameters, tokens=tokens)
    return (FORWARD * (1 + recompute) + BACKWARD) * parameters * tokens


def tokens_that_hide(
    step: Iterable[Collective],
    parameters: Number,
    flops: Number,
    bandwidth: Number,
    *,
    recompute: bool = False,
) -> float:
    """Tokens that a rank needs in a step until its computing hides what many ranks send.

    A pass over b tokens computes for (its FLOPs) b / flops, and the links are busy for (passes of
    the ring) nbytes / bandwidth. Both grow in proportion to the parameters, which cancel: for the
    all-reduce of float32 gradients b = 2 flops / bandwidth. Latency is left out.
    Args: flops and bandwidth of one rank, a second.
    Errors: ValueError for a count that is not positive.
    """
    _require_positive(parameters=parameters, flops=flops, bandwidth=bandwidth)
    of_pass = {"forward": FORWARD, "backward": BACKWARD + FORWARD * recompute}
    step, least = list(step), 0.0
    for during, each in of_pass.items():
        sent = sum(PASSES[o.kind] * o.nbytes * o.times for o in step if o.during == during)
        least = max(least, sent / bandwidth * flops / (each * parameters))
    return least


def state_bytes(parameters: Number, n: int, *, stage: int = 0, mixed: bool = False) -> float:
    """Bytes that a rank holds between two steps: parameters, gradients, and Adam's own numbers.

    In float32 4 + 4 + 8 a parameter. In mixed precision bfloat16 parameters and gradients, and for
    Adam float32 parameters and two moments: 2 + 2 + 12. Stage 1 of ZeRO divides the last by n,
    stage 2 the gradients too, stage 3 all.
    Errors: ValueError for another stage, or a count that is not positive.
    Source: Rajbhandari et al. 2020 (ZeRO), section 5.
    """
    _require_positive(parameters=parameters, n=n)
    if stage not in (0, 1, 2, 3):
        raise ValueError(f"expected stage 0, 1, 2 or 3 of ZeRO, got {stage}")
    of_each = (2, 2, 12) if mixed else (4, 4, 8)
    parts = (n if stage >= first else 1 for first in (3, 2, 1))
    return sum((parameters * each / part for each, part in zip(of_each, parts, strict=True)), 0.0)


def activation_bytes(
    tokens: Number, d_model: int, n_layers: int, *, bytes_each: Number = 4, recompute: bool = False
) -> Number:
    """Bytes that the layers keep of the forward pass until the backward pass has used them.

    A layer keeps about 16 vectors of d_model for each token: the inputs of its two norms and of its
    matrices, queries, keys, values, and what goes into and out of the activation of d_ff = 4
    d_model. The attention maps are not kept (FlashAttention), nor are masks of dropout. With
    `recompute` only the input of each layer is kept, and one layer at a time makes the rest again.
    Errors: ValueError for a size that is not positive.
    Source: Korthikanti et al. 2022, section 4: 34 bytes in 16 bits, 2 of them masks of dropout.
    """
    _require_positive(tokens=tokens, d_model=d_model, n_layers=n_layers, each=bytes_each)
    vectors = n_layers + KEPT if recompute else KEPT * n_layers
    return tokens * d_model * vectors * bytes_each


def _require_whole(**sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"expected {name} to be a whole number above 0, got {size!r}")


def _passes(kind: Kind, n: int) -> int:
    if kind not in PASSES:
        raise ValueError(f"expected one of {', '.join(PASSES)}, got {kind!r}")
    if n < 1:
        raise ValueError(f"expected one rank or more, got n={n}")
    return PASSES[kind]


def _require_positive(**sizes: Number) -> None:
    for name, size in sizes.items():
        if size <= 0:
            raise ValueError(f"expected {name} above 0, got {size}")

"""What it costs to let n ranks exchange numbers in a ring: bytes, seconds, and the step that waits.

A ring is the bandwidth-optimal way to sum a vector over ranks: the vector is split into n chunks,
each rank sends one chunk to its neighbour in every round, and after 2 (n - 1) rounds every rank has
the whole sum. Nothing here communicates; `experiments/communication.py` holds the formulas against
measured times.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

Number = int | float
Kind = Literal["all_reduce", "all_gather", "reduce_scatter"]
PASSES: dict[Kind, int] = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


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
    """

    purpose: str
    kind: Kind
    nbytes: Number
    times: int = 1


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


class Measured(NamedTuple):
    """The time of one collective operation over n ranks, in seconds."""

    n: int
    nbytes: int
    seconds: Number
    kind: Kind = "all_reduce"


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
    return [Collective("gradients", "all_reduce", parameters * bytes_each)]


def sharded(
    parameters: int, *, bytes_each: Number = 4, keep_after_forward: bool = False
) -> list[Collective]:
    """A step of fully sharded data parallelism: parameters are gathered as they are needed.

    Once for the forward pass and once more for the backward pass, because in between each rank
    forgets what is not its own; then each rank gets the sum of the gradients of its part. That is
    1.5 times what data parallelism sends; with `keep_after_forward` it is as much.
    Errors: ValueError for a count that is not positive.
    Source: Rajbhandari et al. 2020 (ZeRO), section 7.
    """
    _require_positive(parameters=parameters, bytes_each=bytes_each)
    nbytes = parameters * bytes_each
    return [
        Collective("parameters", "all_gather", nbytes, times=1 if keep_after_forward else 2),
        Collective("gradients", "reduce_scatter", nbytes),
    ]


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
    return sum(one.times * bytes_sent(one.kind, one.nbytes, n) for one in step)


def communication_time(step: Iterable[Collective], n: int, link: Link) -> float:
    """Seconds that the operations of a step take if only one is made at a time."""
    return sum(one.times * ring_time(one.kind, one.nbytes, n, link) for one in step)


def plan(
    compute: Number,
    step: Iterable[Collective],
    n: int,
    link: Link,
    *,
    overlap: Number = 0.0,
    same_batch: bool = True,
) -> Step:
    """Predict the step of n ranks from the time that one needs to compute.

    Args: compute, seconds of one rank alone for its batch. same_batch: that batch is divided over
        the ranks, so each computes for compute / n; otherwise every rank gets a batch as large.
        overlap, the fraction of the computing during which the links can work too: what they do
        meanwhile costs no time. About 2/3 is the backward pass.
    Errors: ValueError for a time or a fraction that cannot be, and those of `ring_time`.
    """
    if compute <= 0 or not 0 <= overlap <= 1:
        raise ValueError(
            "expected compute in seconds above 0 and overlap from 0 to 1, got "
            f"compute={compute} and overlap={overlap}"
        )
    each = compute / n if same_batch else compute
    communication = communication_time(step, n, link)
    exposed = max(communication - overlap * each, 0.0)
    return Step(n, each, communication, exposed, each + exposed, each / (each + exposed))


def fit_link(measured: Sequence[Measured]) -> Link:
    """The latency and bandwidth with which `ring_time` comes closest to measured times.

    Least squares of the relative errors, so that the short messages count as much as the long ones.
    What would come out negative is 0: no latency, or a bandwidth without bound.
    Errors: ValueError for fewer than two different sizes, times that are not positive, or one rank.
    """
    if len({(one.nbytes, one.n) for one in measured}) < 2:
        raise ValueError("expected times of at least two sizes, got fewer; measure another one")
    if any(one.seconds <= 0 or one.n < 2 for one in measured):
        raise ValueError("expected positive times of two ranks or more; measure again")
    rows = [(messages_sent(m.kind, m.n), bytes_sent(m.kind, m.nbytes, m.n)) for m in measured]
    scaled = np.array(rows, dtype=float) / np.array([[one.seconds] for one in measured])
    wanted = np.ones(len(measured))
    latency, per_byte = np.linalg.lstsq(scaled, wanted, rcond=None)[0]
    if latency < 0 or per_byte < 0:
        only = int(latency < 0)  # the column that is left
        best = float(scaled[:, only] @ wanted / (scaled[:, only] @ scaled[:, only]))
        latency, per_byte = (0.0, best) if only else (best, 0.0)
    return Link(float(latency), float(1 / per_byte) if per_byte > 0 else float("inf"))


def relative_errors(measured: Sequence[Measured], link: Link) -> list[float]:
    """For each measured time, predicted / measured - 1."""
    return [ring_time(one.kind, one.nbytes, one.n, link) / one.seconds - 1 for one in measured]


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

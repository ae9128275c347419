"""The schematics of the chapter: replicas, a ring, a step in time, who holds what, split layers."""

from functools import partial

from drawing.attention import projections_of_head
from drawing.schematic import Part, Schematic
from measure.costs import Collective, Link, Step, plan

RING = ((1, 2, 3), (10, 20, 30), (100, 200, 300))  # what three ranks begin with, by chunk
STATES = ("parameters", "gradients", "Adam's $m$", "Adam's $v$")  # one number each a parameter
SHARDS = 3
# ZeRO divides the last two first, then the gradients, then the parameters: by scheme, how many of
# the four every rank still holds whole
SCHEMES = {"DDP: all on each": 4, "ZeRO 1": 2, "ZeRO 2": 1, "ZeRO 3, FSDP": 0}
# A step that is drawn to scale, in units of its width: computing, one third of it forward, and an
# all-reduce
COMPUTING, SENDING, WIDE = 90.0, 48.0, 2.4
BUCKETS = 3


def two_replicas() -> Schematic:
    """One batch on two ranks: every second sentence, a whole model, one all-reduce, one update."""
    s = Schematic(
        400,
        404,
        alt="A batch of four sentences is split: rank 0 gets sentences 0 and 2, rank 1 gets 1 and "
        "3. Each rank holds the whole model, and its backward pass gives a gradient for each of "
        "the N parameters. One all-reduce adds the two gradients and gives the sum to both ranks. "
        "Both then make the same update, so their models stay equal.",
    )
    batch = s.matrix(
        "batch",
        at=(200, 44),
        rows=4,
        columns=5,
        cell=15,
        side="left",
        shade=[[0.15] * 5, [0.6] * 5] * 2,
        shape=("batch", "time"),
        shape_side="right",
    )
    link = s.layer("all-reduce: add up", at=(200, 296), width=340)
    for rank, x, shade in ((0, 100, 0.15), (1, 300, 0.6)):
        side = (4, "start") if rank == 0 else (396, "end")
        s.text(f"rank {rank}", at=(side[0], 96), align=side[1], strong=True, size=13)
        part = s.matrix(
            at=(x, 122),
            rows=2,
            columns=5,
            cell=15,
            shade=[[shade] * 5] * 2,
            name=f"sentences of rank {rank}",
            shape=("batch/ranks", "time"),
            shape_side="",
        )
        s.arrow((batch.x + (-30 if rank == 0 else 30), batch.y + 33), part, path="vhv")
        model = s.layer("the whole model", at=(x, 182), width=150, name=f"model {rank}")
        s.arrow(part, model)
        gradient = s.vector(
            f"$g_{rank}$", at=(x, 242), cells=7, cell=15, side="left", shape=("N",), shape_side=""
        )
        s.arrow(model, gradient, "backward", side="right")
        s.arrow(gradient, (x, link.top[1] - 3))
        total = s.vector(
            "",
            at=(x, 356),
            cells=7,
            cell=15,
            shade=[0.6] * 7,
            name=f"sum on rank {rank}",
            shape=("N",),
            shape_side="",
        )
        s.arrow((x, link.bottom[1] + 3), total)
        s.text("$g_0 + g_1$: same update", at=(x, 384), size=13)
    return s


def ring_states() -> list[list[list[int]]]:
    """What each rank holds at the start and after each step of the ring, by step, rank and chunk.

    In the first steps a rank adds the chunk that its neighbour sends to its own one; in the others
    it replaces its own one, by then the sum over all ranks.
    """
    ranks, held = len(RING), [[list(one) for one in RING]]
    for step in range(2 * (ranks - 1)):
        old, new = held[-1], [[*one] for one in held[-1]]
        adds = step < ranks - 1
        for rank in range(ranks):
            chunk, target = (rank - step) % ranks, (rank + 1) % ranks
            new[target][chunk] = old[rank][chunk] + adds * old[target][chunk]
        held.append(new)
    return held


def ring() -> Schematic:
    """Three ranks add three chunks in a ring: two steps that add, two that hand the sums on."""
    held = ring_states()
    s = Schematic(
        400,
        424,
        alt="Three ranks hold three chunks each: 1, 2, 3; 10, 20, 30; and 100, 200, 300. In each "
        "of four steps every rank sends one chunk to the next rank, and the last rank to the "
        "first. After two steps every rank has one finished sum: rank 0 has 222, rank 1 has 333 "
        "and rank 2 has 111. After two more steps every rank has 111, 222 and 333.",
    )
    columns, rows = (92, 214, 336), [66 + 82 * i for i in range(len(held))]
    for rank, x in enumerate(columns):
        s.text(f"rank {rank}", at=(x, 24), strong=True)
    drawn: list[list[Part]] = []
    for step, (y, now) in enumerate(zip(rows, held, strict=True)):
        before = held[step - 1] if step else now
        drawn.append(
            [
                s.vector(
                    at=(x, y),
                    values=now[rank],
                    shade=[float(a != b) for a, b in zip(now[rank], before[rank], strict=True)],
                    cell=(34, 26),
                    name=f"rank {rank} after {step}",
                )
                for rank, x in enumerate(columns)
            ]
        )
    for step in range(1, len(held)):
        for rank, x in enumerate(columns):
            chunk = changed(held[step - 1][rank], held[step][rank])
            at, source = (chunk - 1) * 34, columns[rank - 1]
            top, bottom = drawn[step - 1][rank - 1].bottom[1], drawn[step][rank].top[1]
            s.arrow((source + at, top + 2), (x + at, bottom - 2))
    for y, word in ((rows[0] + 82, "add"), (rows[1] + 82, "add")):
        s.text(word, at=(6, y), align="start", size=13)
    for y in rows[3:]:
        s.text("copy", at=(2, y), align="start", size=13)
    return s


def changed(before: list[int], after: list[int]) -> int:
    """The one chunk that a step of the ring has changed."""
    (chunk,) = [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    return chunk


def step_in_time(computing: float = COMPUTING, *, overlap: bool) -> Step:
    """The step that `in_time` draws, from the formulas of `measure.costs`.

    The ring of two ranks passes as many bytes in each direction as the vector has.
    """
    gradients = [Collective("gradients", "all_reduce", SENDING, during="backward")]
    return plan(computing, gradients, 2, Link(0, 1), overlap=overlap, same_batch=False)


def buckets_in_time(computing: float, *, overlap: bool) -> list[tuple[float, float]]:
    """When the link sends each bucket of gradients: its begin and end.

    A bucket leaves when its gradients are there, which is a third of the backward pass later each
    time, and when the bucket before it has left; without overlap, all leave after backward.
    """
    found, free = [], 0.0
    for number in range(1, BUCKETS + 1):
        ready = computing * (1 + 2 * number / BUCKETS) / 3 if overlap else computing
        begin = max(free, ready)
        free = begin + SENDING / BUCKETS
        found.append((begin, free))
    return found


def in_time() -> Schematic:
    """A step of one rank in time: sent afterwards, sent meanwhile, and with too few tokens."""
    s = Schematic(
        400,
        330,
        alt="Three steps of a rank as bars in time, the GPU above and its link below. First: "
        "forward, backward twice as long, and then the all-reduce, while the GPU waits. Second: "
        "the gradients leave in three buckets during backward, and the GPU waits only for the last "
        "one. Third, with a third of the tokens: forward and backward are short, the "
        "all-reduce is as long as before, and the GPU waits for most of it.",
    )
    left = 58.0
    rows = (
        ("sent after backward", 26, COMPUTING, False),
        ("sent in buckets, during backward", 134, COMPUTING, True),
        ("a third of the tokens", 242, COMPUTING / 3, True),
    )
    for title, y, computing, overlap in rows:
        s.text(title, at=(left, y), align="start", strong=True, size=13)
        s.text("GPU", at=(left - 8, y + 28), align="end", size=13)
        s.text("link", at=(left - 8, y + 60), align="end", size=13)
        forward, backward = computing / 3, 2 * computing / 3
        short = computing < COMPUTING
        begin = left
        for name, length in (("forward", forward), ("backward", backward)):
            s.layer(
                "" if short else name,
                at=(begin + length * WIDE / 2, y + 28),
                width=length * WIDE,
                height=26,
                name=f"{title}: {name}",
            )
            begin += length * WIDE
        for i, (start, end) in enumerate(buckets_in_time(computing, overlap=overlap), start=1):
            s.layer(
                f"{i}",
                at=(left + (start + end) * WIDE / 2, y + 60),
                width=(end - start) * WIDE,
                height=26,
                kind="lit",
                name=f"{title}: bucket {i}",
            )
            wait = end - computing
        little = wait < SENDING / 2
        at = (begin + 4 if little else begin + wait * WIDE / 2, y + 28)
        s.text("waits", at=at, align="start" if little else "middle", size=13)
    return s


def who_holds_what() -> Schematic:
    """Parameters, gradients and Adam's two moments on three ranks: replicated, ZeRO 1, 2 and 3."""
    s = Schematic(
        400,
        448,
        alt="Three ranks, and four things that training keeps for each parameter: the parameter, "
        "its gradient and Adam's two moments. With DDP every rank holds all of all four. ZeRO 1 "
        "leaves each rank a third of the two moments, ZeRO 2 of the gradients too, and "
        "ZeRO 3, which is FSDP, of all four: rank 0 the first third, rank 1 the second, rank 2 the "
        "last.",
    )
    columns = [156 + 92 * rank for rank in range(SHARDS)]
    for rank, x in enumerate(columns):
        s.text(f"rank {rank}", at=(x, 16), strong=True, size=13)
    for (title, whole), y in zip(SCHEMES.items(), (84, 184, 284, 384), strict=True):
        s.text(title, at=(248, y - 42), size=13)
        for i, text in enumerate(STATES):
            s.text(text, at=(104, y + 15 * (i - 1.5)), align="end", size=13)
        for rank, x in enumerate(columns):
            shade = [
                [0.6 * (i < whole or part == rank) for part in range(SHARDS)]
                for i in range(len(STATES))
            ]
            s.matrix(at=(x, y), shade=shade, cell=(24, 15), name=f"{title} {rank}")
    s.text("one column: a third of the $N$ parameters", at=(200, 434), size=13)
    return s


def partial_output(
    s: Schematic, rank: int, layer: Part, link: Part, *, at: tuple[int, int]
) -> None:
    """What a rank's layer gives: a part of a sum, which goes to the all-reduce."""
    part = s.matrix(
        rows=3,
        cell=13,
        at=at,
        columns=6,
        name=f"partial output {rank}",
        shape=("time", "d_{model}"),
        shape_side="",
    )
    s.arrow(layer, part)
    s.arrow(part, (at[0], link.top[1] - 3))


def output_on_both(s: Schematic, link: Part, *, y: int) -> None:
    """The sum that each rank has after the all-reduce."""
    out = s.matrix(
        "output, on both",
        rows=3,
        cell=13,
        at=(200, y),
        columns=6,
        side="left",
        shade=[[0.6] * 6] * 3,
        shape=("time", "d_{model}"),
        shape_side="right",
    )
    s.arrow(link, out)


def split_feed_forward() -> Schematic:
    """A feed-forward network on two ranks: columns of W_1, then the same rows of W_2."""
    s = Schematic(
        400,
        476,
        alt="The whole input x is on both ranks. Each rank has half of the columns of W_1, so it "
        "computes half of the inner numbers and passes them through the ReLU. It multiplies them "
        "by its half of the rows of W_2, which gives a partial output of full size. One all-reduce "
        "adds the two partial outputs. In the backward pass a second all-reduce adds the two "
        "gradients of x.",
    )
    grid = partial(s.matrix, rows=3, cell=13)
    model = ("time", "d_{model}")
    x = grid("$x$, on both", at=(200, 36), columns=6, side="left", shape=model, shape_side="right")
    link = s.layer("all-reduce: add up", at=(200, 376), width=340)
    half = "d_{ff}/2"
    for rank, middle in ((0, 100), (1, 300)):
        side = (4, "start") if rank == 0 else (396, "end")
        s.text(f"rank {rank}", at=(side[0], 82), align=side[1], strong=True, size=13)
        w_1 = s.layer(
            f"$W_1$, columns\nof rank {rank}",
            at=(middle, 120),
            width=130,
            shape=("d_{model}", half),
            shape_side="",
            name=f"W_1 of rank {rank}",
        )
        s.arrow((x.x + (-24 if rank == 0 else 24), x.bottom[1] + 2), w_1, path="vhv")
        inner = grid(
            "ReLU",
            at=(middle, 188),
            columns=5,
            side="left",
            name=f"inner of rank {rank}",
            shape=("time", half),
            shape_side="",
        )
        w_2 = s.layer(
            f"$W_2$, rows\nof rank {rank}",
            at=(middle, 255),
            width=130,
            shape=(half, "d_{model}"),
            shape_side="",
            name=f"W_2 of rank {rank}",
        )
        s.arrow(w_1, (middle, inner.y - inner.height / 2 - 2))
        s.arrow((middle, inner.y + inner.height / 2 + 2), w_2)
        partial_output(s, rank, w_2, link, at=(middle, 321))
    output_on_both(s, link, y=440)
    return s


def split_by_heads() -> Schematic:
    """An attention layer on two ranks: each has half of the heads, and one all-reduce adds up."""
    s = Schematic(
        400,
        522,
        alt="The whole input x is on both ranks. Each rank has W^Q, W^K and W^V of its own half "
        "of the heads, computes their attention, and multiplies the result by its own rows of "
        "W^O. This gives a partial output on each rank. One all-reduce adds the two to the "
        "output. In the backward pass a second all-reduce adds the two gradients of x.",
    )
    grid = partial(s.matrix, rows=3, cell=13)
    model = ("time", "d_{model}")
    x = grid("$x$, on both", at=(200, 36), columns=6, side="left", shape=model, shape_side="right")
    link = s.layer("all-reduce: add up", at=(200, 424), width=340)
    for rank, middle in ((0, 100), (1, 300)):
        side = (4, "start") if rank == 0 else (396, "end")
        s.text(f"rank {rank}", at=(side[0], 68), align=side[1], strong=True, size=13)
        layer = s.layer(
            "attention of half\nof the heads", at=(middle, 204), width=180, name=f"half {rank}"
        )
        projections_of_head(s, rank, x, layer, y=130, d_k="h/2*d_k", d_v="h/2*d_v")
        heads = grid(
            at=(middle, 266),
            columns=3,
            kind="value",
            name=f"heads of rank {rank}",
            shape=("time", "h/2*d_v"),
            shape_side="",
        )
        w_o = s.layer(
            f"$W_{rank}^O$",
            at=(middle, 320),
            width=56,
            shape=("h/2*d_v", "d_{model}"),
            shape_side="",
        )
        s.arrow(layer, heads, kind="value")
        s.arrow(heads, w_o, kind="value")
        partial_output(s, rank, w_o, link, at=(middle, 374))
    output_on_both(s, link, y=488)
    return s

"""The schematics of the chapter: two replicas, a ring, who holds what, a layer split by heads."""

from functools import partial

from drawing.attention import projections_of_head
from drawing.schematic import Part, Schematic

RING = ((1, 2, 3), (10, 20, 30), (100, 200, 300))  # what three ranks begin with, by chunk
STATES = ("parameters", "gradients", "Adam's $m$", "Adam's $v$")  # one number each a parameter
SHARDS = 3


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


def who_holds_what() -> Schematic:
    """Parameters, gradients and Adam's two moments on three ranks: replicated, and sharded."""
    s = Schematic(
        400,
        318,
        alt="Three ranks, and four things that training keeps for each parameter: the parameter, "
        "its gradient and Adam's two moments. With DDP every rank holds all of all four. "
        "With FSDP rank 0 holds the first third of each, rank 1 the second and rank 2 the last.",
    )
    columns = [156 + 92 * rank for rank in range(SHARDS)]
    for rank, x in enumerate(columns):
        s.text(f"rank {rank}", at=(x, 20), strong=True, size=13)
    for title, y, sharded in (("DDP: all of it", 96, False), ("FSDP: a third", 238, True)):
        s.text(title, at=(248, y - 48), size=13)
        for i, text in enumerate(STATES):
            s.text(text, at=(104, y + 17 * (i - 1.5)), align="end", size=13)
        for rank, x in enumerate(columns):
            held = [float(not sharded or part == rank) * 0.6 for part in range(SHARDS)]
            s.matrix(
                at=(x, y),
                shade=[held] * len(STATES),
                cell=(24, 17),
                name=f"{title} {rank}",
            )
    s.text("one column: a third of the $N$ parameters", at=(200, 300), size=13)
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
        part = grid(
            at=(middle, 374), columns=6, name=f"partial output {rank}", shape=model, shape_side=""
        )
        s.arrow(layer, heads, kind="value")
        s.arrow(heads, w_o, kind="value")
        s.arrow(w_o, part)
        s.arrow(part, (middle, link.top[1] - 3))
    out = grid(
        "output, on both",
        at=(200, 488),
        columns=6,
        side="left",
        shade=[[0.6] * 6] * 3,
        shape=model,
        shape_side="right",
    )
    s.arrow(link, out)
    return s

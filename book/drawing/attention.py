"""What the schematics of the attention layer share: projections, of a head too, scores, output."""

from functools import partial
from itertools import pairwise

from drawing.schematic import Part, Schematic, Shape, below

MIDDLE = {"query": 76, "key": 203, "value": 331}  # of the three columns
CELL = 13
FROM_X, TO_PRODUCT, GAP = 82, 78, 20  # from a projection to its matrix, from there on, and below


def projected(
    s: Schematic, letter: str, kind: str, x: Part, *, y: int, columns: int, d: str = ""
) -> Part:
    """Draw Q, K or V, with the matrix W that makes its rows of those of x, W in height y.

    Args: kind, "query", "key" or "value", which gives the column; x, a matrix drawn in cells of
        `CELL`, with its shape. The result has as many rows as x, of `columns` cells. d, its last
        axis: d_v for values and d_k for the others unless given.
    """
    axis, d_in = x.shape
    d = d or ("d_v" if kind == "value" else "d_k")
    w = s.layer(f"$W^{letter}$", at=(MIDDLE[kind], y), kind=kind, width=56, shape=(d_in, d))
    made = s.matrix(
        f"${letter}$",
        at=(MIDDLE[kind], y + FROM_X),
        kind=kind,
        rows=round(x.height / CELL),
        columns=columns,
        cell=CELL,
        side="left",
        shape=(axis, d),
    )
    s.arrow(x, w, path="vhv")
    s.arrow(w, made, kind=kind)
    return made


def projections_of_head(
    s: Schematic,
    number: int,
    x: Part,
    attention: Part,
    *,
    y: int,
    d_k: str = "d_k",
    d_v: str = "d_v",
) -> None:
    """Draw W^Q, W^K and W^V of one head or part of the heads, between x and its attention.

    Args: number, the index of all three; x, a matrix with its shape; attention, the layer above
        which they stand, in height y; d_k and d_v, the last axes of their shapes.
    """
    _, d_in = x.shape
    columns = (("Q", "query", -60, d_k), ("K", "key", 0, d_k), ("V", "value", 60, d_v))
    for letter, kind, step, d in columns:
        w = s.layer(
            f"$W_{number}^{letter}$",
            at=(attention.x + step, y),
            kind=kind,
            width=46,
            shape=(d_in, d),
            shape_side="",
        )
        s.arrow(x, w, path="vhv")
        s.arrow(w, (w.x, attention.top[1] - 3), kind=kind)


def attend(s: Schematic, q: Part, k: Part, v: Part, *, shade: list[list[float]]) -> Part:
    """Draw softmax(Q K^T / sqrt(d_k)) V below the three; its shapes follow from theirs.

    Args: shade, the weights to show, one row for each query. Returns the output.
    """
    (queries, _), (keys, _), (_, d_v) = q.shape, k.shape, v.shape
    grid = partial(s.matrix, cell=CELL, side="left", rows=len(shade), shape_side="right")
    scores_shape: Shape = (queries, keys)
    square = partial(grid, columns=len(shade[0]), shape=scores_shape)
    middle = (q.x + k.x) / 2
    product = s.layer("$Q K^T / √d_k$", at=(middle, q.y + TO_PRODUCT), width=180, height=30)
    scores = square("scores", at=below(product, GAP))
    softmax = s.softmax("softmax of each row", at=below(scores, GAP), width=180)
    weights = square("weights", at=below(softmax, GAP), shade=shade)
    centre = ((q.x + v.x) / 2, weights.bottom[1] + GAP + 15)
    mean = s.layer("weights times $V$", at=centre, width=310, height=30)
    columns = round(v.width / CELL)
    output = grid(
        "output", at=below(mean, GAP), columns=columns, kind="value", shape=(queries, d_v)
    )
    s.arrow(q, product, kind="query")
    s.arrow(k, product, kind="key")
    for one, other in pairwise((product, scores, softmax, weights, mean)):
        s.arrow(one, other)
    s.arrow(v, mean, kind="value")
    s.arrow(mean, output, kind="value")
    return output

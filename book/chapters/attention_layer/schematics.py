"""The schematics of the chapter: one query among keys, in boxes and in the plane; the layer."""

from functools import partial

from drawing.attention import CELL, attend, projected
from drawing.schematic import Schematic

QUERY, KEYS = (2, 1), ((1, 0), (-1, 2), (1, 1))  # of the example


def one_query() -> Schematic:
    """One query, three keys and three values; q, k_i, v_i and output carry their shapes."""
    s = Schematic(
        400,
        410,
        alt="One query q meets three keys. The dot product with each key gives a score; softmax "
        "turns the three scores into three weights; each weight multiplies its value; the sum of "
        "the weighted values is the output.",
    )
    q = s.vector("$q$", at=(48, 36), kind="query", cells=2, shape=("d_k",))
    softmax = s.softmax(at=(230, 184), width=270)
    total = s.sum(at=(230, 326))
    o = s.vector("output", at=(230, 374), kind="value", cells=2, side="right", shape=("d_v",))
    for i, x in enumerate((120, 230, 340), start=1):
        k = s.vector(f"$k_{i}$", at=(x - 54, 114), kind="key", cells=2, side="top", shape=("d_k",))
        v = s.vector(
            f"$v_{i}$", at=(x - 54, 260), kind="value", cells=2, side="top", shape=("d_v",)
        )
        dot, times = s.dot(at=(x, 114)), s.product(at=(x, 260))
        s.arrow(q, dot, path="hv", kind="query")
        s.arrow(k, dot, kind="key")
        s.arrow(dot, softmax, f"$e_{i}$")
        s.arrow(softmax, times, f"$a_{i}$")
        s.arrow(v, times, kind="value")
        s.arrow(times, total, path="vh", kind="value")
    s.arrow(total, o, kind="value")
    return s


def q_k_v() -> Schematic:
    """Queries, keys and values as matrices, with all shapes from the inputs to the output."""
    s = Schematic(
        400,
        566,
        alt="The rows of X_Q become queries Q; the rows of X become keys K and values V, each by "
        "a matrix of its own. Q times K transposed, over the root of d_k, gives a score for each "
        "query and key; softmax makes weights of each row; the weights times V are the output.",
    )
    grid = partial(s.matrix, cell=CELL, side="left")
    y = grid("$X_Q$", at=(76, 34), rows=2, columns=5, shape=("query", "d_q"))
    x = grid("$X$", at=(266, 34), rows=3, columns=6, shape=("key", "d_x"))
    q = projected(s, "Q", "query", y, y=126, columns=4)
    k = projected(s, "K", "key", x, y=126, columns=4)
    v = projected(s, "V", "value", x, y=126, columns=5)
    attend(s, q, k, v, shade=[[0.2, 0.7, 0.1], [0.5, 0.1, 0.4]])
    return s


def projections() -> Schematic:
    """The example of the text in the plane: each key's projection on the line of the query."""
    s = Schematic(
        400,
        290,
        alt="The query (2, 1) as an arrow from the origin, and a line through it. From the tip of "
        "each key a dashed line drops at a right angle onto that line. The projection of (1, 1) is "
        "1.34 long, that of (1, 0) is 0.89 long, and that of (-1, 2) is zero.",
    )
    plane = s.plane(origin=(150, 225), unit=92, x=(-1.3, 2.6), y=(-0.5, 2.3))
    origin, tip = plane.at(0, 0), plane.at(*QUERY)
    s.line([plane.at(-0.8, -0.4), plane.at(2.5, 1.25)], kind="soft", dashed=True)
    for x, y in KEYS:
        foot = plane.at(*projection(x, y))
        s.line([plane.at(x, y), foot], kind="key", dashed=True)
        s.arrow(origin, plane.at(x, y), kind="key", gap=0)
        s.point("", at=foot, kind="query")
    s.arrow(origin, tip, kind="query", gap=0)
    s.text("$q$ = (2, 1)", at=(tip[0] + 6, tip[1] + 22), kind="query")
    s.text("$k_1$: score 2", at=plane.at(1.06, -0.2), kind="key", align="start")
    s.text("$k_2$: score 0", at=plane.at(-0.92, 2.08), kind="key", align="start")
    s.text("$k_3$: score 3", at=plane.at(0.9, 1.16), kind="key")
    return s


def projection(x: int, y: int) -> tuple[float, float]:
    """The key (x, y) projected on the line of the query."""
    a, b = QUERY
    share = (x * a + y * b) / (a * a + b * b)
    return share * a, share * b


def self_and_cross() -> Schematic:
    """One layer twice: with one sequence, and with keys and values from another one."""
    s = Schematic(
        400,
        300,
        alt="Two copies of one layer. On the left, self-attention: one sequence x gives queries, "
        "keys and values by W^Q, W^K and W^V. On the right, cross-attention: x gives the queries, "
        "and another sequence, memory, gives keys and values.",
    )
    for title, middle in (("self-attention", 100), ("cross-attention", 300)):
        s.text(title, at=(middle, 20), strong=True)
        matrix = partial(s.matrix, side="top", cell=13)
        layer = s.layer("scaled dot-product\nattention", at=(middle, 206), width=180)
        out = matrix("output", at=(middle, 272), rows=2, columns=5, side="right", kind="value")
        s.arrow(layer, out, kind="value")
        if middle == 100:
            sources = dict.fromkeys("QKV", matrix("$x$", at=(100, 76), rows=2, kind="target"))
        else:
            x = matrix("$x$", at=(240, 76), rows=2, kind="target")
            memory = matrix("memory", at=(330, 76), rows=3, columns=6, kind="source")
            sources = {"Q": x, "K": memory, "V": memory}
        for letter, kind, step in (("Q", "query", -60), ("K", "key", 0), ("V", "value", 60)):
            w = s.layer(f"$W^{letter}$", at=(middle + step, 138), kind=kind, width=46)
            s.arrow(sources[letter], w, path="vhv")
            s.arrow(w, (w.x, layer.top[1] - 3), kind=kind)
    return s

"""The schematics of the chapter: one query among keys, in boxes and in the plane; the layer."""

from functools import partial

from drawing.attention import CELL, attend, projected
from drawing.schematic import Schematic

# The example of the text: what the query wants and the keys offer is a clue and something living;
# the values speak for an animal and for sports equipment.
WORDS = ("bat", "man", "cave")
QUERY = (3, 0)
KEYS = ((1, 1), (0, 1), (1, 0))
VALUES = ((1, 1), (0, 0), (1, -1))
OUTPUT = ("0.98", "0.00")
OTHER_QUERY = (2, -1)  # wants a clue, but from nothing alive


def one_query() -> Schematic:
    """One query, three words with a key and a value each, and the output, with their numbers."""
    s = Schematic(
        400,
        448,
        alt="A query q, (3, 0), asks which kind of bat this is. It meets the keys of the words "
        "bat, (1, 1), man, (0, 1), and cave, (1, 0). The dot product with each key gives a score; "
        "softmax turns the three scores into three weights; each weight multiplies the value "
        "of its word, (1, 1), (0, 0) or (1, −1); the sum is the output, (0.98, 0.00): an animal.",
    )
    q = s.vector("$q$", at=(50, 36), kind="query", values=QUERY, shape=("d_k",), shape_side="")
    s.text("which kind of bat?", at=(92, 18), kind="query", align="start")
    softmax = s.softmax(at=(234, 218), width=270)
    total = s.sum(at=(234, 362))
    o = s.vector(
        "output",
        at=(234, 418),
        kind="value",
        values=OUTPUT,
        side="left",
        shape=("d_v",),
        shape_side="",
    )
    s.text("an animal", at=(o.right[0] + 12, o.y), kind="value", align="start")
    columns = zip((124, 234, 344), WORDS, KEYS, VALUES, strict=True)
    for i, (x, word, key, value) in enumerate(columns, start=1):
        s.token(word, at=(x - 54, 84), kind="source")
        k = s.vector(
            f"$k_{i}$",
            at=(x - 54, 148),
            kind="key",
            values=key,
            side="top",
            shape=("d_k",),
            shape_side="",
        )
        v = s.vector(
            f"$v_{i}$",
            at=(x - 54, 296),
            kind="value",
            values=value,
            side="top",
            shape=("d_v",),
            shape_side="",
        )
        dot, times = s.dot(at=(x, 148)), s.product(at=(x, 296))
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
    attend(s, q, k, v, shade=[[0.49, 0.02, 0.49], [0.49, 0.49, 0.02]])
    return s


def projections() -> Schematic:
    """Another query in the plane of the keys: each key's projection on the query's line."""
    s = Schematic(
        400,
        290,
        alt="The plane of clue, to the right, and living, upwards. The query (2, −1) is an arrow "
        "from the origin, with a line through it. From the tip of each key a dashed line drops at "
        "a right angle onto that line. The key of cave, (1, 0), reaches 0.89 along the query, that "
        "of bat, (1, 1), 0.45; that of man, (0, 1), lies on the other side, at −0.45.",
    )
    plane = s.plane(origin=(120, 150), unit=100, x=(-0.8, 2.6), y=(-1.15, 1.35))
    origin = plane.at(0, 0)
    s.text("clue", at=plane.at(2.5, 0.15), kind="soft")
    s.text("living", at=plane.at(-0.08, 1.27), kind="soft", align="end")
    s.line([plane.at(-0.8, 0.4), plane.at(2.4, -1.2)], kind="soft", dashed=True)
    for x, y in KEYS:
        foot = plane.at(*projection(x, y))
        s.line([plane.at(x, y), foot], kind="key", dashed=True)
        s.arrow(origin, plane.at(x, y), kind="key", gap=0)
        s.point("", at=foot, kind="query")
    s.arrow(origin, plane.at(*OTHER_QUERY), kind="query", gap=0)
    s.text("$q$ = (2, −1)", at=plane.at(1.3, -0.98), kind="query")
    s.text("bat: score 1", at=plane.at(1.06, 1.05), kind="key", align="start")
    s.text("man: score −1", at=plane.at(-0.1, 0.95), kind="key", align="end")
    s.text("cave: score 2", at=plane.at(1.06, 0.14), kind="key", align="start")
    return s


def projection(x: int, y: int) -> tuple[float, float]:
    """The key (x, y) projected on the line of the other query."""
    a, b = OTHER_QUERY
    along = (x * a + y * b) / (a * a + b * b)
    return along * a, along * b


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

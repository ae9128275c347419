"""The schematics of the chapter: one head and two, the layer, the split, one head off."""

import math
from functools import partial

from drawing.attention import projections_of_head
from drawing.schematic import Part, Schematic

SHOPS, PRICES = (3, 8, 1, 5, 7), (-1.0, -0.5, 0.0, 0.5, 1.0)  # of the offers, cheapest first
BETA = 4  # the score of an offer is beta times its price


def head_weights(beta: int) -> list[float]:
    """The softmax of beta times the prices."""
    exponentials = [math.exp(beta * price) for price in PRICES]
    return [e / sum(exponentials) for e in exponentials]


def one_and_two_heads() -> Schematic:
    """Weights of one head, which rise towards one end, and of two heads, one for each end."""
    s = Schematic(
        400,
        412,
        alt="Five offers in the order of their prices. One head with beta 4 gives 0.86 of its "
        "weight to the dearest offer and 0.00 to the cheapest, so its output is nearly the value "
        "of shop 7. Two heads, with beta 4 and -4, give one output each; the two stand side by "
        "side and name shop 7 and shop 3.",
    )
    columns = [94 + 66 * i for i in range(5)]
    s.text("price", at=(6, 66), align="start", size=13)
    for x, shop, price in zip(columns, SHOPS, PRICES, strict=True):
        s.token(f"shop {shop}", at=(x, 30), kind="source", width=62)
        s.text(f"{price:g}".replace("-", "−"), at=(x, 66), size=13)

    def head(name: str, beta: int, y: int) -> Part:
        weights = head_weights(beta)
        s.text(name, at=(6, y), align="start", size=13)
        return s.vector(
            at=(columns[2], y),
            values=[f"{w:.2f}" for w in weights],
            shade=weights,
            cell=(66, 28),
            name=f"weights of {name} at {y}",
        )

    s.text("One head", at=(columns[2], 106), strong=True)
    only = head("β = 4", BETA, 134)
    mean = s.vector(at=(columns[2], 192), kind="value", values=["nearly shop 7"], cell=(130, 28))
    s.arrow(only, mean, "mean of the values", kind="value", side="right")
    s.text("Two heads", at=(columns[2], 244), strong=True)
    first, last = head("β = 4", BETA, 272), head("β = −4", -BETA, 388)
    pair = ["nearly shop 7", "nearly shop 3"]
    both = s.vector(at=(columns[2], 330), kind="value", values=pair, cell=(130, 28), name="both")
    left, right = both.x - 65, both.x + 65
    s.arrow((left, first.y + 14), (left, both.y - 14), "its mean", kind="value", side="left")
    s.arrow((right, last.y - 14), (right, both.y + 14), "its mean", kind="value", side="right")
    return s


def heads_side_by_side() -> Schematic:
    """Two heads, each with three projections of the whole input; concatenated, then W^O."""
    s = Schematic(
        400,
        520,
        alt="The whole input X goes into two heads side by side. Each head has its own W^Q, W^K "
        "and W^V and its own scaled dot-product attention. Their outputs, head_1 and head_2, are "
        "concatenated along the last axis and multiplied by W^O, which gives the output.",
    )
    grid = partial(s.matrix, cell=13, shape_side="right")
    x = grid("$X$", at=(200, 34), rows=3, columns=6, side="left", shape=("time", "d_{model}"))
    heads = []
    for i, middle in ((1, 100), (2, 300)):
        layer = s.layer(
            "scaled dot-product\nattention", at=(middle, 194), width=180, name=f"attention {i}"
        )
        projections_of_head(s, i, x, layer, y=116)
        head = s.matrix(
            f"head {i}",
            at=(middle, 266),
            rows=3,
            columns=3,
            cell=13,
            side="left",
            kind="value",
            shape=("time", "d_v"),
            shape_side="right",
        )
        s.arrow(layer, head, kind="value")
        heads.append(head)
    joined = s.matrix(
        "concatenated",
        at=(200, 342),
        cell=13,
        rows=3,
        columns=6,
        side="left",
        kind="value",
        shape=("time", "h*d_v"),
        shape_side="right",
    )
    for head, end in zip(heads, (joined.x - 20, joined.x + 20), strict=True):
        s.arrow((head.x, head.y + 24), (end, joined.y - 23), path="vhv", kind="value")
    w_o = s.layer(
        "$W^O$", at=(200, 410), width=56, shape=("h*d_v", "d_{model}"), shape_side="right"
    )
    out = grid("output", at=(200, 480), rows=3, columns=6, side="left", shape=("time", "d_{model}"))
    s.arrow((200, joined.y + 23), (200, w_o.y - 18), kind="value")
    s.arrow((200, w_o.y + 18), (200, out.y - 23))
    return s


def numbered_split() -> Schematic:
    """Three positions of four numbers are split into two heads, with every number in its place."""
    s = Schematic(
        400,
        376,
        alt="A matrix of three positions and four columns, numbered 0 to 3, 10 to 13 and 20 to 23. "
        "Unflatten splits each row into two heads of two numbers. Transposing time and heads gives "
        "two matrices: head 1 with columns 0 and 1 of all positions, head 2 with columns 2 and 3. "
        "The way back transposes again and flattens.",
    )
    rows = [[10 * t + c for c in range(4)] for t in range(3)]
    tint = {0: 0.12, 1: 0.55}  # of the two heads
    numbers = partial(s.matrix, kind="query", cell=(30, 26))
    numbers(
        "projected",
        at=(250, 52),
        values=rows,
        shade=[[tint[0]] * 2 + [tint[1]] * 2] * 3,
        side="left",
        shape=("time", "heads*d_k"),
        shape_side="",
    )
    s.text("(time, heads · $d_k$)", at=(184, 74), align="end", size=13)
    steps(s, 112, "split: unflatten", "flatten")
    for t, row in enumerate(rows):
        numbers(
            at=(166 + 84 * t, 168),
            values=[row[:2], row[2:]],
            shade=[[tint[0]] * 2, [tint[1]] * 2],
            name=f"position {t}",
            shape=("heads", "d_k"),
            shape_side="",
        )
        s.text(f"position {t}", at=(166 + 84 * t, 206), size=13)
    s.text("(time, heads, $d_k$)", at=(6, 168), align="start", size=13)
    steps(s, 246, "transpose time and heads", "transpose")
    for i in range(2):
        numbers(
            at=(200 + 100 * i, 310),
            values=[row[2 * i : 2 * i + 2] for row in rows],
            shade=[[tint[i]] * 2] * 3,
            name=f"head {i + 1}",
            shape=("time", "d_k"),
            shape_side="",
        )
        s.text(f"head {i + 1}", at=(200 + 100 * i, 362), size=13)
    s.text("(heads, time, $d_k$)", at=(6, 310), align="start", size=13)
    return s


def steps(s: Schematic, y: int, down: str, up: str) -> None:
    """Two arrows at the height y, one each way, with their names."""
    s.arrow((234, y - 16), (234, y + 16))
    s.text(down, at=(224, y), align="end", size=13)
    s.arrow((266, y + 16), (266, y - 16), dashed=True)
    s.text(up, at=(276, y), align="start", size=13)


def one_head_off() -> Schematic:
    """The output as a sum over four heads; what replaces one of them."""
    s = Schematic(
        400,
        316,
        alt="Four heads, each followed by its own rows of W^O; a sum adds the four to the output. "
        "Head 3 is switched off: a switch puts zeros, or the head's mean, in the place of its "
        "output.",
    )
    total = s.sum(at=(200, 218))
    for i in range(4):
        x = 56 + 96 * i
        off = i == 2
        head = s.layer(
            f"head {i + 1}", at=(x, 30), kind="soft" if off else "value", width=72, name=f"h{i}"
        )
        w = s.layer(f"$W_{i + 1}^O$", at=(x, 150), width=56)
        if off:
            swap = s.layer("0 or mean", at=(x, 88), kind="lit", width=88)
            s.arrow(swap, w)
            s.arrow(head, swap, dashed=True, head=False)
        else:
            s.arrow(head, w, kind="value")
        s.arrow(w, total, path="vh" if i in (0, 3) else "")
    out = s.vector("output", at=(200, 272), cells=6, side="right", shape=("d_{model}",))
    s.arrow(total, out)
    return s

"""The schematics of the chapter: one word's new vector; a sentence that attends to itself; the
layer; what it does not see. The numbers are those of the running example.
"""

from functools import partial

from drawing.attention import CELL, attend, projected
from drawing.schematic import Schematic
from lib.attention import attention_weights
from tasks.bat import FEATURES, SENTENCE, matrices, vectors_of

SHOWN = ("animal", "equipment")  # the features that the story is about
THREE = ("bat", "bites", "man")
SHADES = ((0.9, 0.2, 0.5), (0.1, 0.6, 1.0), (0.5, 0.9, 0.0))  # one pattern for each word's output


def example() -> dict[str, list[list[float]]]:
    """Queries, keys, values, weights and outputs of the example, values and outputs as shown."""
    x, (w_q, w_k, w_v) = vectors_of(), matrices()
    query, key, value = x @ w_q, x @ w_k, x @ w_v
    weights = attention_weights(query, key)
    shown = [FEATURES.index(name) for name in SHOWN]
    found = {"query": query, "key": key, "value": value[:, shown], "weights": weights}
    found["output"] = (weights @ value)[:, shown]
    return {name: tensor.tolist() for name, tensor in found.items()}


def two_digits(value: float) -> str:
    """A number with two digits after the point, and a minus sign that is one."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def bat_here() -> Schematic:
    """What the layer is for: the vectors of a sentence, and the new vector of one word."""
    s = Schematic(
        400,
        268,
        alt="Below stand the words bat, bites, man, in and cave, each with its vector. That of bat "
        "holds animal 1 and equipment 1. Lines lead from all five through self-attention to a new "
        "vector above bat: thick ones from bat and from cave, each with the weight 0.49, and thin "
        "ones from the others. The new vector holds animal 0.97 and equipment 0.00. Above each of "
        "the other words stands a new vector too.",
    )
    found = example()
    columns = (66, 168, 232, 294, 356)
    row = found["weights"][0]
    cell = (60, 24)
    s.text("animal", at=(34, 20), size=13)
    s.text("equipment", at=(98, 20), size=13)
    texts = [two_digits(one) for one in found["output"][0]]
    new = s.vector(at=(66, 46), kind="value", values=texts, cell=cell, name="new bat")
    s.text("bat, here", at=(66, 74), kind="value", strong=True)
    for word, x, weight in zip(SENTENCE, columns, row, strict=True):
        s.token(word, at=(x, 250), width=52)
        if word == "bat":
            old = s.vector(at=(x, 212), values=["1", "1"], cell=cell, name="bat")
        else:
            old = s.vector(at=(x, 212), cells=2, cell=(22, 24), name=word)
            s.vector(at=(x, 46), kind="value", cells=2, cell=(22, 24), name=f"new {word}")
        strong = weight > 0.4
        s.arrow(
            (old.x, old.top[1] - 2),
            (new.x + 0.12 * (x - new.x), 88),
            two_digits(weight) if strong else "",
            kind="value" if strong else "plain",
            side="right" if word == "bat" else "above",
            dashed=not strong,
            along=0.4,
        )
    s.text("self-attention", at=(396, 100), align="end", strong=True)
    s.text("likewise for\neach word", at=(396, 126), align="end", size=13)
    return s


def every_word_asks() -> Schematic:
    """The example with its numbers: queries down, keys across, the row of one word lit."""
    found = example()
    s = Schematic(
        400,
        396,
        alt="Five words ask, one in each row: bat, bites, man, in and cave, each with its query of "
        "four numbers. The same five answer, one in each column, each with its key. In the row of "
        "bat, which is lit, the weights are 0.49 for bat, 0.49 for cave and 0.01 for the others. "
        "Under the columns are the values, animal above equipment: 1 and 1 for bat, 1 and −1 for "
        "cave, 0 for the others. At the right are the outputs; that of bat is 0.97 and 0.00.",
    )
    columns, rows = (147, 182, 217, 252, 287), (154, 190, 226, 262, 298)
    s.text("key", at=(120, 78), kind="key", align="end")
    s.text("query", at=(84, 126), kind="query")
    s.text("output", at=(356, 126), kind="value")
    s.text("animal\nequipment", at=(122, 364), kind="value", align="end", size=13)
    s.text("value", at=(122, 332), kind="value", align="end")
    number = partial(s.vector, shape_side="")
    for j, (word, x) in enumerate(zip(SENTENCE, columns, strict=True)):
        s.text(word, at=(x, 22), kind="key", size=13)
        key = [f"{one:g}" for one in found["key"][j]]
        k = number(at=(x, 80), kind="key", values=key, cell=(24, 18), upright=True, name=f"k {j}")
        value = [f"{one:g}".replace("-", "−") for one in found["value"][j]]
        v = number(
            at=(x, 358), kind="value", values=value, cell=(28, 22), upright=True, name=f"v {j}"
        )
        s.arrow(k, (x, rows[0] - 16), kind="key")
        s.arrow(v, (x, rows[-1] + 16), kind="value")
    for i, (word, y) in enumerate(zip(SENTENCE, rows, strict=True)):
        lit = word == "bat"
        s.text(word, at=(42, y), kind="query", align="end", size=13)
        query = [f"{one:g}" for one in found["query"][i]]
        q = number(at=(84, y), kind="query", values=query, cell=(16, 22), name=f"q {i}")
        weights = found["weights"][i]
        a = number(
            at=(columns[2], y),
            kind="query" if lit else "plain",
            values=[two_digits(one) for one in weights],
            shade=weights if lit else (),
            cell=(35, 28),
            name=f"a {i}",
        )
        output = [two_digits(one) for one in found["output"][i]]
        o = number(at=(357, y), kind="value", values=output, cell=(40, 24), name=f"o {i}")
        s.arrow(q, a, kind="query")
        s.arrow(a, o, kind="value")
    return s


def one_layer() -> Schematic:
    """Self-attention with all its shapes, from the vectors of one sentence to the outputs."""
    s = Schematic(
        400,
        716,
        alt="The vectors of bat bites man in cave are the rows of one matrix X. Three matrices, "
        "W^Q, W^K and W^V, make queries Q, keys K and values V of the same X. Q times K "
        "transposed, over the root of d_k, gives a square of scores; softmax of each row makes "
        "weights; the weights times V are the outputs, one for each word.",
    )
    tokens = s.row(s.token, SENTENCE, at=(203, 20), step=66)
    grid = partial(s.matrix, cell=CELL, side="left", rows=5)
    x = grid("$X$", at=(203, 99), columns=5, shape=("time", "d_x"), shape_side="right")
    for token in tokens:
        s.arrow(token, x, path="vhv")
    q = projected(s, "Q", "query", x, y=188, columns=4)
    k = projected(s, "K", "key", x, y=188, columns=4)
    v = projected(s, "V", "value", x, y=188, columns=5)
    attend(s, q, k, v, shade=example()["weights"])
    return s


def two_orders() -> Schematic:
    """The layer on a sentence and on the same words in another order: the same outputs, moved."""
    s = Schematic(
        400,
        232,
        alt="Two panels. On the left, self-attention reads bat bites man and gives an output for "
        "each word, drawn as a pattern of three cells. On the right it reads man bites bat. Each "
        "word has the same pattern as on the left; the patterns of bat and man have changed "
        "places, as the words have.",
    )
    for middle, order, below_it, above_it in (
        (100, (0, 1, 2), "$X$", "$f(X)$"),
        (300, (2, 1, 0), "$P X$", "$f(P X) = P f(X)$"),
    ):
        s.text(above_it, at=(middle, 20), kind="value")
        attention = s.layer("self-attention", at=(middle, 126), width=182, height=34)
        for place, word in enumerate(order):
            x = middle + 62 * (place - 1)
            output = s.vector(
                at=(x, 66),
                kind="value",
                shade=SHADES[word],
                upright=True,
                cell=(24, 16),
                name=f"{THREE[word]} {middle}",
            )
            token = s.token(THREE[word], at=(x, 184), width=56)
            s.arrow(token, (x, attention.bottom[1] + 3))
            s.arrow((x, attention.top[1] - 3), output, kind="value")
        s.text(below_it, at=(middle, 218))
    return s


def where_words_meet() -> Schematic:
    """Attention between networks that work at each position alone."""
    s = Schematic(
        400,
        330,
        alt="Three columns, one for each word, from bottom to top. A network at each position "
        "takes the vector of that position alone. In self-attention above it, nine arrows lead "
        "from each of the three positions to each. Then a network at each position follows again.",
    )
    columns = (76, 160, 244)
    levels = (312, 258, 204, 132, 78, 24)
    for word, x in zip(THREE, columns, strict=True):
        token = s.token(word, at=(x, levels[0]), width=60)
        low = s.layer("network", at=(x, levels[1]), width=74, height=30)
        high = s.layer("network", at=(x, levels[4]), width=74, height=30)
        s.arrow(token, low)
        s.arrow(low, (x, levels[2] + 6))
        s.arrow((x, levels[3] - 6), high)
        s.arrow(high, (x, levels[5] - 10))
        for other in columns:
            s.arrow((x, levels[2]), (other, levels[3]), kind="value")
    for y, text in (
        (levels[1], "each position\nalone"),
        ((levels[2] + levels[3]) / 2, "self-attention:\nall to all"),
        (levels[4], "each position\nalone"),
    ):
        s.text(text, at=(294, y), align="start", kind="value" if "self" in text else "plain")
    return s

"""The schematics of the chapter: one word's new vector, and how it comes about; a sentence that
attends to itself; the layer; how an answer is read off; a sentence in two orders. The numbers are
those of the running example.
"""

import math
from functools import partial
from itertools import pairwise

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


def whole(value: float) -> str:
    """A whole number, with a minus sign that is one."""
    return f"{value:g}".replace("-", "−")


def two_digits(value: float) -> str:
    """A number with two digits after the point, and a minus sign that is one."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def bat_here() -> Schematic:
    """What the layer is for: what the words of a sentence offer, and the new vector of one."""
    s = Schematic(
        400,
        290,
        alt="Below stand the words bat, bites, man, in and cave. Each offers a vector of two "
        "numbers, animal above equipment: bat 1 and 1, cave 1 and −1, the others 0 and 0. Lines "
        "lead from all five through self-attention to a new vector above bat: thick ones from bat "
        "and from cave, each with the weight 0.49, and thin ones from the others. The new vector "
        "holds animal 0.97 and equipment 0.00. Above each of the other words stands a new vector "
        "too.",
    )
    found = example()
    columns = (120, 183, 246, 309, 372)
    upright = partial(s.vector, kind="value", upright=True, cell=(46, 22), shape_side="")
    texts = [two_digits(one) for one in found["output"][0]]
    new = upright(at=(columns[0], 54), values=texts, name="new bat")
    s.text("bat, here", at=(columns[0], 18), kind="value", strong=True)
    s.text("likewise for each word", at=(397, 18), align="end", size=13)
    for middle in (new.y, 214):
        s.text("animal", at=(92, middle - 11), align="end", size=13)
        s.text("equipment", at=(92, middle + 11), align="end", size=13)
    s.text("offers", at=(92, 178), kind="value", align="end")
    for word, x, value, weight in zip(
        SENTENCE, columns, found["value"], found["weights"][0], strict=True
    ):
        offer = upright(at=(x, 214), values=[whole(one) for one in value], name=word)
        s.arrow(s.token(word, at=(x, 270), width=52), offer)
        if word != "bat":
            upright(at=(x, new.y), cells=2, name=f"new {word}")
        strong = weight > 0.4
        s.arrow(
            (offer.x, offer.top[1] - 3),
            (new.x + 0.09 * (x - new.x), new.bottom[1] + 6),
            two_digits(weight) if strong else "",
            kind="value" if strong else "plain",
            side="right" if word == "bat" else "above",
            dashed=not strong,
            along=0.28,
        )
    s.text("self-attention:", at=(397, 104), align="end", strong=True)
    s.text("a weighted average", at=(397, 124), align="end", size=13)
    return s


def way_of_bat() -> Schematic:
    """One word's vector on its way through the layer, with every number, from top to bottom."""
    found, x = example(), vectors_of()[0].tolist()
    query, keys, weights = found["query"][0], found["key"], found["weights"][0]
    products = [sum(a * b for a, b in zip(query, key, strict=True)) for key in keys]
    s = Schematic(
        400,
        560,
        alt="Four steps from top to bottom. 1, bat asks: its vector 1, 1, 0, 0, 0 times W^Q is its "
        "query 8, 0, 0, 0. 2, it compares: below the words bat, bites, man, in and cave stand "
        "their keys; query times key is 8 for bat and cave, 0 for the others; divided by the root "
        "of 4, that is 4 and 0. 3, it decides: softmax makes weights, 0.49 for bat and cave and "
        "0.01 for the others. 4, it averages: below stand the values, animal above equipment, 1 "
        "and 1 for bat and 1 and −1 for cave; each times its weight; added up they are the new "
        "vector of bat, animal 0.97 and equipment 0.00.",
    )
    columns, step = (124, 184, 244, 304, 364), 60
    for y, title in (
        (16, "1 asks"),
        (88, "2 compares"),
        (296, "3 decides"),
        (352, "4 averages the values"),
    ):
        s.text(title, at=(4, y), align="start", strong=True)
    small = partial(s.text, align="end", size=13)
    word = s.token("bat", at=(28, 46), width=44)
    old = s.vector(at=(112, 46), values=x, cell=(18, 22), name="x")
    w = s.layer("$W^Q$", at=(202, 46), kind="query", width=46)
    asks = s.vector("query", at=(294, 46), kind="query", values=query, cell=22, side="right")
    for start, end in pairwise((word, old, w, asks)):
        s.arrow(start, end, kind="query" if start is w else "plain")

    row = partial(s.vector, at=(columns[2], 0), shape_side="", cell=(step, 24))
    scores = row(at=(columns[2], 228), values=[whole(one) for one in products], name="products")
    small("query · key", at=(88, scores.y), kind="query")
    root = math.sqrt(len(query))
    divided = row(
        at=(columns[2], 268), values=[whole(one / root) for one in products], name="scores"
    )
    small(f"÷ √{len(query)}", at=(88, divided.y))
    softmax = row(
        at=(columns[2], 324),
        kind="query",
        values=[two_digits(one) for one in weights],
        shade=weights,
        name="weights",
    )
    small("softmax", at=(88, softmax.y))

    small("key", at=(88, 158), kind="key")
    upright = partial(s.vector, upright=True, shape_side="")
    added = []
    for name, column, key, value, weight in zip(
        SENTENCE, columns, keys, found["value"], weights, strict=True
    ):
        s.text(name, at=(column, 104), kind="key", size=13)
        k = upright(
            at=(column, 158),
            kind="key",
            values=[whole(one) for one in key],
            cell=(26, 20),
            name=f"key of {name}",
        )
        s.arrow(k, (column, scores.top[1]), kind="key")
        s.arrow((column, scores.bottom[1]), (column, divided.top[1]))
        s.arrow((column, divided.bottom[1]), (column, softmax.top[1]), kind="query")
        offer = upright(
            at=(column, 386),
            kind="value",
            values=[whole(one) for one in value],
            cell=(50, 22),
            name=f"value of {name}",
        )
        part = upright(
            at=(column, 454),
            kind="value",
            values=[two_digits(weight * one) for one in value],
            cell=(50, 22),
            name=f"part of {name}",
        )
        s.arrow(offer, part, kind="value")
        added.append(part)
    for y in (386, 454):
        small("animal", at=(88, y - 11), kind="value")
        small("equipment", at=(88, y + 11), kind="value")
    small("times weight", at=(88, 420))
    s.bracket(added, "added up", side="bottom")
    output = [two_digits(one) for one in found["output"][0]]
    upright(at=(columns[2], 534), kind="value", values=output, cell=(50, 22), name="output")
    s.text("bat, here", at=(columns[2] + 34, 534), kind="value", align="start", strong=True)
    small("animal", at=(columns[2] - 34, 523), kind="value")
    small("equipment", at=(columns[2] - 34, 545), kind="value")
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
        key = [whole(one) for one in found["key"][j]]
        k = number(at=(x, 80), kind="key", values=key, cell=(24, 18), upright=True, name=f"k {j}")
        value = [whole(one) for one in found["value"][j]]
        v = number(
            at=(x, 358), kind="value", values=value, cell=(28, 22), upright=True, name=f"v {j}"
        )
        s.arrow(k, (x, rows[0] - 16), kind="key")
        s.arrow(v, (x, rows[-1] + 16), kind="value")
    for i, (word, y) in enumerate(zip(SENTENCE, rows, strict=True)):
        lit = word == "bat"
        s.text(word, at=(42, y), kind="query", align="end", size=13)
        query = [whole(one) for one in found["query"][i]]
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


def from_word_to_answer() -> Schematic:
    """What the laboratory makes of a word's new vector, from bottom to top."""
    s = Schematic(
        400,
        330,
        alt="From bottom to top. The words bat, bites, man, in and cave enter self-attention. "
        "What it gives bat is added to the old vector of bat, which leads past it. A network "
        "looks at the sum, and a linear layer makes a score of it for each German word, such as "
        "Fledermaus, Schläger and the question mark. The largest score is the answer.",
    )
    x = 120
    columns = (x, 181, 242, 302, 362)
    attention = s.layer("self-attention", at=(241, 240), width=292, height=32)
    tokens = [
        s.token(word, at=(column, 312), width=50)
        for word, column in zip(SENTENCE, columns, strict=True)
    ]
    for token, column in zip(tokens, columns, strict=True):
        s.arrow(token, (column, attention.bottom[1] + 3))
    total = s.sum(at=(x, 186))
    s.arrow((x, attention.top[1] - 3), total, kind="value")
    s.line([(x, 282), (48, 282), (48, 186)])
    s.arrow((48, 186), total)
    network = s.layer("network", at=(x, 132), width=92, height=30)
    linear = s.layer("linear", at=(x, 84), width=92, height=30)
    s.arrow(total, network)
    s.arrow(network, linear)
    words = ["Fledermaus", "Schläger", "?", "…"]
    scores = s.vector(
        at=(200, 26), values=words, shade=(0.9, 0.2, 0.1, 0.1), cell=(90, 26), shape_side=""
    )
    s.arrow(linear, (x, scores.bottom[1] + 3))
    for y, text in (
        (186, "the old vector of bat, and what it found"),
        (132, "looks at one word at a time"),
        (84, "a score for each German word"),
    ):
        s.text(text, at=(396, y), align="end", size=13)
    return s

"""The schematics of the chapter: a sentence that attends to itself; the layer; its blindness."""

from functools import partial

from drawing.attention import CELL, attend, projected
from drawing.schematic import Schematic

WORDS = ("dog", "bites", "man")
QUERIES = ((0, 0.98), (0.98, 0), (0, 1.96))  # of the example
KEYS = ((1, 0), (0, 1), (1, 0))
WEIGHTS = ((0.25, 0.5, 0.25), (0.4, 0.2, 0.4), (0.17, 0.67, 0.17))
VALUES = (1, 0, 2)
OUTPUTS = (0.75, 1.2, 0.5)
SHADES = ((0.9, 0.2, 0.5), (0.1, 0.6, 1.0), (0.5, 0.9, 0.0))  # one pattern for each word's output


def every_word_asks() -> Schematic:
    """The example with its numbers: queries down, keys across, the row of one word lit."""
    s = Schematic(
        400,
        318,
        alt="Three words ask, one in each row: dog, bites and man, each with its query. The same "
        "three words answer, one in each column, each with its key. In the row of bites, which is "
        "lit, the weights are 0.40, 0.20 and 0.40. Under the columns are the values 1, 0 and 2. At "
        "the right are the outputs 0.75, 1.20 and 0.50.",
    )
    columns, rows = (170, 224, 278), (138, 184, 230)
    number = partial(s.vector, shape_side="")
    s.text("key", at=(102, 62), kind="key", align="end")
    s.text("query", at=(102, 98), kind="query", align="end")
    s.text("output", at=(362, 98), kind="value")
    s.text("value", at=(134, 288), kind="value", align="end")
    for word, x, key, value in zip(WORDS, columns, KEYS, VALUES, strict=True):
        token = s.token(word, at=(x, 20), kind="key", width=50)
        k = number(at=(x, 62), kind="key", values=[f"{one:g}" for one in key], cell=(22, 22))
        v = number(at=(x, 288), kind="value", values=[value], cell=(40, 26), name=f"v {word}")
        s.arrow(token, k, kind="key")
        s.arrow(k, (x, rows[0] - 18), kind="key")
        s.arrow(v, (x, rows[-1] + 18), kind="value")
    for word, y, query, row, output in zip(WORDS, rows, QUERIES, WEIGHTS, OUTPUTS, strict=True):
        lit = "query" if word == "bites" else "plain"
        token = s.token(word, at=(28, y), kind="query", width=50)
        texts = [f"{one:g}" for one in query]
        q = number(at=(97, y), kind="query", values=texts, cell=(33, 22), name=f"q {word}")
        a = number(
            at=(columns[1], y),
            kind=lit,
            values=[f"{one:.2f}" for one in row],
            shade=row if lit == "query" else (),
            cell=(54, 30),
            name=f"a {word}",
        )
        o = number(
            at=(362, y), kind="value", values=[f"{output:.2f}"], cell=(50, 26), name=f"o {word}"
        )
        s.arrow(token, q, kind="query")
        s.arrow(q, a, kind="query")
        s.arrow(a, o, kind="value")
    return s


def one_layer() -> Schematic:
    """Self-attention with all its shapes, from the vectors of one sentence to the outputs."""
    s = Schematic(
        400,
        622,
        alt="The vectors of dog bites man are the rows of one matrix X. Three matrices, W^Q, W^K "
        "and W^V, make queries Q, keys K and values V of the same X. Q times K transposed, over "
        "the root of d_k, gives a square of scores; softmax of each row makes weights; the weights "
        "times V are the outputs, one for each word.",
    )
    tokens = s.row(s.token, WORDS, at=(203, 20), step=66)
    grid = partial(s.matrix, cell=CELL, side="left", rows=3)
    x = grid("$X$", at=(203, 86), columns=5, shape=("time", "d_x"), shape_side="right")
    for token in tokens:
        s.arrow(token, x, path="vhv")
    q = projected(s, "Q", "query", x, y=162, columns=4)
    k = projected(s, "K", "key", x, y=162, columns=4)
    v = projected(s, "V", "value", x, y=162, columns=2)
    attend(s, q, k, v, shade=[list(row) for row in WEIGHTS])
    return s


def two_orders() -> Schematic:
    """The layer on a sentence and on the same words in another order: the same outputs, moved."""
    s = Schematic(
        400,
        232,
        alt="Two panels. On the left, self-attention reads dog bites man and gives an output for "
        "each word, drawn as a pattern of three cells. On the right it reads man bites dog. Each "
        "word has the same pattern as on the left; the patterns of dog and man have changed "
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
                name=f"{WORDS[word]} {middle}",
            )
            token = s.token(WORDS[word], at=(x, 184), width=56)
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
    for word, x in zip(WORDS, columns, strict=True):
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

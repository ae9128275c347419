"""The schematics of the chapter: the example, the layer, the split, one head off or misled."""

from collections.abc import Sequence
from functools import partial

from chapters.multi_head.items import givers
from drawing.attention import projections_of_head
from drawing.schematic import Schematic

# The example. One head: the query of *bites*, the keys of the three words, first, second, third,
# their values, animal, person, action, the scores, and what is found. Then the weights of *bites*,
# of one head and of two, what the two find, and W^O, whose columns are: an animal bites, a person
# bites, an animal is bitten, a person is bitten, an animal is there, a person is there. The tests
# compute all of it.
WORDS = ("bat", "bites", "man")
QUERY, KEYS = (8, 0, 8), ((1, 0, 0), (0, 1, 0), (0, 0, 1))
VALUES = ((1, 0, 0), (0, 0, 1), (0, 1, 0))
SCORES, BLEND = (4.62, 0.00, 4.62), (0.50, 0.50, 0.00)
BOTH, LEFT, RIGHT = (0.50, 0.00, 0.50), (0.98, 0.01, 0.01), (0.01, 0.01, 0.98)
FOUND = ((0.98, 0.01, 0.01), (0.01, 0.98, 0.01))  # animal, person, action, of each head
W_O = (
    ((1, 0, 0, 0, 1, 0), (0, 1, 0, 0, 0, 1), (0, 0, 0, 0, 0, 0)),
    ((0, 0, 1, 0, 1, 0), (0, 0, 0, 1, 0, 1), (0, 0, 0, 0, 0, 0)),
)
OUTPUT = (0.98, 0.01, 0.01, 0.98, 0.99, 0.99)

# The first words of the sentence of the figure with the maps, and what a head finds for the words
# of each item: much the same, since they look at the same separator.
LIST = ("fifteen", "canadian", "dollars", ",", "twenty", "two", "argentine", "pesos")
FOUND_FOR = (
    *((0.9, 0.2, 0.5), (0.8, 0.3, 0.4), (0.9, 0.3, 0.5)),
    (0.4, 0.4, 0.4),
    *((0.1, 0.6, 1.0), (0.2, 0.6, 0.9), (0.1, 0.7, 0.9), (0.2, 0.5, 1.0)),
)


def figures(numbers: Sequence[float]) -> list[str]:
    """Numbers with two digits behind the point."""
    return [f"{one:.2f}" for one in numbers]


def one_look_or_two() -> Schematic:
    """A sentence and its mirror image: one head finds the same blend in both, two heads do not."""
    s = Schematic(
        400,
        356,
        alt="Two panels: bat bites man, and man bites bat. In both, the one head of bites gives "
        "half of its weight to the word on the left and half to the word on the right, and finds "
        "half bat, half man. With two heads, head 1 gives 0.98 to the word on the left and head 2 "
        "gives 0.98 to the word on the right. In bat bites man they find bat and man, in man bites "
        "bat they find man and bat.",
    )
    for middle, words in ((102, ("bat", "bites", "man")), (298, ("man", "bites", "bat"))):
        tokens = s.row(s.token, words, at=(middle, 22), step=60, width=54)
        weights = partial(s.vector, kind="query", cell=(60, 26))
        s.text("one head of bites", at=(middle, 62), strong=True)
        both = weights(at=(middle, 88), values=figures(BOTH), shade=BOTH, name=f"both {middle}")
        blend = s.vector(
            at=(middle, 142),
            kind="value",
            values=["half bat, half man"],
            cell=(150, 28),
            name=f"blend of {tokens[0].name} first",
        )
        s.arrow(both, blend, kind="value")
        s.text("two heads of bites", at=(middle, 194), strong=True)
        left = weights(at=(middle, 220), values=figures(LEFT), shade=LEFT, name=f"left {middle}")
        pair = s.vector(
            at=(middle, 276),
            kind="value",
            values=[words[0], words[2]],
            cell=(75, 28),
            name=f"pair {middle}",
        )
        right = weights(
            at=(middle, 332), values=figures(RIGHT), shade=RIGHT, name=f"right {middle}"
        )
        x = middle - 37.5
        s.arrow((x, left.y + 16), (x, pair.y - 17), "head 1", kind="value", side="right")
        x = middle + 37.5
        s.arrow((x, right.y - 16), (x, pair.y + 17), "head 2", kind="value", side="left")
    return s


def one_head_in_numbers() -> Schematic:
    """One head of *bites*, from its query and the keys to the blend that it finds."""
    s = Schematic(
        400,
        306,
        alt="A table with a row for each word that bites looks at. The query of bites, 8 0 8, is "
        "compared with the keys: 1 0 0 of bat, 0 1 0 of bites itself, 0 0 1 of man. The scores are "
        "4.62, 0.00 and 4.62, and the softmax makes the weights 0.50, 0.00 and 0.50 of them. Each "
        "weight multiplies the value in its row: animal of bat, action of bites, person of man. "
        "Their sum is the new vector: animal 0.50, person 0.50, action 0.00.",
    )
    key, score, weight, value = 124, 209, 270, 345
    small = partial(s.vector, cell=(24, 24), shape_side="")
    number = partial(s.vector, cell=(44, 24), shape_side="")
    query = small(at=(key, 42), kind="query", values=QUERY, name="query")
    s.text("query of bites", at=(key, 16), kind="query")
    s.arrow(query, (score, 70), path="hv", kind="query")
    for x, name, kind in (
        (key, "key", "key"),
        (score, "score", "plain"),
        (weight, "weight", "query"),
        (value, "value", "value"),
    ):
        s.text(name, at=(x, 82), kind=kind)
    rows = zip(WORDS, KEYS, SCORES, BOTH, VALUES, (112, 152, 192), strict=True)
    for word, k, points, w, v, y in rows:
        s.token(word, at=(42, y), width=56)
        k = small(at=(key, y), kind="key", values=k, name=f"key of {word}")
        points = number(at=(score, y), values=figures([points]), name=f"score of {word}")
        w = number(at=(weight, y), kind="query", values=figures([w]), shade=[w], name=f"w {word}")
        last = small(at=(value, y), kind="value", values=v, shape=("d_v",), name=f"value of {word}")
        s.arrow(k, points, kind="key")
        s.arrow(points, w)
        s.arrow(w, last, kind="query")
    s.text("first, second, third", at=(key, 218), kind="key", size=13)
    found = s.vector(
        at=(value - 25, 254),
        kind="value",
        values=figures(BLEND),
        shade=BLEND,
        cell=(50, 26),
        shape=("d_v",),
        shape_side="",
        name="found",
    )
    s.arrow((value, 207), (value, found.top[1] - 3), kind="value")
    s.text("sum of weight times value", at=(found.left[0] - 8, 254), kind="value", align="end")
    for name, step in (("animal", -50), ("person", 0), ("action", 50)):
        s.text(name, at=(found.x + step, 284), kind="value", size=13)
    return s


def findings_and_output() -> Schematic:
    """What the two heads of *bites* find, the rows of W^O that belong to each, and the output."""
    s = Schematic(
        400,
        330,
        alt="Each of the six numbers that the heads of bites have found stands beside its own row "
        "of W^O. Head 1, with 0.98 animal, writes into the columns animal bites and animal there. "
        "Head 2, with 0.98 person, writes into person bitten and person there. The sum is the "
        "output: animal bites 0.98, person bites 0.01, animal bitten 0.01, person bitten 0.98, "
        "animal there 0.99, person there 0.99.",
    )
    cell, middle, column = (49, 26), 248, 73
    for i, (found, rows, y) in enumerate(zip(FOUND, W_O, (76, 190), strict=True), start=1):
        s.text(f"head {i}", at=(column, y - 53), kind="value")
        s.text(f"$W_{i}^O$", at=(middle, y - 53))
        s.vector(
            at=(column, y),
            kind="value",
            values=figures(found),
            shade=found,
            upright=True,
            cell=(43, 26),
            shape=("d_v",),
            shape_side="",
            name=f"head {i}",
        )
        s.matrix(
            at=(middle, y),
            values=[[str(one) for one in row] for row in rows],
            shade=[[0.5 * one for one in row] for row in rows],
            cell=cell,
            shape=("d_v", "d_{model}"),
            shape_side="",
            name=f"W_{i}^O",
        )
        for name, step in (("animal", -26), ("person", 0), ("action", 26)):
            s.text(name, at=(column - 26, y + step), align="end", size=13)
    s.arrow((middle, 229), (middle, 254))
    s.text("sum", at=(middle + 10, 241), align="start", size=13)
    s.vector(
        at=(middle, 270),
        values=figures(OUTPUT),
        shade=[0.5 * one for one in OUTPUT],
        cell=cell,
        shape=("d_{model}",),
        shape_side="",
        name="output",
    )
    names = ("animal\nbites", "person\nbites", "animal\nbitten", "person\nbitten")
    for i, name in enumerate((*names, "animal\nthere", "person\nthere")):
        s.text(name, at=(middle + (i - 2.5) * cell[0], 305), size=13)
    s.text("output", at=(95, 270), align="end")
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


def items_exchanged() -> Schematic:
    """Which words get whose finding of a head when two items are exchanged in it."""
    s = Schematic(
        400,
        296,
        alt="Eight words stand below one another: fifteen canadian dollars, a comma, twenty two "
        "argentine pesos. Beside each stands what head 3 has found for it, and on the right what "
        "it gets instead. Arrows lead from the finding of fifteen to the four words of item 2, and "
        "from the finding of twenty to the three words of item 1. The comma keeps its own.",
    )
    left, right, start, step = 158, 330, 62, 31
    s.text("head 3\nfound", at=(left, 22), kind="value")
    s.text("the word\ngets", at=(right, 22), kind="value")
    giver = givers(LIST, 0, 1)
    given = set(giver)
    heights = [start + step * i for i in range(len(LIST))]
    finding = partial(s.vector, kind="value", cell=(18, 18))
    for i, (word, y) in enumerate(zip(LIST, heights, strict=True)):
        s.text(word, at=(left - 40, y), align="end", strong=i in given and word != ",")
        found = finding(at=(left, y), shade=FOUND_FOR[i], name=f"found {i}")
        gets = finding(at=(right, y), shade=FOUND_FOR[giver[i]], name=f"gets {i}")
        begin, end = (found.right[0] + 3, heights[giver[i]]), (gets.left[0] - 3, y)
        s.arrow(begin, end, kind="plain" if giver[i] == i else "value")
    return s

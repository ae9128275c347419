"""The pictures of "The Transformer in ten pictures" that no chapter has.

They follow one sentence through the book's trained translator; the tests compute their numbers.
"""

from collections.abc import Sequence
from functools import partial

from chapters.transformer.schematics import SOURCE, TARGET, add_and_norm, sublayers
from drawing.schematic import Part, Point, Schematic

READ = (*SOURCE, "<eos>")
SAID = TARGET[1:-1]  # the French words, without the marks at both ends

# The second head of the encoder's first layer: how much each word takes from each.
ONE_HEAD = (
    (0.14, 0.61, 0.03, 0.10, 0.12),
    (0.62, 0.10, 0.01, 0.01, 0.26),
    (0.00, 0.01, 0.10, 0.88, 0.01),
    (0.00, 0.01, 0.03, 0.94, 0.02),
    (0.21, 0.17, 0.13, 0.14, 0.35),
)
# *colombian* in the four heads of that layer.
FOUR_HEADS = (
    (0.06, 0.08, 0.41, 0.27, 0.18),
    (0.00, 0.01, 0.10, 0.88, 0.01),
    (0.01, 0.00, 0.87, 0.11, 0.00),
    (0.01, 0.01, 0.13, 0.84, 0.01),
)
# Where the decoder looks before it writes each French word: the second cross-attention, the mean of
# its heads.
ACROSS = (
    (0.80, 0.19, 0.00, 0.00, 0.00),
    (0.29, 0.04, 0.19, 0.48, 0.00),
    (0.33, 0.59, 0.00, 0.07, 0.00),
    (0.01, 0.65, 0.00, 0.34, 0.00),
    (0.00, 0.00, 0.04, 0.95, 0.00),
    (0.00, 0.00, 0.86, 0.12, 0.02),
)
HALF = 0.5  # a look is drawn if it takes more than half of the weight
PAIRS = (0, 4, 8)  # the pairs of sine and cosine that are drawn, of the 32 of 64 numbers
D_MODEL = 64
FRENCH = 156  # words that the translator can say, its marks among them


def turn(position: int, pair: int) -> float:
    """How far the hand of a pair of sine and cosine has turned at a position, in radians."""
    return position / 10_000 ** (2 * pair / D_MODEL)


def words_and_places() -> Schematic:
    """A word becomes a vector, to which the hands of several clocks are added."""
    s = Schematic(
        400,
        338,
        alt="The four words ninety, seven, colombian, pesos. Each becomes a vector. To each vector "
        "is added the place of its word, drawn as three clocks with one hand. At the first word "
        "all hands point up. From word to word the fast hand turns by 57 degrees, the slower one "
        "by 18 and the slow one by 6. Each hand is a sine and a cosine.",
    )
    columns = (122, 188, 266, 350)
    for label, y in (("word", 24), ("its vector", 84), ("+", 126)):
        s.text(label, at=(6, y), align="start", size=14)
    for (pair, label), y in zip(
        zip(PAIRS, ("fast hand", "slower hand", "slow hand"), strict=True),
        (170, 218, 266),
        strict=True,
    ):
        s.text(label, at=(6, y), align="start", size=14)
        for position, x in enumerate(columns):
            s.dial(turn(position, pair), at=(x, y), kind="key")
    for position, (word, x) in enumerate(zip(SOURCE, columns, strict=True)):
        token = s.token(word, at=(x, 24), kind="source")
        vector = s.vector(at=(x, 84), kind="source", cells=4, cell=13, name=f"vector of {word}")
        s.arrow(token, vector, kind="source")
        s.sum(at=(x, 126), kind="source")
        s.text(f"place {position}", at=(x, 312), kind="soft", size=13)
    return s


def strongest(weights: Sequence[Sequence[float]]) -> list[int | None]:
    """For each row the place of the weight above one half, None where there is none."""
    return [
        max(range(len(row)), key=row.__getitem__) if max(row) > HALF else None for row in weights
    ]


def looks(
    s: Schematic,
    above: Sequence[Part],
    below: Sequence[Part],
    weights: Sequence[Sequence[float]],
    *,
    kind: str,
) -> None:
    """Draw a line from each word below to the one above that has more than half of its weight."""
    for part, row, found in zip(below, weights, strongest(weights), strict=True):
        if found is not None:
            s.arrow(part, above[found], kind=kind)
            s.text(f"{row[found]:.2f}", at=(part.x, part.bottom[1] + 14), kind=kind)


def every_word_asks() -> Schematic:
    """Self-attention: each word of the source takes most from the word that it needs."""
    s = Schematic(
        400,
        212,
        alt="The five English tokens stand twice, one row above the other. Lines lead from each "
        "word below to the word above that it takes most from, with the weight: ninety to seven "
        "0.61, seven to ninety 0.62, colombian to pesos 0.88, pesos to itself 0.94. The end mark "
        "takes something from all of them, and more than half from none.",
    )
    columns = (36, 108, 196, 284, 352)
    above, below = (
        [
            s.token(word, at=(x, y), kind="source", name=f"{side} {word}")
            for word, x in zip(READ, columns, strict=True)
        ]
        for side, y in (("read", 48), ("asks", 152))
    )
    s.text("what it takes from", at=(4, 16), align="start", size=14)
    looks(s, above, below, ONE_HEAD, kind="source")
    s.text("who asks, and with which weight", at=(4, 202), align="start", size=14)
    return s


def four_heads() -> Schematic:
    """One word asks four questions at once, and the four answers lie side by side."""
    s = Schematic(
        400,
        320,
        alt="The word colombian asks in four heads at once. A table of four rows shows its weights "
        "on ninety, seven, colombian, pesos and the end mark. Head 1 spreads them, 0.41 on itself. "
        "Head 2 has 0.88 on pesos. Head 3 has 0.87 on itself. Head 4 has 0.84 on pesos. Each head "
        "gives 16 numbers. Side by side they are 64, and the matrix W^O mixes them.",
    )
    asking = s.token("colombian", at=(46, 22), kind="source", name="asks")
    s.text("asks four times:", at=(asking.right[0] + 8, 22), align="start")
    wide, high, left = 60, 28, 90
    for word, x in zip(READ, range(left + wide // 2, 400, wide), strict=False):
        s.text(word, at=(x, 62), kind="source", size=13)
    table = s.matrix(
        at=(left + wide * len(READ) / 2, 76 + high * 2),
        kind="query",
        values=[[f"{weight:.2f}" for weight in row] for row in FOUR_HEADS],
        shade=FOUR_HEADS,
        cell=(wide, high),
        name="weights",
    )
    for head in range(len(FOUR_HEADS)):
        y = table.corner[1] + high * (head + 0.5)
        s.text(f"head {head + 1}", at=(left - 8, y), kind="query", align="end")
    joined = s.vector(at=(240, 232), kind="value", cells=16, cell=18, name="heads side by side")
    for head in range(len(FOUR_HEADS)):
        middle = joined.corner[0] + joined.width * (head + 0.5) / len(FOUR_HEADS)
        s.text(f"head {head + 1}", at=(middle, 208), kind="value", size=13)
    s.arrow((240, table.bottom[1] + 2), (240, 198), kind="value")
    s.text("4 times\n16 numbers", at=(4, 232), kind="value", align="start", size=13)
    mixed = s.layer("$W^O$", at=(240, 286), width=60)
    s.arrow(joined, mixed, kind="value")
    s.text("what it found", at=(396, 286), align="end", size=13)
    s.arrow(mixed, (300, 286))
    return s


def added_not_replaced() -> Schematic:
    """One word's way through an encoder layer, and the network of the second step, magnified."""
    s = Schematic(
        400,
        356,
        alt="On the left the path of one word runs down. Self-attention reads a copy of it, its "
        "result is added to it, and a norm follows; then a feed-forward network in the same way. "
        "On the right the network is magnified: 64 numbers, the matrix W_1, 128 numbers of which "
        "the negative ones become 0, the matrix W_2, 64 numbers.",
    )
    s.text("one word's path", at=(6, 14), align="start", strong=True)
    _, network = sublayers(
        s,
        ("self-attention", "feed-forward\nnetwork"),
        stream=27,
        box=116,
        y=28,
        kind="source",
    )
    s.text("one encoder layer", at=(6, 344), align="start", size=13)
    x = 306
    s.text("the network inside", at=(x, 14), strong=True)
    cells = partial(s.vector, kind="value", cell=12)
    first = cells(at=(x, 58), cells=4, name="in")
    wide = cells(at=(x, 176), cells=14, name="between")
    last = cells(at=(x, 312), cells=4, name="out")
    upper = s.layer("$W_1$", at=(x, 108), width=56, height=30)
    lower = s.layer("$W_2$", at=(x, 264), width=56, height=30)
    s.text("64 numbers", at=(x, 40), kind="soft", size=13)
    s.text("128 numbers,\nthose below 0 become 0", at=(x, 206), kind="soft", size=13)
    s.text("64 again", at=(x, 332), kind="soft", size=13)
    for one, other in ((first, upper), (upper, wide), (lower, last)):
        s.arrow(one, other)
    s.arrow((x, 226), lower)
    s.line([network.right, (204, network.y), (204, first.y), first.left], kind="soft", dashed=True)
    return s


def across() -> Schematic:
    """Cross-attention: where the decoder looks before it writes each French word."""
    s = Schematic(
        400,
        232,
        alt="Above the English words ninety, seven, colombian, pesos and the end mark, below the "
        "French words that the model writes. A line leads from each French word to the English one "
        "at which the decoder looks before it writes it: quatre to ninety 0.80, dix to seven 0.59, "
        "sept to seven 0.65, pesos to pesos 0.95, colombiens to colombian 0.86. The last two lines "
        "cross. Before vingt no English word has more than half of the weight.",
    )
    columns: tuple[Point, ...] = ((46, 48), (128, 48), (218, 48), (298, 48), (364, 48))
    places = (40, 104, 158, 210, 266, 346)
    above = [
        s.token(word, at=at, kind="source", name=f"English {word}")
        for word, at in zip(READ, columns, strict=True)
    ]
    below = [
        s.token(word, at=(x, 170), kind="target", name=f"French {word}")
        for word, x in zip(SAID, places, strict=True)
    ]
    s.text("the encoder has read", at=(4, 16), align="start", size=14)
    looks(s, above, below, ACROSS, kind="target")
    s.text("the decoder writes, looking there", at=(4, 220), align="start", size=14)
    return s


def side(
    s: Schematic, kind: str, names: Sequence[str], *, is_left: bool
) -> tuple[list[Part], Point]:
    """Draw one half of the model, from its embedding to the end of its layers.

    Returns: the boxes of a layer's steps, and where the path of a word leaves the last layer.
    """

    def across(x: int) -> int:
        return x if is_left else 400 - x

    stream, top, step = across(27), 150, 116
    start = s.layer(
        "embedding\n+ positions", at=(across(88), 98), width=156, name=f"{kind} embedding"
    )
    s.arrow((start.x, 60), start, kind=kind)
    s.text("2 layers", at=(across(182), 136), kind="soft", align="end" if is_left else "start")
    low: Part | Point = (stream, start.bottom[1])
    boxes, inside = [], []
    for n, name in enumerate(names):
        y = top + step * n
        box = s.layer(name, at=(across(116), y + 38), width=128, height=40, name=f"{kind} {name}")
        low = add_and_norm(s, box, low, stream=stream, ys=(y + 6, y + 72, y + 98), kind=kind)
        boxes.append(box)
        inside += [box, low]
    s.group([*inside, Part("", stream, top, 0, 0)], pad=3)
    return boxes, inside[-1].bottom


def stacked() -> Schematic:
    """All of it, from the words to the next one: the layers with their sums and norms."""
    s = Schematic(
        400,
        622,
        alt="On the left the encoder, on the right the decoder, both from top to bottom. The words "
        "become vectors, 5 words of 64 numbers each, and their positions are added. Two encoder "
        "layers follow, each with self-attention and a feed-forward network. They give the "
        "memory, 5 times 64 numbers. Each of two decoder layers has masked self-attention, then "
        "cross-attention, which an arrow from the memory enters, then a feed-forward network. What "
        "each of them finds is added to the path of the word, and a norm follows. At the end the "
        f"projection gives each position {FRENCH} scores. The best of the last row is pesos.",
    )
    s.text("encoder", at=(88, 12), kind="source", strong=True)
    s.text("decoder", at=(312, 12), kind="target", strong=True)
    s.text("ninety seven\ncolombian pesos <eos>", at=(88, 41), kind="source", size=13)
    s.text("<bos> quatre\nvingt dix sept", at=(312, 41), kind="target", size=13)
    _, (x, y) = side(s, "source", ("self-attention", "feed-forward"), is_left=True)
    names = ("self-attention,\ncausal mask", "cross-attention", "feed-forward")
    (_, cross, _), (stream, end) = side(s, "target", names, is_left=False)
    memory = s.matrix(at=(x + 20, y + 64), rows=5, columns=6, kind="source", cell=12)
    s.stream((x, y), (x, memory.top[1] - 2), kind="source")
    s.text("memory", at=(x - 16, memory.bottom[1] + 16), kind="source", align="start")
    s.text(
        f"5 words × {D_MODEL}\nnumbers",
        at=(x - 16, memory.bottom[1] + 46),
        kind="soft",
        align="start",
        size=13,
    )
    s.arrow(memory, cross, through=[(199, memory.y), (199, cross.y)], kind="source")
    projection = s.layer("projection", at=(312, end + 38), width=156, height=30)
    s.stream((stream, end), (stream, projection.top[1] - 2), kind="target")
    following = s.token("pesos", at=(312, end + 98), kind="target", name="next")
    s.arrow(projection, following, kind="target")
    s.text(f"5 words × {FRENCH} scores", at=(302, end + 66), kind="soft", align="end", size=13)
    s.text(
        "best in the last row:",
        at=(following.left[0] - 8, following.y),
        kind="soft",
        align="end",
        size=13,
    )
    return s

"""The schematics: who reads what, attention in numbers, the shift, the layers, all of it, one word.

Their numbers are those of the book's trained translator; the tests compute them.
"""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from drawing.schematic import Part, Point, Schematic

SOURCE = ("ninety", "seven", "colombian", "pesos")
WRITTEN = ("<bos>", "quatre", "vingt", "dix", "sept")  # what the decoder reads
NEXT = ("pesos", 1.00)  # what it predicts then, and how sure it is
TARGET = (*WRITTEN, "pesos", "colombiens", "<eos>")  # the whole translation

# The small example of the text. A query and a key have a number for "can be counted" and one for
# "says where from"; a value has one for *peso* and one for *colombien*.
QUERY = (3, 0)  # at *sept*
KEYS = ((0, 0), (0, 0), (0, 2), (2, 0))
VALUES = ((0, 0), (0, 0), (0, 1), (1, 0))


class Step(NamedTuple):
    """A step of the decoder at the position of *sept*.

    looks    the word with the largest weight, in the mean of the heads, and that weight
    guess    what the model would predict if the decoder stopped there, and its probability
    """

    name: str
    looks: tuple[str, float] | None
    guess: tuple[str, float]


STEPS = (
    Step("embedding", None, ("mètres", 0.59)),
    Step("self-attention 1", ("<bos>", 0.38), ("couronnes", 0.38)),
    Step("cross-attention 1", ("pesos", 0.88), ("pesos", 0.65)),
    Step("feed-forward 1", None, ("pesos", 0.62)),
    Step("self-attention 2", ("<bos>", 0.63), ("pesos", 0.64)),
    Step("cross-attention 2", ("pesos", 0.95), ("pesos", 1.00)),
    Step("feed-forward 2", None, ("pesos", 1.00)),
)


def who_reads_what() -> Schematic:
    """The whole idea: the encoder reads, the decoder writes a word at a time and reads both."""
    s = Schematic(
        400,
        352,
        alt="Above stand the English words ninety seven colombian pesos, and an end mark. They go "
        "into the encoder, in which every word reads every word, and come out as five vectors, the "
        "memory. The decoder gets the memory, and from below the French words so far: start mark, "
        "quatre, vingt, dix, sept. In it every word reads itself, those before it, and the memory. "
        "Out comes the next word, pesos, with a probability of 1.00. It is appended to the others, "
        "and the decoder is asked again.",
    )
    columns = (32, 93, 169, 245, 306)
    encoder = s.layer("encoder\nevery word reads every word", at=(168, 92), width=332, height=52)
    decoder = s.layer(
        "decoder\nevery word reads itself and those before it,\nand then the memory",
        at=(168, 222),
        width=332,
        height=70,
    )
    for word, x in zip((*SOURCE, "<eos>"), columns, strict=True):
        token = s.token(word, at=(x, 22), kind="source")
        vector = s.vector(at=(x, 150), kind="source", cells=4, cell=11, name=f"memory of {word}")
        s.arrow(token, (x, encoder.top[1] - 3), kind="source")
        s.arrow((x, encoder.bottom[1] + 3), vector, kind="source")
        s.arrow(vector, (x, decoder.top[1] - 3), kind="source")
    s.text("memory", at=(338, 150), kind="source", align="start")
    for word, x in zip(WRITTEN, (30, 93, 155, 208, 258), strict=True):
        token = s.token(word, at=(x, 310), kind="target")
        s.arrow(token, (x, decoder.bottom[1] + 3), kind="target")
    word, probability = NEXT
    following = s.token(word, at=(370, decoder.y), kind="target", name="next")
    s.text(f"{probability:.2f}", at=(370, decoder.y - 26), kind="target")
    s.arrow(decoder, following, kind="target")
    s.arrow(following, (288, 310), path="vh", kind="target", dashed=True)
    s.text("one more word, and again", at=(394, 338), kind="target", align="end", size=13)
    return s


def one_question() -> Schematic:
    """Attention in numbers: *sept* asks the four English words what is counted."""
    scores = [sum(map(float.__mul__, map(float, QUERY), map(float, key))) for key in KEYS]
    sizes = [math.exp(score / math.sqrt(len(QUERY))) for score in scores]
    weights = [size / sum(sizes) for size in sizes]
    output = [sum(w * value[i] for w, value in zip(weights, VALUES, strict=True)) for i in (0, 1)]
    s = Schematic(
        400,
        392,
        alt="The French word sept asks with the query (3, 0): what is counted? The keys of ninety "
        "and seven are (0, 0), that of colombian is (0, 2), that of pesos (2, 0). The scores are "
        "0, 0, 0 and 6, divided by the root of 2: 0, 0, 0 and 4.2. Softmax makes the weights 0.01, "
        "0.01, 0.01 and 0.96. The values are (0, 0), (0, 0), (0, 1) and (1, 0), and their weighted "
        "average is (0.96, 0.01): nearly the value of pesos.",
    )
    columns = (112, 176, 256, 346)
    asking = s.token("sept", at=(36, 24), kind="target")
    query = s.vector("", at=(132, 24), kind="query", values=QUERY, name="query")
    s.arrow(asking, query, kind="query")
    s.text("the query: what is counted?", at=(170, 24), kind="query", align="start")
    for label, y in (
        ("key", 136),
        ("score", 180),
        ("÷ √2", 214),
        ("weight", 258),
        ("value", 302),
        ("output", 364),
    ):
        s.text(label, at=(6, y), align="start", size=14)
    for n, (word, x) in enumerate(zip(SOURCE, columns, strict=True)):
        s.token(word, at=(x, 84), kind="source")
        s.vector("", at=(x, 136), kind="key", values=KEYS[n], name=f"key of {word}")
        s.text(f"{scores[n]:.0f}", at=(x, 180))
        s.text(f"{scores[n] / math.sqrt(len(QUERY)):.1f}", at=(x, 214))
        s.text(f"{weights[n]:.2f}", at=(x, 258), strong=weights[n] > 0.5)
        s.vector("", at=(x, 302), kind="value", values=VALUES[n], name=f"value of {word}")
    out = s.vector("", at=(144, 364), kind="value", values=[f"{x:.2f}" for x in output])
    s.text("nearly what pesos says", at=(out.right[0] + 10, 364), kind="value", align="start")
    return s


def shift_and_mask() -> Schematic:
    """What each position of the decoder reads, may look at and must predict."""
    reads, predicts = TARGET[:-1], TARGET[1:]
    rows = "; ".join(f"{a}, then {b}" for a, b in pairwise(TARGET))
    s = Schematic(
        400,
        262,
        alt="Seven rows, one for each position of the decoder. Left the word that it reads, right "
        f"the word that it must predict: {rows}. Between them a triangle: position 0 may look at "
        "itself, position 1 at 0 and 1, and so on to position 6, which may look at all seven. "
        "What comes later is crossed out.",
    )
    size = 27
    s.text("reads", at=(82, 18), align="end", strong=True)
    s.text("may look at", at=(194, 18), strong=True)
    s.text("must predict", at=(296, 18), align="start", strong=True)
    n = len(reads)
    allowed = [[key <= query for key in range(n)] for query in range(n)]
    top = 52
    s.mask(
        "",
        allowed,
        at=(194, top + size * n / 2),
        kind="target",
        cell=size,
        name="mask",
    )
    for t, (word, following) in enumerate(zip(reads, predicts, strict=True)):
        y = top + size * (t + 0.5)
        s.text(word, at=(82, y), kind="target", align="end")
        s.text(f"{t}", at=(194 + size * (t - (n - 1) / 2), top - 11), kind="soft", size=13)
        s.text(following, at=(296, y), kind="target", align="start")
    return s


def one_attention() -> Schematic:
    """The attention of the plain Transformer: one side asks, the other answers."""
    s = Schematic(
        400,
        446,
        alt="The vectors x ask, those of the memory answer. W^Q makes queries of x; W^K and W^V "
        "make keys and values of the memory. Each is split into heads. Scaled dot-product "
        "attention, under a mask, gives each query a weighted average of values in each head. The "
        "heads are laid side by side, W^O follows, and the output has the shape of x.",
    )
    grid = partial(s.matrix, columns=6, cell=12)
    x = grid("$x$", at=(78, 50), rows=3, kind="target", shape=("query", "d_{model}"))
    memory = grid("memory", at=(280, 50), rows=4, kind="source", shape=("key", "d_{model}"))
    box = s.layer("scaled dot-product attention,\nin each head", at=(264, 264), width=252)
    for letter, kind, at, given in (
        ("Q", "query", 160, x),
        ("K", "key", 240, memory),
        ("V", "value", 330, memory),
    ):
        w = s.layer(f"$W^{letter}$", at=(at, 148), kind=kind, width=52)
        s.arrow(given, w, path="vhv")
        s.arrow(w, (at, box.top[1] - 3), f"${letter}$", kind=kind, side="right")
    mask = s.mask(
        "mask",
        [[True, True, True, False]] * 3,
        at=(66, 264),
        cell=14,
        shape=("query", "key"),
    )
    s.arrow((mask.x + mask.width / 2 + 3, box.y), box)
    w_o = s.layer("$W^O$", at=(264, 336), width=52)
    out = grid(
        "output", at=(264, 402), rows=3, kind="target", shape=("query", "d_{model}"), side="left"
    )
    s.arrow(box, w_o, "heads side by side", side="left")
    s.arrow(w_o, out)
    return s


def add_and_norm(
    s: Schematic, box: Part, low: Part | Point, *, stream: int, ys: tuple[int, int, int], kind: str
) -> Part:
    """Draw how what a sub-layer finds is added to its residual stream, and a norm: post-norm.

    Args: low, where the residual stream comes from; stream, its middle across; ys, where a copy
    leaves it, and the middles of the sum and of the norm.
    Returns: the norm.
    """
    copied, added, normed = ys
    total = s.sum(at=(stream, added), kind=kind)
    norm = s.norm(at=(stream, normed), width=46)
    s.stream(low, total, kind=kind, head=False)
    s.arrow((stream, copied), box, path="hv")
    s.arrow(box, total, path="vh")
    s.stream(total, norm, kind=kind, head=False)
    return norm


def sublayers(
    s: Schematic, names: Sequence[str], *, stream: int, box: int, y: int, kind: str
) -> list[Part]:
    """Draw sub-layers along a residual stream, each added and normalised: post-norm.

    Args: stream and box, the middles of both across; y, where the residual stream begins.
    Returns: the boxes of the sub-layers.
    """
    boxes: list[Part] = []
    low: Part | Point = (stream, y)
    for i, name in enumerate(names):
        top = y + 132 * i
        part = s.layer(name, at=(box, top + 44), width=128, name=f"{kind} {name}")
        ys = top + 6, top + 84, top + 117
        low = add_and_norm(s, part, low, stream=stream, ys=ys, kind=kind)
        boxes.append(part)
    s.stream(low, (stream, y + 132 * len(names) + 22), kind=kind)
    return boxes


def two_layers() -> Schematic:
    """An encoder layer and a decoder layer, with their residual streams."""
    s = Schematic(
        400,
        452,
        alt="Two residual streams run downwards. To that of the encoder, on the left, "
        "self-attention and a feed-forward network are added, each from a copy of it, and a norm "
        "follows each sum. To that of the decoder, on the right, three are added in the same way: "
        "masked self-attention, cross-attention, which an arrow from the memory enters, and a "
        "feed-forward network.",
    )
    s.text("encoder layer", at=(88, 14), strong=True)
    s.text("decoder layer", at=(312, 14), strong=True)
    sublayers(
        s,
        ("self-attention", "feed-forward\nnetwork"),
        stream=27,
        box=116,
        y=28,
        kind="source",
    )
    _, cross, _ = sublayers(
        s,
        ("self-attention,\ncausal mask", "cross-attention", "feed-forward\nnetwork"),
        stream=373,
        box=284,
        y=28,
        kind="target",
    )
    s.text("memory", at=(120, 388), kind="source")
    s.arrow((152, 388), cross, through=[(198, 388), (198, cross.y)], kind="source")
    s.text("of the last\nencoder layer", at=(120, 414), kind="source", size=13)
    return s


def stack(s: Schematic, kind: str, x: int, time: str, names: Sequence[str]) -> list[Part]:
    """Draw one side from its tokens to its last sub-layer. Returns the boxes of the sub-layers."""
    tokens = s.vector(at=(x, 56), kind=kind, cells=4, shape=(time,), name=f"{kind} tokens")
    embedding = s.layer("embedding", at=(x, 118), width=110, height=30, name=f"{kind} embedding")
    total = s.sum(at=(x, 168), kind=kind)
    s.arrow(tokens, embedding, kind=kind)
    s.arrow(embedding, total, kind=kind)
    s.text("positions", at=(x + 36, 168), align="start", size=13)
    s.arrow((x + 34, 168), total)
    boxes = [
        s.layer(name, at=(x, 254 + 46 * i), width=168, height=32, name=f"{kind} {name}")
        for i, name in enumerate(names)
    ]
    s.group(boxes, "N layers")
    s.stream(total, (x, boxes[0].top[1] - 2), kind=kind)
    for one, other in pairwise(boxes):
        s.stream(one.bottom, other.top, kind=kind, head=False)
    return boxes


def whole() -> Schematic:
    """The plain Transformer from the tokens to the logits, with its shapes."""
    s = Schematic(
        400,
        560,
        alt="On the left, from top to bottom: source tokens, embedding, plus positions, then N "
        "encoder layers of self-attention and feed-forward; their output is the memory. On the "
        "right: target tokens shifted right, embedding, plus positions, then N decoder layers of "
        "masked self-attention, cross-attention and feed-forward; then the projection, which "
        "gives logits. An arrow leads from the memory to the cross-attention.",
    )
    s.text("source", at=(98, 22), kind="source", strong=True)
    s.text("target, shifted right", at=(300, 22), kind="target", strong=True)
    grid = partial(s.matrix, cell=12)
    *_, network = stack(s, "source", 98, "source", ("self-attention", "feed-forward"))
    memory = grid(
        "memory",
        at=(98, 398),
        rows=4,
        columns=6,
        kind="source",
        shape=("source", "d_{model}"),
    )
    s.stream(network.bottom, memory.top, kind="source")
    names = ("masked self-attention", "cross-attention", "feed-forward")
    _, cross, last = stack(s, "target", 300, "target", names)
    path = [(199, memory.y), (199, cross.y)]
    s.arrow((memory.x + memory.width / 2 + 3, memory.y), cross, through=path, kind="source")
    projection = s.layer("projection", at=(300, 438), width=110, height=30)
    logits = grid(
        "logits", at=(300, 512), rows=4, columns=9, kind="target", shape=("target", "vocab")
    )
    s.stream(last.bottom, (300, projection.top[1] - 2), kind="target")
    s.arrow(projection, logits, kind="target")
    return s


def one_word() -> Schematic:
    """One position of the decoder through all its steps: where it looks, what it would predict."""
    looks = [f" looks at {one.looks[0]} {one.looks[1]:.2f}," if one.looks else "" for one in STEPS]
    told = "; ".join(
        f"{step.name}:{look} {step.guess[0]} {step.guess[1]:.2f}"
        for step, look in zip(STEPS, looks, strict=True)
    )
    s = Schematic(
        400,
        386,
        alt="The decoder at the position of sept, step by step along its residual stream: where "
        f"each attention looks most, and what the model would now predict. {told}.",
    )
    s.text("looks most at", at=(238, 20), size=13)
    s.text("would predict", at=(344, 20), size=13)
    s.stream((20, 34), (20, 374), kind="target")
    for i, step in enumerate(STEPS):
        y = 56 + 48 * i
        box = s.layer(step.name, at=(112, y), width=156, height=34)
        s.arrow(box, (22, y), gap=0)
        if step.looks:
            word, weight = step.looks
            crossing = step.name.startswith("cross")
            side = "source" if crossing else "target"
            s.text(f"{word} {weight:.2f}", at=(238, y), kind=side, size=13)
        word, probability = step.guess
        found = f"{word} {probability:.2f}"
        s.text(found, at=(344, y), kind="target", size=13, strong=word == NEXT[0])
    return s

"""The schematics of the chapter: words, a recurrent network, encoder and decoder, their loop."""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

from drawing.schematic import Part, Schematic

SOURCE = ("sixteen", "swedish", "kronor", "<eos>")
TARGET = ("seize", "couronnes", "suédoises", "<eos>")
WRONG = ("pesos", "chiliens")  # what the model writes from its second step on


def french_words() -> Iterator[tuple[float, int, str]]:
    """Where the words of the French sentence stand side by side: middle, extent and word."""
    x = 8.0
    for word, width in zip(
        ("il", "y", "a", "quatre", "vingt", "sept", "secondes"),
        (30, 26, 26, 62, 54, 48, 82),
        strict=True,
    ):
        yield x + width / 2, width, word
        x += width + 9


def words() -> Schematic:
    """A sentence and its translation, with lines between the words that belong together."""
    s = Schematic(
        400,
        150,
        alt="Eighty seven seconds ago, above il y a quatre vingt sept secondes. Lines connect "
        "eighty with quatre and vingt, seven with sept, seconds with secondes, and ago, the last "
        "word, with il y a, the first three. The lines cross.",
    )
    english = s.row(
        s.token, ("eighty", "seven", "seconds", "ago"), at=(200, 34), step=90, kind="source"
    )
    french = [
        s.token(word, at=(x, 118), width=width, kind="target") for x, width, word in french_words()
    ]
    for one, others in enumerate(((3, 4), (5,), (6,), (0, 1, 2))):
        for other in others:
            s.line([english[one].bottom, french[other].top])
    return s


def overview() -> Schematic:
    """The whole way of a sentence: states, one vector, another sentence; c carries its shape."""
    s = Schematic(
        400,
        300,
        alt="Four English words, eighty seven seconds ago, stand above the four states of the "
        "encoder. Each state is made from the one before it and the word above it. From the last "
        "one, an arrow leads to one vector, c. The decoder reads it and writes seven French words, "
        "il y a quatre vingt sept secondes.",
    )
    english = s.row(
        s.token, ("eighty", "seven", "seconds", "ago"), at=(232, 26), step=86, kind="source"
    )
    s.text("encoder:\none state\nper word", at=(8, 84), align="start", strong=True)
    states = [
        s.vector(at=(word.x, 88), kind="source", cells=4, upright=True, name=f"h{i}")
        for i, word in enumerate(english, start=1)
    ]
    for word, state in zip(english, states, strict=True):
        s.arrow(word, state, kind="source")
    for one, other in pairwise(states):
        s.arrow(one, other)
    c = s.vector(
        "$c$",
        at=(224, 162),
        kind="source",
        cells=4,
        side="left",
        shape=("d_{hidden}",),
        shape_side="right",
    )
    s.text("one vector", at=(8, 162), align="start", strong=True)
    down = [(states[-1].x, 134), (c.x, 134)]
    s.arrow(states[-1].bottom, c.top, through=down, kind="source")
    s.text("decoder: writes", at=(8, 214), align="start", strong=True)
    writer = s.layer("word by word", at=(224, 214), width=130, height=32)
    s.arrow(c, writer, kind="source")
    french = [
        s.token(word, at=(x, 276), width=width, kind="target") for x, width, word in french_words()
    ]
    for word in french:
        s.arrow((word.x, 240), word, kind="target")
    s.line([(french[0].x, 240), (french[-1].x, 240)], kind="target")
    s.line([writer.bottom, (writer.x, 240)], kind="target")
    return s


def unrolled() -> Schematic:
    """A recurrent network, folded and unrolled over three inputs; h_i and x_i with shapes."""
    s = Schematic(
        400,
        390,
        alt="Above, the network folded: one box f reads the input x_t and its own last state h. "
        "Below, unrolled over three words: the same box f stands three times; each turns the "
        "state on its left and the word below it into the state on its right.",
    )
    s.text("folded", at=(8, 20), align="start", strong=True)
    f = s.layer("$f$", at=(200, 62), width=44, height=40, name="folded")
    x_t = s.vector(
        "$x_t$",
        at=(200, 124),
        kind="source",
        cells=3,
        side="left",
        shape=("d_{embed}",),
        shape_side="right",
    )
    s.arrow(x_t, f, kind="source")
    s.arrow(
        f.right,
        f.left,
        "state $h$",
        through=[(276, 62), (276, 22), (124, 22), (124, 62)],
        along=0.5,
        side="below",
    )
    s.text("unrolled", at=(8, 162), align="start", strong=True)
    y = 236
    state = partial(s.vector, cells=4, upright=True, side="top")
    h = [state("$h_0$", at=(24, y), shape=("d_{hidden}",), shape_side="")]
    for t, word in enumerate(("ninety", "seven", "pesos"), start=1):
        x = 120 * t - 32
        box = s.layer("$f$", at=(x, y), width=44, height=40, name=f"f{t}")
        token = s.token(word, at=(x, 370), kind="source")
        read = s.vector(
            f"$x_{t}$",
            at=(x, 312),
            kind="source",
            cells=3,
            side="left",
            shape=("d_{embed}",),
            shape_side="",
        )
        shown = "bottom" if t == 1 else ""
        h.append(state(f"$h_{t}$", at=(x + 58, y), shape=("d_{hidden}",), shape_side=shown))
        s.arrow(token, read, kind="source")
        s.arrow(read, box, kind="source")
        s.arrow(h[-2], box)
        s.arrow(box, h[-1])
    return s


def gru_step() -> Schematic:
    """One GRU step: the update gate z mixes the old state with the candidate n."""
    s = Schematic(
        400,
        270,
        alt="The old state h runs along the top and is multiplied by the update gate z. Below, "
        "the old state passes the matrix U_n and is multiplied by the reset gate r; this and the "
        "input x, after the matrix W_n, give the candidate n, which is multiplied by one minus z. "
        "The sum of both is the new state.",
    )
    h = s.vector("$h_{t-1}$", at=(40, 50), cells=3, side="top")
    keep = s.product(at=(240, 50))
    total = s.sum(at=(310, 50))
    new = s.vector("$h_t$", at=(372, 50), cells=3, side="top")
    old_map = s.layer("$U_n$", at=(80, 138), width=40, height=34)
    reset = s.product(at=(134, 138))
    candidate = s.layer("tanh", at=(194, 138), width=56, height=34)
    use = s.product(at=(310, 138))
    new_map = s.layer("$W_n$", at=(194, 190), width=40, height=34)
    x = s.vector("$x_t$", at=(194, 240), kind="source", cells=3, side="left")
    s.arrow(h, keep)
    s.arrow(keep, total)
    s.arrow(total, new)
    s.arrow(h, old_map, path="vh")
    s.arrow(old_map, reset)
    s.arrow(reset, candidate)
    s.arrow(candidate, use)
    s.text("candidate $n_t$", at=(256, 110))
    s.arrow(use, total)
    s.arrow(x, new_map, kind="source")
    s.arrow(new_map, candidate)
    gate = partial(s.text, strong=True)
    gate("keep: $z_t$", at=(240, 24))
    gate("reset: $r_t$", at=(130, 166))
    gate("take: $1 - z_t$", at=(310, 166))
    return s


def encoder_decoder() -> Schematic:
    """Encoder and decoder of the example, with c between them; c carries its shape."""
    s = Schematic(
        400,
        410,
        alt="The encoder reads sixteen swedish kronor and the end mark, one box f after another. "
        "Its last state is the context c, one vector. Each of the four steps of the decoder reads "
        "c, the state before it and the word before it; they write seize couronnes suédoises and "
        "the end mark.",
    )
    s.text("encoder", at=(8, 16), align="start", strong=True)
    boxes = []
    for i, word in enumerate(SOURCE):
        x = 36 + 74 * i
        token = s.token(word, at=(x, 50), kind="source", width=62, name=f"x{i}")
        boxes.append(s.layer("$f$", at=(x, 112), width=40, height=38, name=f"f{i}"))
        s.arrow(token, boxes[-1], kind="source")
    for i, (one, other) in enumerate(pairwise(boxes), start=1):
        s.arrow(one, other)
        s.text(f"$h_{i}$", at=(other.x - 37, 98))
    c = s.vector(
        "$c$",
        at=(346, 112),
        kind="source",
        cells=4,
        side="right",
        shape=("d_{hidden}",),
        shape_side="top",
    )
    s.arrow(boxes[-1], c, kind="source")
    s.text("$h_4$", at=(296, 98), kind="source")
    bus, y = 196, 276
    s.text("decoder", at=(8, bus - 24), align="start", strong=True)
    s.line([c.bottom, (c.x, bus), (70, bus)], kind="source")
    middle = [70 + 92 * t for t in range(4)]
    steps = [s.layer("$g$", at=(x, y), width=40, height=48, name=f"g{x}") for x in middle]
    for x, step in zip(middle, steps, strict=True):
        s.arrow((x, bus), step.top, "$c$", kind="source")
    for t, (one, other) in enumerate(pairwise(steps), start=1):
        s.arrow((one.right[0], y - 12), (other.left[0], y - 12))
        s.text(f"$s_{t}$", at=(other.x - 46, y - 26))
    read = s.token("<bos>", at=(28, y + 104), kind="target", width=54, name="bos")
    s.arrow(read.top, (steps[0].left[0], y + 12), path="vh", kind="target")
    for t, word in enumerate(TARGET):
        width = 60 if len(word) < 6 else 82
        written = s.token(word, at=(middle[t], y + 58), kind="target", width=width, name=f"y{t}")
        s.arrow(steps[t], written, kind="target")
        if t < 3:
            between = middle[t] + 46
            s.arrow(
                written.bottom,
                (steps[t + 1].left[0], y + 12),
                through=[(middle[t], y + 88), (between, y + 88), (between, y + 12)],
                kind="target",
                dashed=True,
            )
    return s


def forced_and_free() -> Schematic:
    """What enters each step of the decoder, forced and free, when its second word is wrong."""
    s = Schematic(
        400,
        330,
        alt="Twice the same four steps, the second of which predicts pesos instead of couronnes. "
        "Under teacher forcing the third step reads couronnes all the same and predicts "
        "suédoises. Running freely it reads pesos and predicts chiliens, wrong again.",
    )
    forced = (TARGET[0], WRONG[0], *TARGET[2:])
    free = (TARGET[0], *WRONG, TARGET[3])
    for title, top, read, written in (
        ("teacher forcing: reads the reference", 18, TARGET[:3], forced),
        ("running freely: reads its own words", 184, free[:3], free),
    ):
        s.text(title, at=(8, top), align="start", strong=True)
        s.text("predicts", at=(2, top + 36), align="start")
        s.text("reads", at=(2, top + 116), align="start")
        before: Part | None = None
        for t, (one, other) in enumerate(zip(("<bos>", *read), written, strict=True)):
            x = 101 + 86 * t
            right = other == TARGET[t]
            mark = other if right else f"{other} ✗"
            out = s.token(mark, at=(x, top + 36), kind="target" if right else "soft", width=78)
            box = s.layer("$g$", at=(x, top + 76), width=34, height=26)
            entering = s.token(one, at=(x, top + 116), kind="target", width=78)
            s.arrow(entering, box, kind="target")
            s.arrow(box, out, kind="target")
            if before and title.startswith("running"):
                s.arrow((x - 66, top + 52), (x - 20, top + 101), kind="target", dashed=True)
            before = out
    return s


def loop_and_parallel() -> Schematic:
    """A loop over time beside a layer that computes all its outputs at once."""
    s = Schematic(
        400,
        300,
        alt="Above, four boxes f in a chain: the second waits for the first, and so on, four "
        "steps in all. Below, four boxes with no arrow between them: all four in one step.",
    )
    for title, y, chained in (
        ("recurrent layer: n sequential steps", 78, True),
        ("a layer without a loop: one step", 218, False),
    ):
        s.text(title, at=(8, y - 56), align="start", strong=True)
        boxes = []
        for t in range(1, 5):
            x = 100 * t - 50
            box = s.layer("$f$", at=(x, y), width=44, height=36, name=f"{chained}{t}")
            s.arrow((x, y + 52), box.bottom, f"$x_{t}$", kind="source", along=0.2)
            step = t if chained else 1
            s.text(f"step {step}", at=(x, y - 30))
            boxes.append(box)
        if chained:
            for t, (one, other) in enumerate(pairwise(boxes), start=1):
                s.arrow(one, other)
                s.text(f"$h_{t}$", at=(other.x - 50, y - 14))
    return s

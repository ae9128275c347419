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
    """The whole way of a sentence: states, one vector, states, a sentence; c carries its shape."""
    s = Schematic(
        400,
        384,
        alt="Four English words, eighty seven seconds ago, stand above the four states of the "
        "encoder, in steps 1 to 4. Each state is made from the one before it and the word above "
        "it. From the last one, an arrow leads to one vector, c. From c arrows lead to all seven "
        "states of the decoder; each is made from c, the state before it and, along a dashed "
        "line, the word before it. Below them stand the seven French words that they write, in "
        "steps 5 to 11: il y a quatre vingt sept secondes.",
    )
    english = s.row(
        s.token, ("eighty", "seven", "seconds", "ago"), at=(232, 42), step=86, kind="source"
    )
    s.text("step", at=(8, 14), align="start", kind="soft")
    s.text("encoder:\none state\nper word", at=(8, 100), align="start", strong=True)
    states = [
        s.vector(at=(word.x, 104), kind="source", cells=4, upright=True, name=f"h{i}")
        for i, word in enumerate(english, start=1)
    ]
    for step, (token, state) in enumerate(zip(english, states, strict=True), start=1):
        s.text(str(step), at=(token.x, 14), kind="soft")
        s.arrow(token, state, kind="source")
    for one, other in pairwise(states):
        s.arrow(one, other)
    c = s.vector(
        "$c$",
        at=(224, 172),
        kind="source",
        cells=4,
        side="left",
        shape=("d_{hidden}",),
        shape_side="right",
    )
    s.text("one vector", at=(8, 172), align="start", strong=True)
    down = [(states[-1].x, 150), (c.x, 150)]
    s.arrow(states[-1].bottom, c.top, through=down, kind="source")
    s.text("decoder: one state per word", at=(392, 200), align="end", strong=True)
    bus, y, below = 220, 270, 354  # the context runs above the states, the words read below them
    written, tokens = [], []
    for step, (x, width, word) in enumerate(french_words(), start=len(english) + 1):
        token = s.token(word, at=(x, 326), width=width, kind="target")
        state = s.vector(
            at=(x, y), kind="target", cells=4, cell=(16, 14), upright=True, name=f"s{step}"
        )
        s.arrow(state, token, kind="target")
        s.arrow((x, bus), state, kind="source")
        s.text(str(step), at=(x, 370), kind="soft")
        written.append(state)
        tokens.append(token)
    for one, other in pairwise(written):
        s.arrow((one.right[0], y - 8), (other.left[0], y - 8))
    for token, next_token, state in zip(tokens, tokens[1:], written[1:], strict=False):
        between = (token.right[0] + next_token.left[0]) / 2
        read = state.left[0], y + 12
        s.arrow(
            token.bottom,
            read,
            through=[(token.x, below), (between, below), (between, read[1])],
            kind="target",
            dashed=True,
        )
    s.line([c.left, (116, c.y), (116, bus)], kind="source")
    s.line([(written[0].x, bus), (written[-1].x, bus)], kind="source")
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
    """One GRU step: both gates are layers, r scales what U_n makes of h; z mixes it with h."""
    s = Schematic(
        400,
        408,
        alt="The old state h runs along the top, is multiplied by the update gate z and added to "
        "what comes from below: the sum is the new state. Below stand two layers, the sigmoids, "
        "which read the old state and the input x and give the update gate z and the reset gate "
        "r. Beside them, the old state goes through U_n and is multiplied by r, and the input "
        "goes through W_n. The sum of both goes into a tanh, which gives the candidate n; it is "
        "multiplied by one minus z.",
    )
    top, take_y, tanh_y, low, map_y, state_y, input_y = 50, 136, 212, 262, 306, 342, 378
    h = s.vector("$h_{t-1}$", at=(40, top), cells=3, side="top")
    keep = s.product(at=(112, top))
    total = s.sum(at=(310, top))
    new = s.vector("$h_t$", at=(370, top), cells=3, side="top")
    update = s.layer("sigmoid", at=(112, low), width=64, height=32, name="update")
    reset = s.layer("sigmoid", at=(190, low), width=64, height=32, name="reset")
    from_state = s.layer("$U_n$", at=(250, map_y), width=44, height=28)
    from_input = s.layer("$W_n$", at=(310, map_y), width=44, height=28)
    forget = s.product(at=(250, low))
    both = s.sum(at=(310, low))
    candidate = s.layer("tanh", at=(310, tanh_y), width=60, height=30)
    take = s.product(at=(310, take_y))
    x = s.vector("$x_t$", at=(60, input_y), kind="source", cells=3, side="left")
    s.line([h.bottom, (h.x, state_y), (from_state.x, state_y)])
    s.line([(x.right[0], input_y), (from_input.x, input_y)], kind="source")
    for gate in (update, reset):
        s.arrow((gate.x - 12, state_y), (gate.x - 12, gate.bottom[1] + 3))
        s.arrow((gate.x + 12, input_y), (gate.x + 12, gate.bottom[1] + 3), kind="source")
    s.arrow((from_state.x, state_y), from_state)
    s.arrow((from_input.x, input_y), from_input, kind="source")
    s.arrow(from_state, forget)
    s.arrow(from_input, both, kind="source")
    s.arrow(reset, forget)
    s.arrow(forget, both)
    s.arrow(both, candidate)
    s.arrow(h, keep)
    s.arrow(keep, total)
    s.arrow(total, new)
    s.arrow(update, keep)
    s.arrow((update.x, take_y), take)
    s.arrow(candidate, take)
    s.arrow(take, total)
    gate_name = partial(s.text, strong=True)
    gate_name("keep: $z_t$", at=(120, 84), align="start")
    gate_name("take: $1 - z_t$", at=(210, take_y - 14))
    gate_name("update $z_t$", at=(120, 200), align="start")
    gate_name("reset $r_t$", at=(202, 232), align="start")
    s.text("candidate\n$n_t$", at=(318, 172), align="start")
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

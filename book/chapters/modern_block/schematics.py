"""The schematics of the chapter: the block, the gate, shared key heads, the window, the router."""

from drawing.schematic import Part, Point, Schematic, Units

HEADS = 4  # of queries, in `shared_heads`
WORDS = ("The", "bats", "that", "flew", "out", "of", "the", "cave")  # of `window_reach`
WINDOW, LAYERS = 4, 2
SCORES, WEIGHTS = (2, 0, 1, -1), {0: 0.73, 2: 0.27}  # of the token in `router`


def changed_block() -> Schematic:
    """One block along its residual stream: the parts of LLaMA, and those that they replaced."""
    s = Schematic(
        400,
        486,
        alt="A block along its residual stream. Its plan is that of 2017: a norm, attention, a "
        "sum, a norm, a feed-forward network, a sum. Beside each part of LLaMA stands the one that "
        "it replaced: RMSNorm was layer norm, rotary positions were sines added to the input, "
        "SwiGLU was ReLU, and the linear layers without biases had them.",
    )
    stream, middle, then = 30, 158, 322

    def matrix(label: str, y: Units, name: str) -> Part:
        at, shape = (stream + 22, y), ("time", "d_{model}")
        return s.matrix(label, at=at, rows=2, columns=4, cell=11, side="right", shape=shape,
                        shape_side="", name=name)  # fmt: skip

    s.text("LLaMA, 2023", at=(middle, 58), strong=True)
    s.text("2017", at=(then, 58), kind="soft", strong=True)
    x = matrix("$x$, a row for each token", 24, "x")
    low: Part | Point = (stream, x.bottom[1])
    y = 74
    for new, old in (
        ("attention:\nrotary positions,\nno biases", "sines, added\nonce at the input;\nbiases"),
        ("feed-forward:\nSwiGLU,\nno biases", "ReLU,\nbiases"),
    ):
        norm = s.norm("RMSNorm", at=(middle, y + 32), width=112)
        box = s.layer(new, at=(middle, y + 102), width=136)
        total = s.sum(at=(stream, y + 160))
        s.text("layer norm", at=(then, y + 32), kind="soft")
        s.text(old, at=(then, y + 102), kind="soft")
        s.stream(low, total)
        s.arrow((stream, y + 4), norm, path="hv")
        s.arrow(norm, box)
        s.arrow(box, total, path="vh")
        low, y = total, y + 182
    out = matrix("output", 466, "output")
    s.stream(low, (stream, out.top[1]))
    return s


def gate() -> Schematic:
    """SwiGLU: two linear layers, one of which gates the other, and a third one back."""
    s = Schematic(
        400,
        330,
        alt="The vector x of a position goes into W_1 and into W_3. What comes from W_1 passes the "
        "function silu and multiplies, entry by entry, what comes from W_3. The product goes "
        "through W_2, which gives the output.",
    )
    s.vector("$x$", at=(200, 28), shape=("d_{model}",), shape_side="right")
    w_1 = s.layer("$W_1$", at=(126, 92), width=60, shape=("d_{model}", "d_{ff}"), shape_side="left")
    w_3 = s.layer(
        "$W_3$", at=(274, 92), width=60, shape=("d_{model}", "d_{ff}"), shape_side="right"
    )
    silu = s.layer("silu", at=(126, 152), width=60)
    times = s.product(at=(200, 200))
    w_2 = s.layer(
        "$W_2$", at=(200, 252), width=60, shape=("d_{ff}", "d_{model}"), shape_side="right"
    )
    out = s.vector("output", at=(200, 306), shape=("d_{model}",), shape_side="right")
    for w in (w_1, w_3):
        s.arrow((200, 36), w, path="vhv")
    s.arrow(w_1, silu)
    s.arrow(silu, times, "the gate", path="vh", side="below")
    s.arrow(w_3, times, path="vh")
    s.arrow(times, w_2)
    s.arrow(w_2, out)
    return s


def shared_heads() -> Schematic:
    """Which query heads read which key head, with 4, 2 and 1 heads of keys and values."""
    s = Schematic(
        400,
        392,
        alt="Three rows, each with four query heads. With four key heads each query head has one "
        "of its own. With two, query heads 1 and 2 read key head 1, and 3 and 4 read key head 2. "
        "With one, all four query heads read the same key head.",
    )
    rows = ((4, "multi-head"), (2, "grouped-query"), (1, "multi-query"))
    for number, (n_kv, title) in enumerate(rows):
        y = 130 * number
        s.text(f"{title}: {n_kv} key head{'s' * (n_kv > 1)}", at=(200, y + 14), strong=True)
        centres = [56 + 96 * i for i in range(HEADS)]
        queries = [
            s.layer(f"$q_{i + 1}$", at=(x, y + 48), kind="query", width=48, height=28)
            for i, x in enumerate(centres)
        ]
        group = HEADS // n_kv
        for j in range(n_kv):
            members = queries[j * group : (j + 1) * group]
            middle = sum(q.x for q in members) / group
            keys = s.layer(
                f"$k_{j + 1}, v_{j + 1}$", at=(middle, y + 106), kind="key", width=72, height=28
            )
            for query in members:
                s.arrow(query, keys, kind="query")
    return s


def window_reach() -> Schematic:
    """What the last word of a sentence can depend on, through layers with a window."""
    s = Schematic(
        400,
        236,
        alt="The words The bats that flew out of the cave in a row, and above them two layers with "
        "a window of 4. In layer 2 the vector of cave reads those of out, of, the and cave in "
        "layer 1. These read the words from bats to cave. Only the first word is out of reach.",
    )
    last, step = len(WORDS) - 1, 48
    below: list[Part] = []
    for depth in range(LAYERS + 1):
        first = max(0, last - (LAYERS - depth) * (WINDOW - 1))
        row: list[Part] = []
        for i, word in enumerate(WORDS):
            at, lit = (32 + step * i, 214 - 84 * depth), i >= first
            kind, name = "value" if lit else "soft", f"{'lit' if lit else 'idle'} {depth} {i}"
            if depth:
                row.append(s.layer("", at=at, kind=kind, width=26, height=26, name=name))
            else:
                row.append(s.token(word, at=at, kind=kind, width=46, name=name))
            if depth and lit:
                for key in below[max(0, i - WINDOW + 1) : i + 1]:
                    s.line([key.top, row[-1].bottom], kind="value")
        if depth:
            s.text(f"layer {depth}", at=(8, 190 - 84 * depth), align="start", strong=True)
        below = row
    return s


def router() -> Schematic:
    """One token, four experts: the two with the highest scores are run and weighted."""
    s = Schematic(
        400,
        330,
        alt="The vector x of one token goes into the router, which scores four experts: 2, 0, 1 "
        "and minus 1. Experts 1 and 3 have the highest scores and are run; the other two, dashed, "
        "are not. The outputs are multiplied by 0.73 and 0.27 and added.",
    )
    x = s.vector("$x$", at=(200, 26), shape=("d_{model}",), shape_side="right")
    scores = s.layer("router", at=(200, 84), width=330)
    total = s.sum(at=(200, 258))
    out = s.vector("output", at=(200, 308), shape=("d_{model}",), shape_side="right")
    s.arrow(x, scores)
    for i, score in enumerate(SCORES):
        at = (56 + 96 * i, 168)
        expert = s.layer(
            f"expert {i + 1}", at=at, width=84, kind="value" if i in WEIGHTS else "soft"
        )
        text = f"{score}".replace("-", "−")
        s.arrow((at[0], scores.bottom[1]), expert, text, side="right", dashed=i not in WEIGHTS)
        if i in WEIGHTS:
            s.arrow(expert, total, path="vh", kind="value")
            s.text(f"times {WEIGHTS[i]}", at=(at[0] + 50, 218), kind="value")
    s.arrow(total, out, kind="value")
    return s

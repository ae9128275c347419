"""The schematics of the chapter: a decoder step, a map, two encoders, and a picture as the keys."""

from functools import partial
from itertools import pairwise

from drawing.schematic import Part, Schematic

LOOKING = (0.1, 0.1, 0.1, 0.6, 0.1)  # invented weights, when il is written
INVENTED = ((0.7, 0.2, 0.1), (0.1, 0.3, 0.6), (0.1, 0.8, 0.1))  # weights of a map


def looking_back() -> Schematic:
    """The idea, with the running example: before il, the decoder mostly reads the state at ago."""
    s = Schematic(
        400,
        394,
        alt="Above the states of the encoder stand the words eighty seven seconds ago and the end "
        "mark. All states, and a query that comes from the decoder, go into a box that scores each "
        "state. The scores become the weights 0.1, 0.1, 0.1, 0.6 and 0.1; the line at ago is "
        "thick. With these weights the weighted mean of the states is taken: one vector c, which "
        "goes to the decoder, which writes il.",
    )
    columns = (102, 167, 238, 303, 360)
    words = zip(("eighty", "seven", "seconds", "ago", "<eos>"), (58, 54, 70, 42, 54), strict=True)
    score = s.layer("score: how useful is it now?", at=(229, 160), width=298, height=34)
    mean = s.layer("weighted mean of the states", at=(229, 254), width=298, height=34)
    past, down = 118, 395  # the states also go past the scores, to the mean
    states = []
    for x, (word, width), weight in zip(columns, words, LOOKING, strict=True):
        strongest = weight == max(LOOKING)
        token = s.token(word, at=(x, 24), kind="source", width=width)
        state = s.vector(at=(x, 82), kind="key", cells=3, upright=True, name=f"h {word}")
        s.arrow(token, state, kind="source")
        s.arrow(state, (x, score.top[1]), kind="key")
        s.point("", at=(x, past), kind="key")
        if strongest:
            s.stream((x, score.bottom[1]), (x, mean.top[1] - 8))
        s.arrow((x, score.bottom[1]), (x, mean.top[1]))
        s.text(f"{weight:.1f}", at=(x + (23 if strongest else 18), 208), strong=strongest)
        states.append(state)
    for one, other in pairwise(states):
        s.arrow(one, other)
    s.arrow(
        (columns[0], past), mean.right, through=[(down, past), (down, mean.y)], kind="key", gap=0
    )
    s.text("states", at=(8, 82), align="start", kind="key", strong=True)
    s.text("weights", at=(24, 208), align="start", strong=True)
    context = s.vector("$c$", at=(229, 304), kind="key", cells=3, side="right", name="c")
    s.arrow(mean, context, kind="key")
    decoder = s.layer("decoder", at=(229, 362), width=90, height=34)
    s.arrow(context, decoder, kind="key")
    around = [(14, decoder.y), (14, 230), (14, score.y)]
    s.arrow(decoder.left, score.left, kind="query", through=around)
    s.text("query: its state", at=(28, 346), align="start", kind="query", strong=True)
    s.arrow(decoder, s.token("il", at=(352, 362), kind="target"), kind="target")
    return s


def one_step() -> Schematic:
    """One step of the decoder with attention; h_i, s_{t-1}, c_t and s_t carry their shapes."""
    s = Schematic(
        400,
        436,
        alt="The encoder has a state h_i for each of three source words. The decoder's state "
        "s_{t-1} is scored against all of them; a softmax turns the scores into weights. Lines "
        "also lead from all three states to their weighted mean, the context c_t. The cell g reads "
        "s_{t-1}, the word y_{t-1} and c_t, and gives the new state s_t, from which the word y_t "
        "is predicted.",
    )
    columns = (165, 255, 345)
    state = partial(s.vector, kind="key", cells=3, side="left", shape=("d_{key}",), shape_side="")
    h = [state(f"$h_{i}$", at=(x, 78)) for i, x in enumerate(columns, start=1)]
    for i, (x, one) in enumerate(zip(columns, h, strict=True), start=1):
        s.arrow(s.token(f"$x_{i}$", at=(x, 24), kind="source"), one, kind="source")
    for one, other in pairwise(h):
        s.arrow(one, other)
    s.text("keys", at=(56, 78), kind="key", strong=True)
    s.text("query", at=(56, 112), kind="query", strong=True)
    score = s.layer("$v$ · tanh($W_q s_{t-1}$ + $W_k h_i$ + $b$)", at=(255, 152), width=250)
    softmax = s.softmax(at=(255, 214), width=250)
    mean = s.layer("$a_{t,1} h_1 + a_{t,2} h_2 + a_{t,3} h_3$", at=(255, 276), width=250)
    for i, (x, one) in enumerate(zip(columns, h, strict=True), start=1):
        s.arrow(one, (x, score.top[1]), kind="key")
        s.arrow((x, score.bottom[1]), (x, softmax.top[1]), f"$e_{{t,{i}}}$")
        s.arrow((x, softmax.bottom[1]), (x, mean.top[1]), f"$a_{{t,{i}}}$")
    across, down = 112, 391  # the states also go past the score and the softmax
    for x in columns:
        s.point("", at=(x, across), kind="key")
    s.arrow((columns[0], across), mean.right, through=[(down, across), (down, mean.y)], kind="key")
    cell(s, score, mean, "$y_{t-1}$", "$y_t$")
    return s


def cell(s: Schematic, score: Part, mean: Part, read: str, written: str) -> None:
    """The decoder around attention: s_{t-1} is the query of `score`, and g reads c_t of `mean`."""
    state = partial(s.vector, kind="query", cells=3, side="top", shape=("d_{hidden}",))
    before = state("$s_{t-1}$", at=(56, score.y))
    s.arrow(before, score, kind="query")
    context = s.vector(
        "$c_t$", at=(262, mean.y + 54), kind="key", cells=3, shape=("d_{key}",), shape_side="right"
    )
    s.arrow((context.x, mean.bottom[1]), context, kind="key")
    g = s.layer("$g$", at=(150, mean.y + 116), width=60, height=34)
    s.arrow(context.left, (g.x + 16, g.top[1]), path="hv", kind="key")
    down = [(before.x, context.y), (g.x - 16, context.y)]
    s.arrow(before, (g.x - 16, g.top[1]), through=down, kind="query", gap=6)
    s.arrow(s.token(read, at=(50, g.y), kind="target", name="read"), g, kind="target")
    after = state("$s_t$", at=(256, g.y))
    s.arrow(g, after, kind="query")
    s.arrow(after, s.token(written, at=(352, g.y), kind="target", name="written"), kind="target")


def how_to_read_a_map() -> Schematic:
    """A map with invented weights: rows are queries, columns are keys."""
    s = Schematic(
        400,
        246,
        alt="A table of weights. Its columns are the source words x_1, x_2 and x_3, whose states "
        "are the keys; its rows are the words y_1, y_2 and y_3 that the decoder writes, one query "
        "each. The numbers of each row sum to one; the largest are shaded darkest.",
    )
    s.text("keys: one column for each source word", at=(214, 18), kind="key", strong=True)
    s.text("queries:\none row\nfor each\nword that\nis written", at=(42, 152), kind="query")
    values = [[f"{one:.1f}" for one in row] for row in INVENTED]
    grid = s.matrix("", at=(229, 152), values=values, shade=INVENTED, cell=(60, 44), name="map")
    left, top = grid.corner
    for i in range(3):
        s.token(f"$x_{i + 1}$", at=(left + 30 + 60 * i, 56), kind="source")
        s.token(f"$y_{i + 1}$", at=(left - 26, top + 22 + 44 * i), kind="target")
        s.text("sum 1", at=(left + 192, top + 22 + 44 * i), align="start")
    return s


def exchange() -> Schematic:
    """The experiment: one state of the other sentence among those that the decoder gets."""
    s = Schematic(
        400,
        320,
        alt="Above, the sentence with colombian and its states; below, the sentence with mexican "
        "and its states. Between them stand the states that the decoder gets. All are from the "
        "sentence above, but the one at pesos comes from the sentence below. What the decoder "
        "writes is left open.",
    )
    columns = (40, 124, 212, 280)
    swap = columns[2]

    def sentence(words: tuple[str, ...], tokens: int, states: int, kind: str) -> list[Part]:
        """The states of a sentence at the height `states`, each of its word."""
        found = []
        for x, word in zip(columns, words, strict=True):
            token = s.token(word, at=(x, tokens), kind="source", name=f"{word} {tokens}")
            lit = "lit" if kind == "soft" and x == swap else kind
            found.append(
                s.vector(at=(x, states), kind=lit, cells=3, cell=(13, 15), name=f"{x} {states}")
            )
            s.arrow(token, found[-1], kind="source")
        for one, other in pairwise(found):
            s.arrow(one, other, kind=kind)
        return found

    s.text("the sentence", at=(8, 16), align="start", strong=True)
    own = sentence(("seven", "colombian", "pesos", "<eos>"), 46, 98, "key")
    s.text("the same with another word", at=(8, 306), align="start", strong=True)
    others = sentence(("seven", "mexican", "pesos", "<eos>"), 274, 222, "soft")
    given = []
    for x, mine, theirs in zip(columns, own, others, strict=True):
        exchanged = x == swap
        key = s.vector(
            at=(x, 160), kind="lit" if exchanged else "key", cells=3, cell=(13, 15), name=f"key {x}"
        )
        source = theirs if exchanged else mine
        s.arrow(source, key, kind="query" if exchanged else "key")
        given.append(key)
    frame = s.group(given, pad=8)
    decoder = s.layer("attention,\ndecoder", at=(358, 160), width=80)
    s.arrow(frame, decoder, kind="key")
    s.arrow(decoder, s.token("?", at=(358, 222), kind="target"), kind="target")
    return s


def encoders() -> Schematic:
    """The key at the middle word, read one way and both ways; what it has read is coloured."""
    s = Schematic(
        400,
        372,
        alt="Above, an encoder that reads from left to right: the key at colombian has read seven "
        "and colombian, but not pesos. Below, an encoder that reads both ways: a second chain of "
        "states runs from right to left, and the key at colombian is both states there; together "
        "they have read all three words.",
    )
    columns = (70, 200, 330)

    def chain(y: int, words: int, cells: int, read: tuple[int, ...], label: str) -> None:
        """Three states at the height y, each fed by a word; the middle one is (half of) a key."""
        states = [
            s.vector(at=(x, y), kind="key" if x == 200 else "plain", cells=cells, name=f"{x} {y}")
            for x in columns
        ]
        for one, other in pairwise(states if y < words else states[::-1]):
            s.arrow(one, other)
        up = 1 if y < words else -1
        for x in columns:
            kind = "source" if x in read else "soft"
            s.arrow((x, words - 17 * up), (x, y + 11 * up), kind=kind)
        s.text(label, at=(200, y - 22 * up), kind="key")

    def tokens(y: int, read: tuple[int, ...]) -> None:
        for x, word in zip(columns, ("seven", "colombian", "pesos"), strict=True):
            s.token(word, at=(x, y), kind="source" if x in read else "soft", name=f"{word} {y}")

    s.text("one way: $h_2$ has read two words", at=(8, 18), align="start", strong=True)
    tokens(124, columns[:2])
    chain(68, 124, 4, columns[:2], "$h_2$")
    s.text("both ways: $h_2$ has read all words", at=(8, 186), align="start", strong=True)
    tokens(284, columns)
    chain(232, 284, 2, columns, "first half of $h_2$")
    chain(336, 284, 2, columns, "second half of $h_2$")
    return s


def picture_as_keys() -> Schematic:
    """A picture's grid of features in place of the encoder's states, with all shapes."""
    s = Schematic(
        400,
        482,
        alt="A picture of 14 by 56 pixels, a strip with two digits, goes through convolutions, "
        "which give a grid of 7 by 28 vectors. With its row and column appended, each of the 196 "
        "vectors is a key. The query s_{t-1} attends to the keys; from the context c_t the cell g "
        "makes the next state, and from this the next word is predicted.",
    )
    pixels = [[0.0] * 14 for _ in range(5)]
    seven = ((0, 2), (0, 3), (0, 4), (1, 4), (2, 3), (3, 3))
    one = ((1, 10), (2, 10), (3, 10), (4, 10))
    for row, column in (*seven, *one):
        pixels[row][column] = 0.9
    picture = s.matrix(
        "picture", at=(225, 46), shade=pixels, cell=10, shape=("14", "56"), shape_side="right"
    )
    network = s.layer("convolutions", at=(225, 108), width=130, height=28)
    grid = s.matrix(
        "grid",
        at=(225, 170),
        kind="key",
        rows=3,
        columns=9,
        cell=14,
        side="left",
        shape=("d_{grid}", "7", "28"),
        shape_side="right",
    )
    keys = s.matrix(
        "keys",
        at=(225, 260),
        kind="key",
        rows=5,
        columns=4,
        cell=11,
        side="left",
        shape=("7*28", "d_{key}"),
        shape_side="right",
    )
    attention = s.layer("score, softmax, weighted mean", at=(250, 332), width=250)
    s.arrow(picture, network)
    s.arrow(network, grid, kind="key")
    s.arrow(grid, keys, "append row, column", kind="key")
    s.arrow(keys, (keys.x, attention.top[1]), kind="key")
    cell(s, attention, attention, "seven", "one")
    return s

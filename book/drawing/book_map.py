"""The map of the book: the whole translator from sentence to word, each part with its chapter.

Each part is named by its chapter's concept. The build says which number, title and address a
chapter has, so that the map holds when chapters move, and what its head says about it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from drawing.schematic import Part, Point, Schematic, number, rectangle

ALT = (
    "The translator of this book. The source sentence becomes embeddings with positions and passes "
    "through the layers of the encoder: self-attention with its heads, add and norm, feed-forward, "
    "add and norm. The words written so far pass in the same way through those of the decoder, "
    "whose self-attention is masked and which also attends to the encoder's output. A projection "
    "and a softmax give the probabilities of the next word. The chosen word is fed in again."
)
WIDTH, HEIGHT = 400, 694
ROW = 30  # the height of a part: a finger can hit it on a phone too
LEFT, RIGHT = 92, 286  # the middles of the encoder and the decoder
FED_IN = 150  # the height of the words written so far


@dataclass(frozen=True)
class Chapter:
    """Where a part of the map leads."""

    number: int
    title: str
    address: str
    here: str  # what it is on the map, for the line at its head


class Map(Schematic):
    """The schematic on its way: it knows where the chapters are and which one is lit."""

    def __init__(self, chapters: Mapping[str, Chapter], lit: str = ""):
        super().__init__(WIDTH, HEIGHT, alt=ALT)
        self.chapters, self.lit = chapters, lit

    def stop(self, concept: str, text: str, *, at: Point, width: int = 160) -> Part:
        """A part that leads to its chapter, with the chapter's number at its right."""
        if concept not in self.chapters:
            raise ValueError(f"expected a chapter {concept!r} for {text!r} on the map, got none")
        chapter = self.chapters[concept]
        kind = "lit" if concept == self.lit else "plain"
        label = f"{text} {chapter.number}: {chapter.title}"
        with self.link(chapter.address, label, current=concept == self.lit):
            part = self.layer("", at=at, width=width, height=ROW, kind=kind, name=concept)
            left, right = part.left[0] + 9, part.right[0] - 9
            self.text(text, at=(left, at[1]), kind=kind, align="start")
            self.text(str(chapter.number), at=(right, at[1]), kind=kind, align="end", strong=True)
        return part

    def nested(self, *stops: tuple[str, str], x: int, y: int) -> list[Part]:
        """Parts of which each stands in the one above it."""
        return [
            self.stop(concept, text, at=(x + 10 * i, y + ROW * i), width=160 - 20 * i)
            for i, (concept, text) in enumerate(stops)
        ]

    def enter(self, part: Part, frame: Part) -> None:
        """An arrow into a frame below, beside its name."""
        x = part.right[0] - 20
        self.arrow((x, part.bottom[1] + 3), (x, frame.top[1] - 3))

    def chain(self, parts: list[Part]) -> None:
        """Short lines from part to part, down a column."""
        for one, other in pairwise(parts):
            self.arrow(one, other, head=False, gap=0)


def translator_map(chapters: Mapping[str, Chapter], lit: str = "") -> Map:
    """The map, with the parts of the chapter `lit` filled.

    Errors: ValueError if a part of the map has no chapter, or a chapter no part.
    """
    s = Map(chapters, lit)
    memory = encoder(s)
    cross, last = decoder(s)
    s.arrow(memory, cross, path="vh")
    came_from(s)
    about(s)
    projection = s.stop("embeddings", "Projection, softmax", at=(RIGHT, 578), width=180)
    choice = s.stop("decoding", "Choose a word", at=(RIGHT, 626))
    training = s.stop("training", "Training", at=(LEFT, 626))
    word = s.token("sleeps", at=(RIGHT - 46, 674), kind="target")
    s.arrow(last, projection)
    s.arrow(projection, choice)
    s.arrow((word.x, choice.bottom[1] + 3), word, kind="target")
    s.arrow(projection, training, path="hvh", dashed=True)
    loop = [(390, word.y), (390, FED_IN)]
    s.arrow(word, (368, FED_IN), through=loop, kind="target")
    s.text("fed in again", at=(330, word.y - 11), kind="target", size=13)
    if missing := sorted(chapters.keys() - {part.name for part in s.parts}):
        raise ValueError(f"expected a part of the map for each chapter, got none for {missing}")
    return s


def encoder(s: Map) -> Part:
    """The left column, from the source sentence to the encoder's output: its frame."""
    words = s.row(s.token, ["un", "chat", "dort"], at=(LEFT, 22), step=58, kind="source")
    embedded = s.stop("embeddings", "Embeddings", at=(LEFT, 66))
    placed = s.stop("positions", "Positions", at=(LEFT, 102))
    layer = [
        *s.nested(
            ("self_attention", "Self-attention"),
            ("multi_head", "in heads"),
            ("attention_layer", "attention"),
            x=LEFT,
            y=170,
        ),
        s.stop("feed_forward_norm", "Add and norm", at=(LEFT, 268)),
        s.stop("feed_forward_norm", "Feed-forward", at=(LEFT, 306)),
        s.stop("feed_forward_norm", "Add and norm", at=(LEFT, 344)),
    ]
    frame = s.group(layer, "Encoder layer × N")
    s.arrow(words[1], embedded, kind="source")
    s.chain([embedded, placed])
    s.chain(layer[2:])
    s.enter(placed, frame)
    return frame


def decoder(s: Map) -> tuple[Part, Part]:
    """The right column, from the words so far: its cross-attention and its frame."""
    words = s.row(s.token, ["start", "a", "cat"], at=(RIGHT, FED_IN), step=55, kind="target")
    embedded = s.stop("embeddings", "Embeddings", at=(RIGHT, 194))
    placed = s.stop("positions", "Positions", at=(RIGHT, 230))
    layer = [
        *s.nested(("self_attention", "Self-attention"), ("masking", "with a mask"), x=RIGHT, y=298),
        s.stop("feed_forward_norm", "Add and norm", at=(RIGHT, 366)),
        s.stop("attention_seq2seq", "Cross-attention", at=(RIGHT, 404)),
        s.stop("feed_forward_norm", "Add and norm", at=(RIGHT, 442)),
        s.stop("feed_forward_norm", "Feed-forward", at=(RIGHT, 480)),
        s.stop("feed_forward_norm", "Add and norm", at=(RIGHT, 518)),
    ]
    frame = s.group(layer, "Decoder layer × N")
    s.arrow(words[1], embedded, kind="target")
    s.chain([embedded, placed])
    s.chain(layer[1:])
    s.enter(placed, frame)
    return layer[3], frame


def came_from(s: Map) -> None:
    """Upper right: the models that the translator grew out of."""
    s.text("Where it came from", at=(RIGHT - 90, 20), align="start", kind="soft")
    s.stop("seq2seq", "Recurrence", at=(RIGHT, 48), width=180)
    s.stop("attention_seq2seq", "Attention to states", at=(RIGHT, 48 + ROW), width=180)


def about(s: Map) -> None:
    """Lower left: what is said about the whole."""
    s.text("The whole", at=(LEFT - 80, 401), align="start", kind="soft")
    whole = {
        "transformer": "Transformer",
        "complexity": "Complexity",
        "families": "Families",
        "mistakes": "Mistakes",
        "modern_block": "Modern block",
        "distributed": "Many machines",
    }
    for i, (concept, text) in enumerate(whole.items()):
        s.stop(concept, text, at=(LEFT, 428 + i * ROW))


def small_map(chapters: Mapping[str, Chapter], lit: str) -> str:
    """The same map as a picture without words, as SVG: where in it the chapter `lit` stands."""
    drawn = []
    for part in translator_map(chapters).parts:
        style = "on" if part.name == lit else "off"
        if part.name in chapters:
            drawn.append(rectangle(part, radius=4, style=style))
    return (
        f'<svg class="sch small" viewBox="0 0 {WIDTH} {HEIGHT}" width="{number(WIDTH / 8)}" '
        f'height="{number(HEIGHT / 8)}" aria-hidden="true">{"".join(drawn)}</svg>'
    )

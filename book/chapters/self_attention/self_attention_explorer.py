"""An explorer of self-attention: a sentence, its vectors, and every number up to the outputs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from traitlets import Bool, Bunch, Enum, Int, Unicode, validate

from widgets import domain
from widgets.base import BookWidget, static_table

MOST_TOKENS = 64
MOST_ENTRIES = 512
MOST_SLIDERS = 8  # entries of an embedding that get a slider each
WIDTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
SPREADS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)
LIMIT = 2  # entries of an embedding lie between -2 and 2, where the sliders reach them


class SelfAttentionExplorer(BookWidget):
    """Type a sentence of known words, change their vectors, and follow each number to the output.

    Queries, keys and values are made of the vectors by W^Q, W^K and W^V, if there are such matrices
    and the switch is on; else they are the vectors themselves. The browser adds sinusoidal
    positions if asked to.

    Or let the browser draw the vectors at random: up to 64 tokens of up to 512 numbers.

    Args: words, the embedding of each known word, 2 to 512 numbers from -2 to 2, as many for each
        (up to 8 can be changed in the page); sentence, 1 to 64 of these words; random, (tokens,
        dimension) to begin with random vectors, of a dimension in `WIDTHS`, None to begin with the
        sentence; spread, their standard deviation, of `SPREADS`; seed, which draw; scaled, whether
        the scores are divided by sqrt(dimension); causal, whether a token attends to itself and
        earlier ones only; positions, whether they are added (never to a sentence whose entries
        have names, for these would lose their meaning); projections, the matrices W^Q, W^K
        and W^V, and projected, whether they are used, if there are any; features, a name for each
        entry of an embedding and of an output; query, key and entry (of the output), the places
        whose arithmetic is spelt out first.
    Errors: ValueError for a word that is not known, or vectors or sizes that do not fit.
    Source: Attention Is All You Need, section 3.2.1, made to move.
    """

    _module = "self_attention_explorer"
    words = domain.Fixed()  # the known words, and their embeddings:
    vectors = domain.Fixed()  # word x entry
    features = domain.Fixed()  # a name for each entry, or none
    matrices = domain.Fixed()  # W^Q, W^K and W^V, or none
    source = Enum(("sentence", "random"), "sentence")
    sentence = Unicode()
    n_tokens = Int(16, min=1, max=MOST_TOKENS)
    width = Enum(WIDTHS, 64)
    spread = Enum(SPREADS, 1.0)
    seed = Int(0, min=0, max=99)
    edited = Unicode()
    scaled = Bool()
    causal = Bool()
    positions = Bool()
    projected = Bool()
    query = domain.Place()
    key = domain.Place()
    entry = domain.Place()
    limit = domain.Fixed(LIMIT)
    most_sliders = domain.Fixed(MOST_SLIDERS)

    def __init__(
        self,
        words: Mapping[str, Sequence[float]],
        sentence: str,
        *,
        random: tuple[int, int] | None = None,
        projections: Sequence[Any] = (),
        features: Sequence[str] = (),
        **start: Any,
    ):
        width = len(next(iter(words.values()))) if words else 0
        if not 2 <= width <= MOST_ENTRIES:
            domain.refuse("words", f"2 to {MOST_ENTRIES} numbers each", width)
        if random:
            start |= {"source": "random", "n_tokens": random[0], "width": random[1]}
        fixed = {
            "words": list(words),
            "vectors": domain.vectors(words, width, LIMIT, "words", digits=3),
            "features": list(features),
            "matrices": _matrices(projections, width),
        }
        if len(features) not in (0, width):
            domain.refuse("features", f"{width} names, one for each entry, or none", len(features))
        super().__init__(**fixed, sentence=sentence, **start)

    @validate("sentence")
    def _known(self, proposal: Bunch) -> str:
        """A sentence of known words, with single spaces."""
        found = proposal.value.split()
        if not 1 <= len(found) <= MOST_TOKENS:
            domain.refuse("sentence", f"1 to {MOST_TOKENS} words", len(found))
        if unknown := sorted(set(found) - set(self.words)):
            domain.refuse("sentence", f"words out of {sorted(self.words)}", unknown)
        return " ".join(found)

    @validate("edited")
    def _moved(self, proposal: Bunch) -> str:
        return domain.moved(proposal.value, "edited", self.words, len(self.vectors[0]), LIMIT)

    def limits(self) -> Iterator[tuple[str, int]]:
        random = self.source == "random"
        time = self.n_tokens if random else len(self.sentence.split())
        rows = self.matrices[2] if self.projected and self.matrices else self.vectors
        yield "query", time - 1
        yield "key", time - 1
        yield "entry", (self.width if random else len(rows[0])) - 1

    def summary(self) -> str:
        if self.source == "random":
            return f"SelfAttentionExplorer: {self.n_tokens} random tokens of dimension {self.width}"
        return f"SelfAttentionExplorer: {self.sentence!r}"

    def static_html(self) -> str:
        known = dict(zip(self.words, self.vectors, strict=True))
        shown = [(token, known[token]) for token in self.sentence.split()]
        rows = [(token, *(f"{value:g}" for value in row[:MOST_SLIDERS])) for token, row in shown]
        names = self.features or [f"entry {i + 1}" for i in range(len(rows[0]) - 1)]
        header = ("token", *names[:MOST_SLIDERS])
        more = len(shown[0][1]) - MOST_SLIDERS
        cut = f" (the first {MOST_SLIDERS} entries; {more} more)" if more > 0 else ""
        return static_table(f"The embeddings of the sentence{cut}", header, rows)


def _matrices(given: Sequence[Any], width: int) -> list[list[list[float]]]:
    """W^Q, W^K and W^V as lists: of `width` rows, the first two with as many columns."""
    if len(given) not in (0, 3):
        domain.refuse("projections", "W^Q, W^K and W^V, or none", len(given))
    found: list[list[list[float]]] = []
    for name, one in zip(("W^Q", "W^K", "W^V"), given, strict=False):
        rows = domain.quantise(one)
        columns = len(found[0][0]) if name == "W^K" else len(rows[0])
        if len(rows) != width or any(len(row) != columns for row in rows):
            domain.refuse("projections", f"a {name} of {width} x {columns}", rows)
        found.append(rows)
    return found

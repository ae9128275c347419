"""An explorer of self-attention: a sentence, its vectors, and every number up to the outputs."""

from collections.abc import Mapping, Sequence

import traitlets

from kit.shared import validate
from kit.shared.widget import BookWidget, static_table

MOST_TOKENS = 64
MOST_ENTRIES = 512
MOST_SLIDERS = 8  # entries of an embedding that get a slider each
WIDTHS = (2, 4, 8, 16, 32, 64, 128, 256, 512)
SPREADS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0)
LAST_SEED = 99
LIMIT = 2  # entries of an embedding lie between -2 and 2, where the sliders reach them


class SelfAttentionExplorer(BookWidget):
    """Type a sentence of known words, change their vectors, and follow each number to the output.

    Queries, keys and values are the vectors themselves, without projections: so each number can
    be checked with a pencil. The browser adds sinusoidal positions if asked to.

    Or let the browser draw the vectors at random: up to 64 tokens of up to 512 numbers.

    Args: words, the embedding of each known word, 2 to 512 numbers from -2 to 2, as many for each
        (up to 8 can be changed in the page); sentence, 1 to 64 of these words; random, (tokens,
        width) to begin with random vectors, a width of `WIDTHS`, None to begin with the sentence;
        spread, their standard deviation, of `SPREADS`; seed, which draw; scaled, whether the
        scores are divided by sqrt(width); causal, whether a token sees itself and earlier ones
        only; positions, whether they are added; query, key and entry (of the output), the places
        whose arithmetic is spelt out first.
    Errors: ValueError for a word that is not known, or vectors or sizes that do not fit.
    Source: Attention Is All You Need, section 3.2.1, made to move.
    """

    _module = "self_attention_explorer"
    words = traitlets.List().tag(sync=True)  # the known words, and their embeddings:
    vectors = traitlets.List().tag(sync=True)  # word x entry
    limit = traitlets.Int(LIMIT).tag(sync=True)
    most_tokens = traitlets.Int(MOST_TOKENS).tag(sync=True)
    most_sliders = traitlets.Int(MOST_SLIDERS).tag(sync=True)
    widths = traitlets.List(list(WIDTHS)).tag(sync=True)
    spreads = traitlets.List(list(SPREADS)).tag(sync=True)
    last_seed = traitlets.Int(LAST_SEED).tag(sync=True)
    source = traitlets.Unicode().tag(sync=True)
    sentence = traitlets.Unicode().tag(sync=True)
    n_tokens = traitlets.Int().tag(sync=True)
    width = traitlets.Int().tag(sync=True)
    spread = traitlets.Float().tag(sync=True)
    seed = traitlets.Int().tag(sync=True)
    edited = traitlets.Unicode("").tag(sync=True)
    scaled = traitlets.Bool().tag(sync=True)
    causal = traitlets.Bool().tag(sync=True)
    positions = traitlets.Bool().tag(sync=True)
    query = traitlets.Int().tag(sync=True)
    key = traitlets.Int().tag(sync=True)
    entry = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        words: Mapping[str, Sequence[float]],
        sentence: str,
        *,
        random: tuple[int, int] | None = None,
        spread: float = 1.0,
        seed: int = 0,
        scaled: bool = False,
        causal: bool = False,
        positions: bool = False,
        query: int = 0,
        key: int = 0,
        entry: int = 0,
    ):
        tokens = sentence.split()
        if not 1 <= len(tokens) <= MOST_TOKENS:
            raise ValueError(f"sentence: expected 1 to {MOST_TOKENS} words, got {len(tokens)}")
        unknown = sorted(set(tokens) - set(words))
        if unknown:
            raise ValueError(f"sentence: expected words out of {sorted(words)}, got {unknown}")
        names = list(words)
        if bad := [name for name in names if not name or set(" =;,") & set(name)]:
            raise ValueError(f"words: expected words without spaces and = ; , got {bad}")
        width = len(words[names[0]])
        if not 2 <= width <= MOST_ENTRIES:
            raise ValueError(f"words: expected 2 to {MOST_ENTRIES} numbers each, got {width}")
        rows = validate.matrix([words[name] for name in names], len(names), width, "words")
        if any(abs(value) > LIMIT for row in rows for value in row):
            raise ValueError(f"words: expected numbers from {-LIMIT} to {LIMIT}, got larger ones")
        time, wide = random or (16, 64)
        validate.whole(time, 1, MOST_TOKENS, "random, tokens")
        validate.one_of(wide, WIDTHS, "random, width")
        validate.one_of(spread, SPREADS, "spread")
        validate.whole(seed, 0, LAST_SEED, "seed")
        n_shown = time if random else len(tokens)
        super().__init__(
            words=names,
            vectors=rows,
            source="random" if random else "sentence",
            sentence=" ".join(tokens),
            n_tokens=time,
            width=wide,
            spread=spread,
            seed=seed,
            scaled=scaled,
            causal=causal,
            positions=positions,
            query=validate.index(query, n_shown, "query"),
            key=validate.index(key, n_shown, "key"),
            entry=validate.index(entry, wide if random else width, "entry"),
        )

    def summary(self) -> str:
        if self.source == "random":
            return f"SelfAttentionExplorer: {self.n_tokens} random tokens of width {self.width}"
        return f"SelfAttentionExplorer: {self.sentence!r}"

    def static_html(self) -> str:
        known = dict(zip(self.words, self.vectors, strict=True))
        shown = [(token, known[token]) for token in self.sentence.split()]
        rows = [(token, *(f"{value:g}" for value in row[:MOST_SLIDERS])) for token, row in shown]
        header = ("token", *(f"entry {i + 1}" for i in range(len(rows[0]) - 1)))
        more = len(shown[0][1]) - MOST_SLIDERS
        cut = f" (the first {MOST_SLIDERS} entries; {more} more)" if more > 0 else ""
        return static_table(f"The embeddings of the sentence{cut}", header, rows)

"""An explorer of self-attention: a sentence, its vectors, and every number up to the outputs."""

from collections.abc import Mapping, Sequence

import traitlets

from lib.widgets import validate
from lib.widgets.base import BookWidget, static_table

MOST_TOKENS = 8
MOST_ENTRIES = 8
LIMIT = 2  # entries of an embedding lie between -2 and 2, where the sliders reach them


class SelfAttentionExplorer(BookWidget):
    """Type a sentence of known words, change their vectors, and follow each number to the output.

    Queries, keys and values are the vectors themselves, without projections: so each number can
    be checked with a pencil. The browser adds sinusoidal positions if asked to.

    Args: words, the embedding of each known word, 2 to 8 numbers from -2 to 2, as many for each;
        sentence, one to eight of these words; scaled, whether the scores are divided by
        sqrt(width); causal, whether a token sees itself and earlier ones only; positions, whether
        they are added; query and key, the places whose arithmetic is spelt out first.
    Errors: ValueError for a word that is not known, or vectors that do not fit.
    Source: Attention Is All You Need, section 3.2.1, made to move. Chapter: 4 (Self-attention).
    """

    _module = "self_attention_explorer"
    words = traitlets.List().tag(sync=True)  # the known words, and their embeddings:
    vectors = traitlets.List().tag(sync=True)  # word x entry
    limit = traitlets.Int(LIMIT).tag(sync=True)
    most_tokens = traitlets.Int(MOST_TOKENS).tag(sync=True)
    sentence = traitlets.Unicode().tag(sync=True)
    edited = traitlets.Unicode("").tag(sync=True)
    scaled = traitlets.Bool().tag(sync=True)
    causal = traitlets.Bool().tag(sync=True)
    positions = traitlets.Bool().tag(sync=True)
    query = traitlets.Int().tag(sync=True)
    key = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        words: Mapping[str, Sequence[float]],
        sentence: str,
        *,
        scaled: bool = False,
        causal: bool = False,
        positions: bool = False,
        query: int = 0,
        key: int = 0,
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
        super().__init__(
            words=names,
            vectors=rows,
            sentence=" ".join(tokens),
            scaled=scaled,
            causal=causal,
            positions=positions,
            query=validate.index(query, len(tokens), "query"),
            key=validate.index(key, len(tokens), "key"),
        )

    def summary(self) -> str:
        return f"SelfAttentionExplorer: {self.sentence!r}"

    def static_html(self) -> str:
        tokens = self.sentence.split()
        known = dict(zip(self.words, self.vectors, strict=True))
        rows = [(token, *(f"{value:g}" for value in known[token])) for token in tokens]
        header = ("token", *(f"entry {i + 1}" for i in range(len(rows[0]) - 1)))
        return static_table("The embeddings of the sentence", header, rows)

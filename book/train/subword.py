"""Sub-words: frequent words stay whole, rare ones fall into pieces, and hardly any is unknown.

Byte-pair encoding begins with single letters and merges the most frequent pair of neighbours again
and again, until the vocabulary has the wanted size. The optional package `tokenizers` does it.
"""

import json
from collections.abc import Iterable, Sequence

from jaxtyping import Int
from torch import Tensor

from lib.data import SPECIAL, UNK, Vocabulary

END = "</w>"  # the last piece of a word ends with it


class SubwordVocabulary(Vocabulary):
    """A vocabulary of pieces of words.

    `encode` splits each token into pieces, `decode` puts them together again: tokens go in, tokens
    come out. A token with a letter that was never seen is UNK as a whole.

    Args: what `from_sentences` made, as text in the format of `tokenizers`.
    Errors: ModuleNotFoundError with the command that helps if `tokenizers` is missing; ValueError
    for another text. Source: Sennrich et al. 2016.
    """

    def __init__(self, tokenizer: str):
        tokenizers = _tokenizers()
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(tokenizer)
            self._tokenizer.encode(["\uffff"], is_pretokenized=True)  # an unknown one needs UNK
        except Exception as error:  # the package raises no narrower class
            raise ValueError(f"expected a tokenizer that tokenizers wrote, got: {error}") from error
        number_of = self._tokenizer.get_vocab()
        self.tokens = tuple(sorted(number_of, key=number_of.__getitem__))
        if sorted(number_of.values()) != list(range(len(number_of))):
            raise ValueError("expected pieces with the numbers 0, 1, 2 ..., got gaps or doubles")
        if self.tokens[: len(SPECIAL)] != SPECIAL:
            got = self.tokens[: len(SPECIAL)]
            raise ValueError(f"expected the numbers 0 to 3 to be {SPECIAL}, got {got}")
        self._pieces: dict[str, list[int]] = {}  # each word is split once

    @classmethod
    def from_sentences(  # type: ignore[override]  # a size in place of the least count
        cls, sentences: Iterable[Sequence[str]], size: int
    ) -> "SubwordVocabulary":
        """Learn at most `size` pieces, the special tokens among them, from sentences as tokens.

        The same sentences give the same pieces under the same numbers, in every run.

        Errors: ValueError for a size that has no room for the letters, for no sentences or no
        letters, and for text that is not yet split into tokens.
        Source: Sennrich et al. 2016.
        """
        tokenizers = _tokenizers()
        texts = [" ".join(cls._cut(sentence)) for sentence in sentences]
        # Of more pieces than letters and merges none comes; the package makes room for all at once.
        most = len(SPECIAL) + 3 * sum(map(len, {word for text in texts for word in text.split()}))
        if most == len(SPECIAL) or size < len(SPECIAL):
            raise ValueError(
                "expected at least one sentence with letters to learn sub-words from and a size "
                f"from {len(SPECIAL)}, got {len(texts)} sentences and a size of {size}"
            )
        tokenizer = tokenizers.Tokenizer(
            tokenizers.models.BPE(unk_token=SPECIAL[UNK], end_of_word_suffix=END)
        )
        split = tokenizers.pre_tokenizers.WhitespaceSplit()
        tokenizer.pre_tokenizer = split
        # The package numbers letters at the end of a word in another order each time, and which of
        # two pairs is merged first can depend on their numbers. Given in order, as if they were
        # special tokens, they have the same numbers in every run; afterwards they are pieces.
        words = {word for text in texts for word, _ in split.pre_tokenize_str(text)}
        ends = sorted({word[-1] + END for word in words})
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=min(size, most),
            special_tokens=[*SPECIAL, *ends],
            end_of_word_suffix=END,
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        learnt = json.loads(tokenizer.to_str())
        learnt["added_tokens"] = [t for t in learnt["added_tokens"] if t["content"] in SPECIAL]
        vocabulary = cls(json.dumps(learnt))
        if len(vocabulary) > size:
            raise ValueError(
                f"expected a size with room for each letter inside and at the end of words, at "
                f"least {len(vocabulary)}, got {size}"
            )
        return vocabulary

    def __repr__(self) -> str:
        return f"SubwordVocabulary({len(self)} pieces)"

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """Turn tokens into the numbers of their pieces; adds no EOS.

        Errors: ValueError for a text that is not yet split into tokens.
        """
        numbers = []
        for token in self._cut(tokens):
            if token not in self._pieces:
                ids = self._tokenizer.encode([token], is_pretokenized=True).ids
                self._pieces[token] = ids if ids and min(ids) > UNK else [UNK]
            numbers += self._pieces[token]
        return numbers

    def decode(self, ids: Iterable[int] | Int[Tensor, " time"]) -> list[str]:
        """Turn numbers into whole tokens: stops at the first EOS, leaves out PAD and BOS.

        A word that a model leaves unfinished ends at the next UNK or at the end.
        Errors: ValueError for a number that the vocabulary does not have.
        """
        words: list[str] = []
        word = ""
        for i in self._until_the_end(ids):
            piece = self.tokens[i]
            if i == UNK and word:
                words, word = [*words, word], ""
            word += piece.removesuffix(END)
            if i == UNK or piece.endswith(END):
                words, word = [*words, word], ""
        return [*words, word] if word else words

    def to_text(self) -> str:
        """The text from which the class makes this vocabulary again."""
        return self._tokenizer.to_str()

    @property
    def merges(self) -> list[tuple[str, str]]:
        """The pairs of neighbours that become one piece, the first one that was learned first."""
        written = json.loads(self.to_text())["model"]["merges"]
        # Earlier versions of the package write a pair as a text; no piece has a blank.
        pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in written)
        return [(left, right) for left, right in pairs]


def labels(vocabulary: Vocabulary) -> tuple[str, ...]:
    """What a reader sees of each token: a piece that does not end its word has a hyphen behind."""
    if not isinstance(vocabulary, SubwordVocabulary):
        return vocabulary.tokens
    return SPECIAL + tuple(
        piece.removesuffix(END) if piece.endswith(END) else f"{piece}-"
        for piece in vocabulary.tokens[len(SPECIAL) :]
    )


def vocabulary_to_json(vocabulary: Vocabulary) -> str:
    """Write a vocabulary, of words or of sub-words, as JSON."""
    if isinstance(vocabulary, SubwordVocabulary):
        return json.dumps({"tokenizer": vocabulary.to_text()})
    return json.dumps({"words": vocabulary.tokens[len(SPECIAL) :]})


def vocabulary_from_json(text: str) -> Vocabulary:
    """Make again what `vocabulary_to_json` wrote.

    Errors: ValueError for other text.
    """
    try:
        written = json.loads(text)
    except (TypeError, RecursionError, ValueError):
        written = None
    if isinstance(written, dict) and isinstance(written.get("tokenizer"), str):
        return SubwordVocabulary(written["tokenizer"])
    if isinstance(written, dict) and isinstance(written.get("words"), list):
        return Vocabulary(written["words"])
    raise ValueError(f"expected what vocabulary_to_json wrote, got {str(text)[:60]!r}")


def _tokenizers():
    """The optional package; told apart from a mistake in the reader's own code."""
    try:
        import tokenizers
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError as error:
        raise ModuleNotFoundError(
            "expected the package tokenizers, which sub-words need, but it is not installed: "
            "run `pip install tokenizers`, or use whole words"
        ) from error
    return tokenizers

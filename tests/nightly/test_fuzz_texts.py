"""Any text goes through all that reads text, and nothing of it is lost."""

from collections.abc import Callable
from functools import reduce

import pytest
from hypothesis import example, given, settings

from lib.data import Pair, Vocabulary, read_parallel, tokenise
from lib.decoding import translate
from tests.nightly.judging import BASE, outcome
from tests.nightly.texts import TEXTS, texts
from train.checkpoints import load_published
from train.subword import SubwordVocabulary, vocabulary_from_json, vocabulary_to_json


def each_of_them(test: Callable) -> Callable:
    """The hostile texts too, whatever else is drawn."""
    return reduce(lambda so_far, one: example(text=one)(so_far), TEXTS, test)


@pytest.fixture(scope="module")
def published():
    return load_published()


@each_of_them
@settings(max_examples=BASE)
@given(text=texts)
def test_a_typed_text_is_read_and_translated(text, published):
    tokens = tokenise(text)
    assert all(token and not token.isspace() for token in tokens)
    assert tokenise(" ".join(tokens)) == tokens
    words = Vocabulary.from_sentences([tokens, ("a", "b")])
    assert tuple(words.decode(words.encode(tokens))) == tokens
    assert vocabulary_from_json(vocabulary_to_json(words)).tokens == words.tokens
    model, *vocabularies = published
    outcome(lambda: translate(model, [Pair(tokens, ())], *vocabularies, max_length=5))


@each_of_them
@settings(max_examples=BASE)
@given(text=texts)
def test_sub_words_of_any_text_come_back_from_their_file(text):
    end, pieces = outcome(
        lambda: SubwordVocabulary.from_sentences([tokenise(text), ("a", "b")], 600)
    )
    if end == "returned":
        again = vocabulary_from_json(vocabulary_to_json(pieces))
        assert again.encode(tokenise(text)) == pieces.encode(tokenise(text))


@each_of_them
@settings(max_examples=BASE)
@given(text=texts)
def test_a_line_of_any_text_is_a_pair_or_is_refused(text, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "typed.tsv"
    path.write_bytes(f"{text}\t{text}\n".encode("utf-8", "surrogatepass"))
    outcome(lambda: read_parallel(path))
